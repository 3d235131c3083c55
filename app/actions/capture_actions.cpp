#include "app/actions/capture_actions.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "app/session/kernel_question.h"
#include "app/session/run_session.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/model/layers/sampled_blocks.h"
#include "widgets/microscaling/block_microscope_panel.h"
#include "widgets/microscaling/capture_bar.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensor_verdict.h"
#include "widgets/overview/findings_panel.h"
#include "widgets/panel/tensor_text.h"

namespace moescope {
namespace {

constexpr int kCapturePollMs = 20, kMinMsBetweenCaptures = 1000;
constexpr int kSettleMs = 400;     // time without another step or operand, after which one is computed without a click
constexpr double kSoonMs = 20000;  // longest training of a copy that is begun without a click

// Returns the lowest SQNR of the operands in formats with scales; infinity if there are none.
float lowestScaledSqnr(const std::shared_ptr<const History>& run) {
  float lowest = INFINITY;
  if (const auto frame = run->quant_frame_at(INT64_MAX))
    for (const QuantFrame& quant : frame->quants)
      if (quant.format.scale != QuantScale::none) lowest = std::fmin(lowest, quant.sqnr_db);
  return lowest;
}

// Describes a sample of a log: what the rows are, and the SQNR of the whole operand in other formats.
QString sampleNote(const SampledBlocks& blocks) {
  QString note = QString("Blocks of the operand with their neighbours along rows, which the training sampled.");
  if (blocks.is_stored) note += QString(" They are decoded codes, so that their own errors are not known.");
  QStringList other_formats;
  for (const auto& [format, sqnr_db] : blocks.other_sqnr_db)
    other_formats << QString("%1 %2 dB").arg(QString::fromStdString(format), QString::number(sqnr_db, 'f', 1));
  if (!other_formats.isEmpty())
    note += QString(" SQNR of the whole operand: %1.").arg(other_formats.join(QStringLiteral(", ")));
  return note;
}

// Returns the number of steps of the state to start from.
std::int64_t firstStepOf(const RecordedTraining& training) {
  if (training.from) return training.from->steps_taken;
  if (training.from_file.empty()) return 0;
  return std::stoll(std::filesystem::path(training.from_file).parent_path().filename());  // recorded_checkpoint()
}

}  // namespace

CaptureActions::CaptureActions(const Context& context)
    : Actions(context), tensor_lab_(workspaces_->microscaling()->tensorLab()) {
  timer_.setInterval(kCapturePollMs);
  connect(&timer_, &QTimer::timeout, this, &CaptureActions::look);
  soon_.setInterval(kSettleMs);
  soon_.setSingleShot(true);
  connect(&soon_, &QTimer::timeout, this, [this] {
    const bool is_open = selection_->run() < std::ssize(session_->histories());
    is_open&& isAtRest() ? startRecompute(wanted_step_) : setBusy(false);
  });
  connect(session_, &RunSession::opened, this, &CaptureActions::onOpened);
  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged, &Selection::focusChanged})
    connect(selection_, signal, this, &CaptureActions::openFirst);
  connect(workspaces_, &QStackedWidget::currentChanged, this, &CaptureActions::openFirst);
  connect(tensor_lab_->captureBar(), &CaptureBar::againRequested, this, &CaptureActions::captureAgain);
  connect(tensor_lab_->captureBar(), &CaptureBar::saveRequested, this, &CaptureActions::askAndSave);
  connect(tensor_lab_->captureBar(), &CaptureBar::recomputeRequested, this, &CaptureActions::recompute);
  connect(tensor_lab_->captureBar(), &CaptureBar::cancelRequested, this, &CaptureActions::cancel);
  for (QuantizationErrorPanel* matrix : workspaces_->findChildren<QuantizationErrorPanel*>())
    connect(matrix, &QuantizationErrorPanel::operandOpened, this, &CaptureActions::open);
  for (FindingsPanel* findings : workspaces_->findChildren<FindingsPanel*>()) {
    connect(findings, &FindingsPanel::elementOpened, this, &CaptureActions::openElement);
    connect(findings, &FindingsPanel::operandOpened, this, &CaptureActions::open);
  }
}

