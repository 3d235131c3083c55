// Decides when the screen looks for new data: at the rate of the data, but at most 20 times a second and with a limited
// share of one core. For a second after a click, the wheel or a key, at least five times a second whatever the cost.
// Stops when nothing can have changed. Plots repaint for the mouse without this clock.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QTimer>

namespace moescope {

class Selection;

// Returns the milliseconds until the next frame if a frame costs `frame_ms` of CPU time.
int frameIntervalMs(double frame_ms, bool interactive);

class FrameClock : public QObject {
  Q_OBJECT

 public:
  explicit FrameClock(Selection* selection, QObject* parent = nullptr);

  void setSourceActive(bool active);  // whether new data may arrive at any time: a run trains, a file is followed
  void setVisible(bool visible);      // whether the window is visible
  void wake();                        // call for any other event that may bring new data
  bool ticking() const { return timer_.isActive(); }

 signals:
  void ticked();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;  // watches the application for input in the window

 private:
  void tick();
  void account();
  void schedule();
  bool interactive() const;

  Selection* selection_;
  QTimer timer_;
  QElapsedTimer since_input_, since_news_;
  bool source_active_ = false, visible_ = true, news_ = false;
  double cpu_at_tick_ = 0, frame_ms_ = 0;  // CPU time of the GUI thread at the last tick; smoothed CPU time of a frame
};

}  // namespace moescope
