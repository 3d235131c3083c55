#include "widgets/selection/selection.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/files/text/words.h"
#include "core/findings/comparison/gap_track.h"
#include "core/frame/frame.h"
#include "widgets/look/counted_text.h"

namespace moescope {
namespace {

StepRange clampInto(StepRange range, StepRange all) {
  if (all.empty()) return {};
  range.first = std::clamp(range.first, all.first, all.last);
  range.last = std::clamp(range.last, range.first, all.last);
  return range;
}

// Returns a range as wide as `range` that ends at `last`, within `all`.
StepRange endingAt(StepRange range, std::int64_t last, StepRange all) {
  return clampInto({last - range.size() + 1, last}, all);
}

// Nearest of these steps of the run, which a log may have at some places only; of two as near, the earlier.
std::int64_t nearestStep(const History& run, std::int64_t step) {
  const std::int64_t before = run.last_steps(1, step).last;
  if (before == step) return step;
  const auto after = run.steps_in({step, 2 * step - before - 1});
  return after.empty() ? before : after.front();
}

int nearestMoeLayer(const RunInfo& info, int layer) {
  if (info.moe_layers.empty()) return 0;
  const auto distance = [layer](int candidate) { return std::abs(candidate - layer); };
  return *std::ranges::min_element(info.moe_layers, {}, distance);
}

}  // namespace

Selection::Selection(QObject* parent) : QObject(parent) {
  for (const auto signal : {&Selection::dataChanged, &Selection::timeChanged, &Selection::focusChanged})
    connect(this, signal, this, &Selection::changed);
}

void Selection::setHistories(std::vector<std::shared_ptr<const History>> histories) {
  const std::shared_ptr<const History> before = history() ? histories_[run_] : nullptr;
  histories_ = std::move(histories);
  run_ = std::clamp(run_, 0, std::max(0, to_int(histories_.size()) - 1));
  if (const History* current = history()) {
    layer_ = nearestMoeLayer(current->info(), layer_);
    moveTensorToLayer();
    if (before && current != before.get()) expert_ = -1;  // an expert of another run has learned other tokens
  }
  following_ = true;
  held_quants_ = -1;
  range_is_all_ = true;
  verdict_steps_.clear();
  hover_step_ = -1;
  seen_sequence_ = 0;
  const StepRange all = history() ? history()->steps() : StepRange{};
  range_ = all;
  step_ = all.empty() ? 0 : all.last;
  for (const auto& run : histories_) seen_sequence_ += run->sequence();
  emit focusChanged();
  emit timeChanged();
  emit dataChanged();
}

QString Selection::stepWord() const {
  const bool checkpoint = history() && run_origin(history()->info()) == RunOrigin::checkpoint;
  return checkpoint ? QString("batch") : QString("step");
}

QString Selection::stepCount(int steps) const {
  return QString("%1 %2").arg(steps).arg(stepWord() == "batch" ? QString("batches") : QString("steps"));
}

QString Selection::rangeText(StepRange steps) const {
  QString text = QString::fromStdString(steps_in_words(steps.first, steps.last));
  return stepWord() == "batch" ? text.replace("steps", "batches").replace("step", "batch") : text;
}

int Selection::loadsIn(StepRange steps) const {
  const std::int64_t loads = history()->series(Metric::max_vio, kWholeRun, steps, 1).front().finite;
  return loads < steps.size() ? to_int(loads) : 0;
}

QString Selection::windowText(StepRange steps) const {
  const int loads = loadsIn(steps);
  return (loads > 0 ? countedText(loads, "load") + ", " : QString()) + rangeText(steps);
}

const History* Selection::history() const {
  return run_ < to_int(histories_.size()) ? histories_[run_].get() : nullptr;
}

void Selection::setRun(int run) {
  run = std::clamp(run, 0, std::max(0, to_int(histories_.size()) - 1));
  if (run == run_) return;
  run_ = run;
  held_quants_ = -1;
  layer_ = nearestMoeLayer(history()->info(), layer_);
  moveTensorToLayer();
  if (expert_ >= history()->info().n_experts) expert_ = -1;
  emit focusChanged();
  moveTime(following_ ? history()->steps().last : step_, range_);
  emit dataChanged();
}

void Selection::setStep(std::int64_t step) {
  const StepRange all = history() ? history()->steps() : StepRange{};
  if (all.empty()) return;
  step = nearestStep(*history(), std::clamp(step, all.first, all.last));
  const bool was_following = std::exchange(following_, step == all.last);
  if (!moveTime(step, range_) && was_following != following_) emit timeChanged();
}

void Selection::moveStep(std::int64_t steps) {
  const StepRange all = history() ? history()->steps() : StepRange{};
  if (all.empty() || steps == 0) return;
  std::int64_t step = nearestStep(*history(), std::clamp(step_ + steps, all.first, all.last));
  if (step == step_ && steps < 0) step = history()->last_steps(1, step_ - 1).last;
  for (std::int64_t reach = 1; step == step_ && steps > 0 && step_ < all.last; reach *= 2)
    if (const auto after = history()->steps_in({step_ + 1, step_ + reach}); !after.empty()) step = after.front();
  if (step >= 0) setStep(step);
}

void Selection::setFollowing(bool follow) {
  if (follow == following_) return;
  following_ = follow;
  const StepRange all = history() ? history()->steps() : StepRange{};
  const bool moved = follow && moveTime(all.last, endingAt(range_, all.last, all));
  if (!moved) emit timeChanged();
}

bool Selection::isByTokens() const {
  return are_paired_by_tokens(histories_);
}

std::int64_t Selection::stepOf(const History& run, std::int64_t step) const {
  return isByTokens() ? step_by_tokens(*history(), step, run) : step;
}

std::int64_t Selection::shownStepOf(const History& run) const {
  return std::min(stepOf(run, step_), run.steps().last);
}

std::vector<std::int64_t> Selection::edgesOf(const History& run, std::vector<std::int64_t> edges) const {
  if (const double ratio = token_ratio(*history(), run); isByTokens() && ratio != 1)
    for (std::int64_t& edge : edges) edge = static_cast<std::int64_t>(std::floor(edge * ratio));
  return edges;
}

std::int64_t Selection::windowStep() const {
  const bool is_known = following_ && run_ < std::ssize(verdict_steps_);
  return is_known ? std::min(verdict_steps_[run_], history()->steps().last) : step_;
}

void Selection::setVerdictSteps(std::vector<std::int64_t> steps) {
  if (std::exchange(verdict_steps_, std::move(steps)) == verdict_steps_) return;
  frames_.history = nullptr;
  emit timeChanged();
}

void Selection::setRange(StepRange range) {
  const StepRange all = history() ? history()->steps() : StepRange{};
  if (all.empty()) return;
  range = clampInto(range, all);
  const bool was_following = following_;
  if (range.last < all.last) following_ = false;
  range_is_all_ = range == all;
  if (!moveTime(step_, range) && was_following != following_) emit timeChanged();
}

void Selection::fitRange() {
  const StepRange all = history() ? history()->steps() : StepRange{};
  const bool was_following = std::exchange(following_, true);
  range_is_all_ = true;
  if (!moveTime(all.empty() ? 0 : all.last, all) && !was_following) emit timeChanged();
}

const Selection::FrameCache& Selection::frames() const {
  const History* current = history();
  const std::uint64_t sequence = current ? current->sequence() : 0;
  if (frames_.history == current && frames_.sequence == sequence && frames_.step == step_) return frames_;
  frames_ = {.history = current, .sequence = sequence, .step = step_, .frame = {}, .quant_frame = {}};
  if (current) {
    frames_.frame = current->frame_at(step_);
    // The statistics that the verdict judges, unless settings, such as formats, were changed after it.
    const std::int64_t judged =
        current->settings_at(windowStep()) == current->settings_at(step_) ? windowStep() : step_;
    frames_.quant_frame = current->quant_frame_at(following_ && held_quants_ >= 0 ? held_quants_ : judged);
  }
  return frames_;
}

void Selection::holdQuants(std::int64_t step) {
  if (std::exchange(held_quants_, step) == step) return;
  frames_.history = nullptr;
  emit timeChanged();
}

std::shared_ptr<const TelemetryFrame> Selection::frameOf(int place) const {
  if (place == run_) return frame();
  const History& run = *histories_[place];
  return run.frame_at(shownStepOf(run));
}

void Selection::setLayer(int layer) {
  showLayer(layer);
  layer_is_chosen_ = true;
  emit layerChosen();
}

void Selection::showLayer(int layer) {
  layer_is_chosen_ = false;
  if (const History* current = history()) layer = nearestMoeLayer(current->info(), layer);
  if (std::exchange(layer_, layer) == layer) return;
  moveTensorToLayer();
  emit focusChanged();
}

void Selection::setExpert(int expert) {
  const int last = history() ? history()->info().n_experts - 1 : -1;
  expert = std::clamp(expert, -1, std::max(-1, last));
  layer_is_chosen_ |= expert >= 0;
  if (std::exchange(expert_, expert) != expert) emit focusChanged();
}

void Selection::setTensor(OperandPlace tensor) {
  if (tensor == tensor_) return;
  tensor_ = tensor;
  if (const History* current = history(); current && std::ranges::count(current->info().moe_layers, tensor_.layer) > 0)
    layer_ = tensor_.layer;
  emit focusChanged();
}

// Moves the selected tensor to the selected layer, unless its operand is of a dense layer or the head.
void Selection::moveTensorToLayer() {
  const GemmClass gemm_class = tensor_.gemm_class();
  if (gemm_class != GemmClass::dense_ffn && gemm_class != GemmClass::head) tensor_.layer = layer_;
}

void Selection::refresh() {
  std::uint64_t sequence = 0;
  for (const auto& run : histories_) sequence += run->sequence();
  if (std::exchange(seen_sequence_, sequence) == sequence) return;
  const StepRange all = history() ? history()->steps() : StepRange{};
  StepRange range = range_;
  if (range_is_all_ || range.empty()) {
    range = all;
  } else if (following_) {
    range = endingAt(range, all.last, all);
  }
  moveTime(following_ ? all.last : step_, range);
  emit dataChanged();
}

bool Selection::moveTime(std::int64_t step, StepRange range) {
  const StepRange all = history() ? history()->steps() : StepRange{};
  step = all.empty() ? 0 : nearestStep(*history(), std::clamp(step, all.first, all.last));
  range = range_is_all_ ? all : clampInto(range, all);
  if (step == step_ && range == range_) return false;
  step_ = step;
  range_ = range;
  emit timeChanged();
  return true;
}

}  // namespace moescope