void CaptureActions::onOpened() {
  timer_.stop();
  setBusy(false);
  capture_.reset();
  recompute_.reset();
  captures_newest_ = false;
  first_of_ = nullptr;
  chosen_run_ = -1;
  verdict_operand_.reset();
  tensor_lab_->dropCaptured();  // a new training of the same settings has other values
  // Logs of other programs hold no settings from which a step could be recomputed.
  const bool computed_here = std::ranges::any_of(
      session_->histories(), [](const auto& history) { return !history->info().config_toml.empty(); });
  const auto replayed = computed_here ? CaptureBar::Source::recording : CaptureBar::Source::none;
  tensor_lab_->captureBar()->setSource(session_->isLive() ? CaptureBar::Source::live : replayed);
}

// Before the first operand of several runs is opened, selects the run with the lowest SQNR, unless the active run
// quantizes, too; other pages keep their run. Returns true if it did so, or if no run has statistics yet.
bool CaptureActions::selectQuantizedRun() {
  const auto& runs = selection_->histories();
  if (first_of_ || runs.size() < 2 || std::isfinite(lowestScaledSqnr(runs[selection_->run()]))) return false;
  const auto lowest = std::ranges::min_element(runs, {}, lowestScaledSqnr);
  if (!std::isfinite(lowestScaledSqnr(*lowest))) return session_->isLive();
  run_before_ = selection_->run();
  selection_->setRun(chosen_run_ = to_int(lowest - runs.begin()));
  messages_->say(QString("This page shows %1, which has the lowest SQNR: the operands of %2 are not scaled by blocks")
                     .arg(runLabel(*selection_, chosen_run_), runLabel(*selection_, run_before_)));
  return true;
}

// Opens the operand of the verdict when Microscaling first shows the operands of a run that trains, or of a log with
// sampled blocks. For a recording, a paused run and a step of the past offers to compute the selected operand.
void CaptureActions::openFirst() {
  const History* history = selection_->history();
  const bool is_shown = workspaces_->current() == workspaces_->microscaling();
  if (!is_shown || !capturesNewest() || !tensor_lab_->showsAsCaptured()) selection_->holdQuants(-1);
  const bool is_open =
      std::ranges::any_of(session_->histories(), [&](const auto& run) { return run.get() == history; });
  if (const auto captured = tensor_lab_->captured();
      captured && session_->isLive() && history && captured->step > history->steps().last + 1)
    tensor_lab_->dropCaptured();  // the training was rewound; this step will have other values
  if (!is_shown && std::exchange(chosen_run_, -1) == selection_->run()) {
    first_of_ = nullptr;
    selection_->setRun(run_before_);
  }
  if (!is_shown || !is_open || recompute_ || capture_ || selectQuantizedRun()) return;
  const auto frame = selection_->quantFrame();
  if (!frame) return;
  const bool captures = capturesNewest();
  auto judged = operandOfVerdict(*selection_);
  if (judged && selection_->isLayerChosen() && std::ranges::count(history->info().moe_layers, judged->layer) > 0)
    judged->layer = selection_->layer();  // the sentence about the run names the layer that is worse
  // The first operand follows the verdict until its values are there or the user selects another one.
  if (selection_->following() && judged && verdict_operand_ == selection_->tensor() && !tensor_lab_->captured())
    selection_->setTensor(*(verdict_operand_ = judged));
  if (!tensor_lab_->tensorName().isEmpty()) return followSelection(frame->step);
  const bool is_log = history->info().config_toml.empty();
  OperandPlace place = selection_->tensor();
  if (std::exchange(first_of_, history) == history) {
    if (place == place_ && (is_log || frame->step == wanted_step_)) return;
  } else if (judged) {
    verdict_operand_ = judged;
    place = *judged;
  }
  const auto has_blocks = [&](const OperandPlace& operand) {
    return sampled_blocks(history->markers(), history->info(), operand, frame->step).has_value();
  };
  if (is_log && !has_blocks(place)) {  // a log may have the blocks of some operands only
    const auto sampled = std::ranges::find_if(frame->quants, has_blocks);
    if (sampled == frame->quants.end()) return;
    place = *sampled;
  }
  place_ = place;
  element_.reset();
  wanted_step_ = frame->step;
  selection_->setTensor(place_);
  if (session_->isLive() && !captures) return offerStep();
  captureAgain();
}

