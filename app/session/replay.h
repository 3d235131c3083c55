// Replays an opened recording: the cursor moves at a chosen speed, and every time axis ends at it.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QTimer>

namespace moescope {

class Selection;

class Replay : public QObject {
  Q_OBJECT

 public:
  explicit Replay(Selection* selection, QObject* parent = nullptr);
  void play();  // plays from the cursor, or from the beginning if the cursor is at the end
  void pause();
  void stepOnce();
  void toStart();
  bool playing() const { return timer_.isActive(); }
  void setSpeed(double steps_per_s) { speed_ = steps_per_s; }  // 0: plays the whole recording in kWholeSeconds

  static constexpr double kWholeSeconds = 10;

 signals:
  void changed();  // the replay started, stopped or moved

 private:
  void tick();
  void show(std::int64_t step);

  Selection* selection_;
  QTimer timer_;
  QElapsedTimer since_tick_;
  double speed_ = 0, due_ = 0;  // number of steps that are due
};

}  // namespace moescope
