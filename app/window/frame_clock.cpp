#include "app/window/frame_clock.h"

#include <QCoreApplication>
#include <QEvent>
#include <algorithm>
#include <ctime>

#include "widgets/selection/selection.h"

namespace moescope {

namespace {

constexpr int kDataMs = 50;            // 20 Hz
constexpr double kScreenShare = 0.05;  // share of one core that the screen may take
constexpr int kInputLastsMs = 1000;
constexpr int kIdleMs = 1000;  // without an active source, ticks stop this long after the last new data
constexpr int kQuietMs = 250;
constexpr int kSlowestMs = 500, kSlowestAfterInputMs = 200;

double threadCpuMs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * time.tv_sec + 1e-6 * time.tv_nsec;
}

bool isInput(QEvent::Type type) {
  switch (type) {
    case QEvent::MouseButtonPress:
    case QEvent::Wheel:
    case QEvent::KeyPress:
    case QEvent::TouchUpdate:
    case QEvent::NativeGesture:
      return true;
    default:
      return false;
  }
}

}  // namespace

int frameIntervalMs(double frame_ms, bool interactive) {
  return std::clamp(static_cast<int>(frame_ms / kScreenShare), kDataMs,
                    interactive ? kSlowestAfterInputMs : kSlowestMs);
}

FrameClock::FrameClock(Selection* selection, QObject* parent) : QObject(parent), selection_(selection) {
  timer_.setTimerType(Qt::PreciseTimer);
  timer_.setSingleShot(true);
  connect(&timer_, &QTimer::timeout, this, &FrameClock::tick);
  connect(selection, &Selection::dataChanged, this, [this] { news_ = true; });
  QCoreApplication::instance()->installEventFilter(this);
  since_input_.start();
  since_news_.start();
  cpu_at_tick_ = threadCpuMs();
}

bool FrameClock::interactive() const {
  return since_input_.elapsed() < kInputLastsMs;
}

void FrameClock::setSourceActive(bool active) {
  if (active == source_active_) return;
  source_active_ = active;
  wake();
}

void FrameClock::setVisible(bool visible) {
  visible_ = visible;
  visible ? wake() : timer_.stop();
}

void FrameClock::wake() {
  since_news_.restart();
  if (visible_ && !timer_.isActive()) {
    cpu_at_tick_ = threadCpuMs();
    timer_.start(0);
  }
}

void FrameClock::tick() {
  news_ = false;
  selection_->refresh();
  if (news_) since_news_.restart();
  account();
  if (source_active_ || interactive() || since_news_.elapsed() < kIdleMs) schedule();
  emit ticked();  // listeners may ask whether another tick follows
}

// Counts the CPU time of the GUI thread since the last tick as the cost of the frame: reading data, painting, events.
void FrameClock::account() {
  const double cpu = threadCpuMs();
  const double cost = cpu - cpu_at_tick_;
  cpu_at_tick_ = cpu;
  frame_ms_ = frame_ms_ == 0 ? cost : 0.9 * frame_ms_ + 0.1 * cost;
}

// Ticks less often during a slow step or a pause, but often enough that new data shows within a quarter of a second.
void FrameClock::schedule() {
  const bool quiet = since_news_.elapsed() >= kIdleMs && !interactive();
  timer_.start(quiet ? kQuietMs : frameIntervalMs(frame_ms_, interactive()));
}

bool FrameClock::eventFilter(QObject* watched, QEvent* event) {
  if (event->spontaneous() && isInput(event->type())) {
    const bool was_interactive = interactive();
    since_input_.restart();
    if (!was_interactive && visible_ && timer_.isActive()) timer_.start(kDataMs);
    if (!timer_.isActive()) wake();
  }
  return QObject::eventFilter(watched, event);
}

}  // namespace moescope
