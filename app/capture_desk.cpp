#include "app/capture_desk.h"

#include "app/run_session.h"
#include "widgets/capture_bar.h"
#include "widgets/tensor_lab.h"

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
}

void CaptureDesk::refresh() {
  timer_.stop();
  capture_.reset();
  lab_->captureBar()->setSource(session_->isLive()        ? CaptureBar::Source::live
                                : session_->isRecording() ? CaptureBar::Source::recording
                                                          : CaptureBar::Source::none,
                                false);
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
  if (!training)
    return bar->showFailed(place_, tr("A recording keeps statistics, not tensors: those need a model in training."),
                           wanted_step_);
  try {
    capture_ = training->capture(session_->runAt(selection_->run()), place_);
  } catch (const std::invalid_argument& refused) {
    return bar->showFailed(place_, QString::fromUtf8(refused.what()), wanted_step_);
  }
  bar->showWaiting(place_, !training->status().running);
  timer_.start();
}

void CaptureDesk::look() {
  if (!capture_ || capture_->state() == Capture::State::waiting) return;
  timer_.stop();
  const auto capture = std::exchange(capture_, nullptr);
  if (capture->state() == Capture::State::failed)
    return lab_->captureBar()->showFailed(place_, QString::fromStdString(capture->error()), wanted_step_);
  lab_->setCaptured(capture->operand());
  lab_->captureBar()->showCaptured(*capture->operand(), wanted_step_);
}

void CaptureDesk::save(const QString& path) {
  if (lab_->captured()) save_captured(*lab_->captured(), path.toStdString());
}

}  // namespace moescope
