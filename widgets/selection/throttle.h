// Passes changes on no faster than they can be followed: the first after a rest at once, then one in `interval_ms` at
// most, and the last in any case.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QTimer>

namespace moescope {

class Throttle : public QObject {
  Q_OBJECT

 public:
  explicit Throttle(int interval_ms, QObject* parent = nullptr);

  void change();  // emits passed(), now or later
  void forget();  // what waits is not passed on

 signals:
  void passed();

 private:
  void pass();

  QElapsedTimer since_passed_;
  QTimer last_;  // for the one after which no other comes
};

}  // namespace moescope
