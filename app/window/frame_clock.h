// Decides when the screen looks for new data: at the data's rate, at most 20 times a second and for a limited share of
// one core; for a second after a click, the wheel or a key at least five times a second at any cost; not at all when
// nothing can have changed. Plots repaint for the mouse by themselves.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QTimer>

namespace moescope {

class Selection;

// Milliseconds until the next frame when one costs `frame_ms` of CPU.
int frameIntervalMs(double frame_ms, bool interactive);

class FrameClock : public QObject {
  Q_OBJECT

 public:
  explicit FrameClock(Selection* selection, QObject* parent = nullptr);

  void setSourceActive(bool active);  // whether a run trains, so that news comes by itself
  void setVisible(bool visible);      // whether the window is visible
  void wake();                        // call for any other event that may bring news
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
