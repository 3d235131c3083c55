#include "app/actions/scan_actions.h"

#include <exception>

#include "app/session/kernel_question.h"
#include "app/session/run_session.h"
#include "app/session/step_plan.h"
#include "app/workspaces/workspace_tabs.h"
#include "widgets/microscaling/operand_costs_panel.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr int kPollMs = 100;

}  // namespace

ScanActions::ScanActions(const Context& context)
    : Actions(context), panels_(workspaces_->findChildren<OperandCostsPanel*>()) {
  timer_.setInterval(kPollMs);
  connect(&timer_, &QTimer::timeout, this, &ScanActions::look);
  connect(session_, &RunSession::opened, this, [this] {
    timer_.stop();
    scan_.reset();
    twins_.reset();
    for (OperandCostsPanel* panel : panels_) {
      panel->showMeasured(nullptr);
      panel->showTwins(recordedTwins());
    }
  });
  for (OperandCostsPanel* panel : panels_) {
    connect(panel, &OperandCostsPanel::measurementRequested, this, &ScanActions::ask);
    connect(panel, &OperandCostsPanel::twinsRequested, this, &ScanActions::startTwins);
    connect(panel, &OperandCostsPanel::measurementCancelled, this, [this] { stop("Cancelled."); });
  }
}

// Of the first run whose recording has a scan; nullptr: there is none.
std::shared_ptr<const MeasuredTwins> ScanActions::recordedTwins() const {
  for (std::size_t run = 0; run < session_->histories().size(); ++run)
    for (const Marker& marker : session_->histories()[run]->markers()) {
      if (marker.kind != kOperandsMarker) continue;
      if (auto scan = scan_in(marker.text); scan && !scan->twins.empty())
        return std::make_shared<const MeasuredTwins>(
            MeasuredTwins{runLabel(*selection_, static_cast<int>(run)), std::move(*scan)});
    }
  return nullptr;
}

void ScanActions::ask(int run, std::int64_t step) {
  const std::string kernels = session_->histories()[static_cast<std::size_t>(run)]->info().kernels;
  withKernelsAsked(messages_->window(), kernels, session_->paths(), [this, run, step] { start(run, step); });
}

void ScanActions::start(int run, std::int64_t step) {
  scan_.reset();
  twins_.reset();
  try {
    const History& history = *session_->histories()[static_cast<std::size_t>(run)];
    scan_ = std::make_unique<RecomputedScan>(planOfStep(*session_, history, {}, step));
  } catch (const std::exception& refused) {
    return stop(QString("This cannot be measured: %1.").arg(QString::fromUtf8(refused.what())));
  }
  run_ = runLabel(*selection_, run);
  timer_.start();
  look();
}

void ScanActions::startTwins(int run, Recipe recipe) {
  scan_.reset();
  twins_.reset();
  try {
    twins_ = std::make_unique<CheckpointTwins>(*session_->histories()[static_cast<std::size_t>(run)], recipe);
  } catch (const std::exception& refused) {
    return stop(QString("This cannot be measured: %1.").arg(QString::fromUtf8(refused.what())));
  }
  run_ = runLabel(*selection_, run);
  timer_.start();
  look();
}

void ScanActions::stop(const QString& why) {
  timer_.stop();
  scan_.reset();
  twins_.reset();
  for (OperandCostsPanel* panel : panels_) panel->showRefused(why);
}

void ScanActions::showProgress(const QString& progress) {
  for (OperandCostsPanel* panel : panels_) panel->showMeasuring(progress);
}

void ScanActions::look() {
  if (scan_) return lookAtScan();
  if (twins_) lookAtTwins();
}

void ScanActions::lookAtScan() {
  const std::int64_t step = scan_->plan().step;
  if (!scan_->over())
    return showProgress(
        scan_->passes() > 0
            ? QString("Rounding one operand at a time at step %1: %2 of %3 passes.")
                  .arg(step)
                  .arg(scan_->passes_done())
                  .arg(scan_->passes())
            : QString("A copy of %1 trains up to step %2: at step %3.").arg(run_).arg(step).arg(scan_->next_step()));
  if (!scan_->scan()) return stop(QString("This was not measured: %1.").arg(QString::fromStdString(scan_->error())));
  timer_.stop();
  const auto measured = std::make_shared<const MeasuredOperands>(MeasuredOperands{run_, step, *scan_->scan()});
  scan_.reset();
  for (OperandCostsPanel* panel : panels_) panel->showMeasured(measured);
}

void ScanActions::lookAtTwins() {
  if (!twins_->over())
    return showProgress(
        QString("Rounding one operand at a time: %1 of %2 passes.").arg(twins_->passes_done()).arg(twins_->passes()));
  if (!twins_->error().empty())
    return stop(QString("This was not measured: %1.").arg(QString::fromStdString(twins_->error())));
  timer_.stop();
  const auto measured = std::make_shared<const MeasuredTwins>(MeasuredTwins{run_, twins_->scan()});
  twins_.reset();
  for (OperandCostsPanel* panel : panels_) panel->showTwins(measured);
}

}  // namespace moescope
