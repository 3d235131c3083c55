// When the screen looks for news: at the data's rate, at most 20 times a second and never for more than a share of one
// core; for a second after the person moved something five times a second at least, whatever it costs; not at all when
// nothing can have changed. Plots repaint what follows the mouse by themselves.
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

  void setSourceActive(bool active);  // a model is training: news will come by itself
  void setVisible(bool visible);      // the window can be seen
  void wake();                        // something else happened that may bring news
  bool ticking() const { return timer_.isActive(); }

 signals:
  void ticked();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;  // on the application: input anywhere in the window

 private:
  void tick();
  void account();
  void schedule();
  bool interactive() const;

  Selection* selection_;
  QTimer timer_;
  QElapsedTimer since_input_, since_news_;
  bool source_active_ = false, visible_ = true, news_ = false;
  double cpu_at_tick_ = 0, frame_ms_ = 0;  // CPU time of the GUI thread; that of a frame is smoothed
};

}  // namespace moescope
