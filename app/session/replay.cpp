#include "app/session/replay.h"

#include <algorithm>
#include <cmath>

#include "widgets/selection/selection.h"

namespace moescope {

namespace {

constexpr int kTickMs = 33;

}  // namespace

Replay::Replay(Selection* selection, QObject* parent) : QObject(parent), selection_(selection) {
  timer_.setInterval(kTickMs);
  connect(&timer_, &QTimer::timeout, this, &Replay::tick);
}

void Replay::play() {
  if (!selection_->history() || selection_->history()->steps().empty()) return;
  const StepRange all = selection_->history()->steps();
  show(selection_->step() >= all.last ? all.first : selection_->step());
  due_ = 0;
  since_tick_.start();
  timer_.start();
  emit changed();
}

void Replay::pause() {
  timer_.stop();
  emit changed();
}

void Replay::stepOnce() {
  pause();
  selection_->moveStep(1);
  if (selection_->history()) show(selection_->step());
}

void Replay::toStart() {
  if (selection_->history()) show(selection_->history()->steps().first);
}

void Replay::tick() {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return pause();
  const StepRange all = history->steps();
  const double speed = speed_ > 0 ? speed_ : all.size() / kWholeSeconds;
  due_ += speed * 1e-3 * since_tick_.restart();
  const auto steps = static_cast<std::int64_t>(std::floor(due_));
  if (steps < 1) return;
  const std::int64_t before = selection_->step();
  show(before + steps);
  due_ -= selection_->step() - before;  // in a log the next step may be many steps away
  if (selection_->step() >= all.last) pause();
}

void Replay::show(std::int64_t step) {
  const StepRange all = selection_->history()->steps();
  selection_->setStep(step);
  const std::int64_t at = selection_->step();
  // Shows at least two steps, since an axis needs two.
  selection_->setRange({all.first, std::max(at, std::min(all.first + 1, all.last))});
  emit changed();
}

}  // namespace moescope
