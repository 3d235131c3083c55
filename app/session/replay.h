// Plays an opened recording as if it were training now: the cursor goes from step to step at a chosen speed, and every
// time axis ends where it is.
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
  void play();  // from the cursor on; from the beginning where it stands at the end
  void pause();
  void stepOnce();
  void toStart();
  bool playing() const { return timer_.isActive(); }
  void setSpeed(double steps_per_s) { speed_ = steps_per_s; }  // 0: the whole in kWholeSeconds
  void setLoop(bool loop) { loop_ = loop; }

  static constexpr double kWholeSeconds = 10;

 signals:
  void changed();  // began, ended, or came to another step

 private:
  void tick();
  void show(std::int64_t step);

  Selection* selection_;
  QTimer timer_;
  QElapsedTimer since_tick_;
  double speed_ = 0, due_ = 0;  // steps that time has earned
  bool loop_ = false;
};

}  // namespace moescope
