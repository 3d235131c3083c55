// Mice report up to a thousand moves a second, a screen shows sixty: of the moves between two frames the last one
// counts. It comes before whatever the person does next.
#pragma once

#include <QElapsedTimer>
#include <QEvent>
#include <QObject>
#include <QPointer>
#include <QTimer>
#include <memory>

namespace moescope {

// Installed as an event filter on a QWindow.
class MousePace : public QObject {
 public:
  explicit MousePace(QObject* parent = nullptr);

 protected:
  bool eventFilter(QObject* window, QEvent* event) override;

 private:
  void deliver();

  QTimer timer_;
  QElapsedTimer since_delivered_;
  QPointer<QObject> window_;
  std::unique_ptr<QEvent> waiting_;
  bool delivering_ = false;
};

}  // namespace moescope
