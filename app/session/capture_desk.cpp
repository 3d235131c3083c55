#include "app/session/capture_desk.h"

#include "app/session/kernel_question.h"
#include "app/session/run_session.h"
#include "widgets/microscaling/capture_bar.h"
#include "widgets/microscaling/tensor_lab.h"

namespace moescope {
namespace {

constexpr int kLookMs = 20;

}  // namespace

CaptureDesk::CaptureDesk(RunSession* session, Selection* selection, TensorLab* lab, QObject* parent)
    : QObject(parent), session_(session), selection_(selection), lab_(lab) {
  timer_.setInterval(kLookMs);
  connect(&timer_, &QTimer::timeout, this, &CaptureDesk::look);
  connect(session_, &RunSession::opened, this, &CaptureDesk::refresh);
  connect(lab_->captureBar(), &CaptureBar::againRequested, this, &CaptureDesk::again);
  connect(lab_->captureBar(), &CaptureBar::saveRequested, this, &CaptureDesk::saveRequested);
  connect(lab_->captureBar(), &CaptureBar::recomputeRequested, this, &CaptureDesk::recompute);
  connect(lab_->captureBar(), &CaptureBar::cancelRequested, this, [this] {
    recompute_.reset();
    timer_.stop();
    lab_->captureBar()->showFailed(place_, tr("Cancelled"), wanted_step_);
  });
}

void CaptureDesk::refresh() {
  timer_.stop();
  capture_.reset();
  recompute_.reset();
  lab_->captureBar()->setSource(session_->isLive()        ? CaptureBar::Source::live
                                : session_->isRecording() ? CaptureBar::Source::recording
                                                          : CaptureBar::Source::none);
}

void CaptureDesk::open(const OperandPlace& place, std::int64_t step) {
  place_ = place;
  wanted_step_ = step;
  emit shown();
  again();
}

void CaptureDesk::again() {
  CaptureBar* bar = lab_->captureBar();
  Lab* training = session_->lab();
  recompute_.reset();
  if (!training) {
    const QString statistics = tr("A recording keeps statistics, not tensors. ");
    try {
      planOf(wanted_step_);
    } catch (const std::exception& refused) {
      return bar->showFailed(place_, statistics + QString::fromUtf8(refused.what()), -1);
    }
    const QString kernels = kernelsNote(shownRun().info().kernels);
    return bar->showFailed(place_,
                           statistics + tr("A copy of the run can train up to this step and keep the tensor.") +
                               (kernels.isEmpty() ? "" : " " + kernels),
                           wanted_step_);
  }
  try {
    capture_ = training->capture(session_->runAt(selection_->run()), place_);
  } catch (const std::invalid_argument& refused) {
    return bar->showFailed(place_, QString::fromUtf8(refused.what()), -1);
  }
  bar->showWaiting(place_, !training->status().running);
  timer_.start();
}

const History& CaptureDesk::shownRun() const {
  return *session_->histories()[static_cast<std::size_t>(selection_->run())];
}

// Throws what plan_recompute() throws.
RecomputePlan CaptureDesk::planOf(std::int64_t step) const {
  const auto& histories = session_->histories();
  const History& run = shownRun();
  if (const Lab* training = session_->lab())
    return plan_recompute(run, *histories.front(), place_, step, training->checkpoint_before(run.info().run, step));
  // Of runs out of several files each reads its own batches.
  const bool several = session_->paths().size() > 1;
  return plan_recompute(
      run, several ? run : *histories.front(), place_, step, nullptr,
      several ? std::string() : recorded_checkpoint(session_->path().toStdString(), run.info().name, step));
}

void CaptureDesk::recompute(std::int64_t step) {
  withKernelsAsked(lab_, shownRun().info().kernels, session_->paths(), [this, step] { startRecompute(step); });
}

void CaptureDesk::startRecompute(std::int64_t step) {
  capture_.reset();
  recompute_.reset();
  try {
    recompute_ = std::make_unique<Recompute>(planOf(step));
  } catch (const std::exception& refused) {
    return lab_->captureBar()->showFailed(place_, QString::fromUtf8(refused.what()), -1);
  }
  wanted_step_ = step;
  timer_.start();
}

void CaptureDesk::lookAtRecompute() {
  CaptureBar* bar = lab_->captureBar();
  const Capture& capture = recompute_->capture();
  if (capture.state() == Capture::State::waiting)
    return bar->showProgress(place_, recompute_->first_step(), recompute_->next_step(), recompute_->step());
  timer_.stop();
  const auto done = std::exchange(recompute_, nullptr);
  if (capture.state() == Capture::State::failed)
    return bar->showFailed(place_, QString::fromStdString(capture.error()), -1);
  lab_->setCaptured(capture.operand());
  bar->showCaptured(*capture.operand(), wanted_step_,
                    tr("Recomputed by a copy of the run; the loss of the step equals the recorded one to the bit."));
}

void CaptureDesk::look() {
  if (recompute_) return lookAtRecompute();
  if (!capture_ || capture_->state() == Capture::State::waiting) return;
  timer_.stop();
  const auto capture = std::exchange(capture_, nullptr);
  if (capture->state() == Capture::State::failed)
    return lab_->captureBar()->showFailed(place_, QString::fromStdString(capture->error()), -1);
  lab_->setCaptured(capture->operand());
  lab_->captureBar()->showCaptured(*capture->operand(), wanted_step_);
}

void CaptureDesk::save(const QString& path) {
  if (lab_->captured()) save_captured(*lab_->captured(), path.toStdString());
}

}  // namespace moescope
