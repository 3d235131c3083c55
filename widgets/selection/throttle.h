// Limits the rate of changes: passes the first after a rest at once, then one in `interval_ms` at most, and always the
// last.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QTimer>

namespace moescope {

class Throttle : public QObject {
  Q_OBJECT

 public:
  explicit Throttle(int interval_ms, QObject* parent = nullptr);

  void change();                   // emits passed(), now or later
  void forget() { last_.stop(); }  // drops a waiting change

 signals:
  void passed();

 private:
  void pass();

  QElapsedTimer since_passed_;
  QTimer last_;  // timer for the last change
};

}  // namespace moescope