// While a captured operand is shown, captures the one that is selected, and captures it again when the matrix shows a
// later step, unless the user looks at a part of it. For a step of the past offers to compute it. For a log shows its
// sample, or says that the log has none.
void CaptureActions::followSelection(std::int64_t step) {
  const History* run = &shownRun();
  const auto captured = tensor_lab_->captured();
  if (!captured || !tensor_lab_->tensorName().contains(placeName(captured->place))) return;
  const LiveRuns* live = session_->live();
  const bool is_other = selection_->tensor() != place_ || run != first_of_;
  const bool captures = capturesNewest(), is_log = run->info().config_toml.empty();
  const bool is_newer = captures ? run->steps().last > captured->step && tensor_lab_->showsAsCaptured() &&
                                       since_capture_.elapsed() >= kMinMsBetweenCaptures
                                 : step != wanted_step_ || std::exchange(captures_newest_, false);  // training ended
  const bool follows = live || !is_log || run == first_of_;
  if (!follows || (!is_other && !is_newer)) return;
  first_of_ = run;
  place_ = selection_->tensor();
  wanted_step_ = step;
  element_.reset();
  if (captures && is_other) showExampleInFormat();  // not the block of the other run or operand
  if (captures) return captureAgain();
  if (!is_log) return offerStep();
  if (showSample()) return;
  tensor_lab_->captureBar()->showCaptured(*tensor_lab_->captured(), -1,
                                          QString("The log has no blocks of the selected operand (%1) at step %2.")
                                              .arg(placeName(place_), formatCount(step)));
}

void CaptureActions::cancel() {
  recompute_.reset();
  timer_.stop();
  setBusy(false);
  tensor_lab_->captureBar()->showFailed(place_, "Cancelled", wanted_step_);
}

void CaptureActions::bringUp(const OperandPlace& place, std::int64_t step) {
  first_of_ = selection_->history();
  verdict_operand_.reset();  // the user has chosen
  place_ = place;
  element_.reset();
  wanted_step_ = step;
  workspaces_->bringUp(workspaces_->microscaling());
  workspaces_->microscaling()->showMicroscope();
}

void CaptureActions::openElement(const OperandElement& element, std::int64_t step) {
  bringUp(element.place, step);
  element_ = element;
  recompute(step);
}

// Shows the example in the microscope in the format of the operand in place of a captured block.
void CaptureActions::showExampleInFormat() {
  tensor_lab_->closeCaptured();
  const auto frame = tensor_lab_->tensorName().isEmpty() ? shownRun().quant_frame_at(wanted_step_) : nullptr;
  for (const QuantFrame& quant : frame ? frame->quants : std::vector<QuantFrame>{})
    if (static_cast<const OperandPlace&>(quant) == place_ && quant.format.operand)
      tensor_lab_->setFormatOf(*quant.format.operand, tensor_lab_->format().axis);
}

// Pictures of the window wait until the operand of the page is there.
void CaptureActions::setBusy(bool busy) {
  if (!busy) soon_.stop();
  tensor_lab_->microscope()->setProperty("busy", busy);
}

bool CaptureActions::isAtRest() const {
  return !session_->live() || !session_->live()->status().running;
}

bool CaptureActions::isSoon() const {
  const History& run = shownRun();
  if (!isAtRest() || !kernelsNote(run.info().kernels).isEmpty()) return false;
  try {
    const RecomputePlan plan = session_->planOfStep(run, place_, wanted_step_);
    const std::int64_t steps = plan.step + 1 - firstStepOf(plan.training);
    return steps * run.value_at(Metric::step_ms, kWholeRun, wanted_step_) < kSoonMs;
  } catch (const std::exception&) {
    return false;
  }
}

// Computes the step of the page without a click once the user has chosen no other step for a moment.
void CaptureActions::computeIfSoon() {
  if (!isSoon()) return;
  recompute_.reset();  // of another operand
  capture_.reset();
  timer_.stop();
  setBusy(true);
  soon_.start();
}

void CaptureActions::captureAgain() {
  CaptureBar* bar = tensor_lab_->captureBar();
  LiveRuns* live = session_->live();
  recompute_.reset();
  setBusy(false);
  if (!live && showSample()) return;
  if (!live) return offerStep();
  try {
    capture_ = live->capture(session_->runAt(selection_->run()), place_);
  } catch (const std::invalid_argument& refused) {
    return bar->showFailed(place_, QString::fromUtf8(refused.what()), -1);
  }
  const auto shown = tensor_lab_->captured();
  if (!shown || shown->place != place_ || !live->status().running) bar->showWaiting(place_, !live->status().running);
  captures_newest_ = capturesNewest();
  setBusy(captures_newest_);
  since_capture_.start();
  timer_.start();
}

