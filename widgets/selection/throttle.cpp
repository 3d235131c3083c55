#include "widgets/selection/throttle.h"

namespace moescope {

Throttle::Throttle(int interval_ms, QObject* parent) : QObject(parent) {
  rest_.setSingleShot(true);
  rest_.setInterval(interval_ms);
  connect(&rest_, &QTimer::timeout, this, [this] {
    if (waiting_) change();
  });
}

void Throttle::change() {
  waiting_ = rest_.isActive();
  if (waiting_) return;
  rest_.start();
  emit passed();
}

}  // namespace moescope
