#include "app/window/mouse_pace.h"

#include <QCoreApplication>
#include <utility>

namespace moescope {
namespace {

constexpr int kFrameMs = 16;

}  // namespace

MousePace::MousePace(QObject* parent) : QObject(parent) {
  timer_.setTimerType(Qt::PreciseTimer);
  timer_.setSingleShot(true);
  connect(&timer_, &QTimer::timeout, this, &MousePace::deliver);
}

bool MousePace::eventFilter(QObject* window, QEvent* event) {
  if (delivering_) return false;
  if (event->type() != QEvent::MouseMove) {
    if (event->isInputEvent() || event->type() == QEvent::Leave) deliver();
    return false;
  }
  const qint64 passed = since_delivered_.isValid() ? since_delivered_.elapsed() : kFrameMs;
  if (!waiting_ && passed >= kFrameMs) {
    since_delivered_.start();
    return false;
  }
  waiting_.reset(event->clone());
  window_ = window;
  if (!timer_.isActive()) timer_.start(static_cast<int>(kFrameMs - passed));
  return true;
}

void MousePace::deliver() {
  timer_.stop();
  const std::unique_ptr<QEvent> move = std::exchange(waiting_, nullptr);
  if (!move || !window_) return;
  since_delivered_.start();
  delivering_ = true;
  QCoreApplication::sendEvent(window_, move.get());
  delivering_ = false;
}

}  // namespace moescope
