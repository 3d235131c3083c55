// Plays an opened recording as if it were training: the cursor moves from step to step at a chosen speed, and every
// time axis ends at it.
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
  void play();  // from the cursor, or from the beginning if it is at the end
  void pause();
  void stepOnce();
  void toStart();
  bool playing() const { return timer_.isActive(); }
  void setSpeed(double steps_per_s) { speed_ = steps_per_s; }  // 0: the whole recording in kWholeSeconds
  void setLoop(bool loop) { loop_ = loop; }

  static constexpr double kWholeSeconds = 10;

 signals:
  void changed();  // started, stopped, or moved to another step

 private:
  void tick();
  void show(std::int64_t step);

  Selection* selection_;
  QTimer timer_;
  QElapsedTimer since_tick_;
  double speed_ = 0, due_ = 0;  // steps due by now
  bool loop_ = false;
};

}  // namespace moescope