// Offers to compute the operand at the wanted step. Until then shows the operand of another step, or the example.
void CaptureActions::offerStep() {
  CaptureBar* bar = tensor_lab_->captureBar();
  const auto captured = tensor_lab_->captured();
  if (captured && captured->place == place_ && captured->run_name == shownRun().info().name) {
    if (tensor_lab_->showsAsCaptured())  // else the user looks at a part of the other step
      captured->step == wanted_step_ ? tensor_lab_->setCaptured(captured) : computeIfSoon();
    return bar->showCaptured(*captured, wanted_step_);
  }
  showExampleInFormat();
  computeIfSoon();
  const QString statistics = "A run keeps only statistics of its past steps. ";
  try {
    session_->planOfStep(shownRun(), place_, wanted_step_);  // throws if the step cannot be recomputed
  } catch (const std::exception& refused) {
    return bar->showFailed(place_, statistics + QString::fromUtf8(refused.what()), -1);
  }
  const QString kernels = kernelsNote(shownRun().info().kernels);
  bar->showFailed(
      place_,
      statistics + QString("A copy of the run can compute this step again.") + (kernels.isEmpty() ? "" : " " + kernels),
      wanted_step_);
}

bool CaptureActions::showSample() {
  const History& run = shownRun();
  const auto blocks = sampled_blocks(run.markers(), run.info(), place_, wanted_step_);
  if (!blocks) return false;
  tensor_lab_->setCaptured(blocks->operand);
  tensor_lab_->captureBar()->showCaptured(*blocks->operand, wanted_step_, sampleNote(*blocks));
  return true;
}

void CaptureActions::recompute(std::int64_t step) {
  withKernelsAsked(workspaces_->microscaling(), shownRun().info().kernels, session_->paths(),
                   [this, step] { startRecompute(step); });
}

void CaptureActions::startRecompute(std::int64_t step) {
  capture_.reset();
  recompute_.reset();
  try {
    recompute_ = std::make_unique<Recomputation>(session_->planOfStep(shownRun(), place_, step));
  } catch (const std::exception& refused) {
    setBusy(false);
    return tensor_lab_->captureBar()->showFailed(place_, QString::fromUtf8(refused.what()), -1);
  }
  wanted_step_ = step;
  timer_.start();
}

void CaptureActions::look() {
  CaptureBar* bar = tensor_lab_->captureBar();
  if (!recompute_ && !capture_) {
    if (capturesNewest()) return;
    timer_.stop();
    return openFirst();  // training has ended
  }
  const Capture& capture = recompute_ ? recompute_->capture() : *capture_;
  if (capture.state() == Capture::State::waiting) {
    if (recompute_) bar->showProgress(place_, recompute_->first_step(), recompute_->next_step(), recompute_->step());
    return;
  }
  const bool is_newest = capture_ && capturesNewest();
  if (!is_newest) timer_.stop();  // else look() waits for the end of the training
  setBusy(false);
  const auto recomputed = std::exchange(recompute_, nullptr);
  const auto captured = std::exchange(capture_, nullptr);
  if (capture.state() == Capture::State::failed)
    return bar->showFailed(place_, QString::fromStdString(capture.error()), -1);
  tensor_lab_->setCaptured(capture.operand(), is_newest);  // `capture` is valid until the end of this function
  if (is_newest && workspaces_->current() == workspaces_->microscaling())
    selection_->holdQuants(capture.operand()->step);
  if (const auto frame = selection_->quantFrame(); captured && frame) wanted_step_ = frame->step;  // has moved on
  bar->showCaptured(*capture.operand(), is_newest ? -1 : wanted_step_,
                    recomputed ? QString("Recomputed by a copy of the run; the loss of the step equals the recorded "
                                         "one to the bit.")
                               : QString());
  if (element_) tensor_lab_->showElement(*element_);
  if (recomputed || (captures_newest_ && !is_newest))
    openFirst();  // the page has gone to another step, or training ended
}

void CaptureActions::askAndSave() {
  messages_->saveAs("Save tensor", "operand.safetensors", "Tensors (*.safetensors)", [this](const QString& path) {
    if (!tensor_lab_->captured()) return;
    save_captured(*tensor_lab_->captured(), path.toStdString());
    messages_->saySaved(path);
  });
}

}  // namespace moescope
