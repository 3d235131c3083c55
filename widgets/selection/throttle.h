// Limits the rate of changes: passes the first after a rest at once, then one in `interval_ms` at most, and always the
// last.
#pragma once

#include <QTimer>

namespace moescope {

class Throttle : public QObject {
  Q_OBJECT

 public:
  explicit Throttle(int interval_ms, QObject* parent = nullptr);

  void change();                       // emits passed(), now or later
  void forget() { waiting_ = false; }  // drops a waiting change

 signals:
  void passed();

 private:
  QTimer rest_;  // runs until the next change may pass
  bool waiting_ = false;
};

}  // namespace moescope
