// Limits the rate of changes. The first change after a rest passes immediately, later changes pass at most once in
// `interval_ms`, and the last change always passes.
#pragma once

#include <QTimer>

namespace moescope {

class Throttle : public QObject {
  Q_OBJECT

 public:
  explicit Throttle(int interval_ms) {
    pause_.setSingleShot(true);
    pause_.setInterval(interval_ms);
    connect(&pause_, &QTimer::timeout, this, [this] {
      if (waiting_) change();
    });
  }

  // Emits passed(), now or later.
  void change() {
    waiting_ = pause_.isActive();
    if (waiting_) return;
    pause_.start();
    emit passed();
  }
  void forget() { waiting_ = false; }  // drops a waiting change

 signals:
  void passed();

 private:
  QTimer pause_;  // runs until the next change may pass
  bool waiting_ = false;
};

}  // namespace moescope
