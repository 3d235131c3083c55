#include "widgets/selection/throttle.h"

namespace moescope {

Throttle::Throttle(int interval_ms, QObject* parent) : QObject(parent) {
  last_.setSingleShot(true);
  last_.setInterval(interval_ms);
  connect(&last_, &QTimer::timeout, this, &Throttle::pass);
}

void Throttle::change() {
  if (since_passed_.isValid() && since_passed_.elapsed() < last_.interval()) {
    if (!last_.isActive()) last_.start();
  } else {
    pass();
  }
}

void Throttle::pass() {
  last_.stop();
  since_passed_.start();
  emit passed();
}

}  // namespace moescope
