#include "core/telemetry/findings/shift_watch.h"

#include <algorithm>
#include <cmath>

#include "core/telemetry/frame/words.h"
#include "core/telemetry/history/finite_mean.h"

namespace moescope {

namespace {

constexpr std::size_t kBefore = 10, kAfter = 2, kMean = 5;  // blocks
constexpr std::size_t kKept = kBefore + kAfter;             // the most that is looked back on
constexpr std::size_t kEarly = 15;                          // blocks in which every router sorts itself out
constexpr std::size_t kApart = 10;                          // blocks between two shifts
constexpr std::size_t kPeak = 10;                           // blocks in which the jump reaches its height
constexpr std::size_t kEdge = 5;                            // batches on each side, to place the jump
constexpr std::int64_t kSearch = 4;                         // blocks in which it is looked for

}  // namespace

ShiftWatch::ShiftWatch(std::vector<int> layers, int run, const StepAxis& axis)
    : axis_(&axis), layers_(std::move(layers)), run_(run), means_(layers_.size()) {}

double ShiftWatch::mean(std::size_t layer, std::size_t begin, std::size_t end) const {
  return mean_of_finite(std::span(means_[layer]).subspan(begin, end - begin));
}

void ShiftWatch::block(std::int64_t first, std::span<const float> whole,
                       const std::vector<std::vector<float>>& by_layer) {
  last_step_ = first + std::ssize(whole) - 1;
  ++blocks_seen_;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    means_[l].push_back(static_cast<float>(mean_of_finite(by_layer[l])));
    if (means_[l].size() > kKept) means_[l].erase(means_[l].begin());
  }
  whole_.insert(whole_.end(), whole.begin(), whole.end());
  const std::size_t kept = (kBefore + kAfter) * static_cast<std::size_t>(FindingsScan::kBlock);
  if (whole_.size() > kept) whole_.erase(whole_.begin(), whole_.end() - static_cast<std::ptrdiff_t>(kept));
  if (layers_.empty()) return;
  look_for_jump(first);
  follow();
}

void ShiftWatch::look_for_jump(std::int64_t first) {
  const std::size_t blocks = means_[0].size();
  if (blocks_seen_ < kEarly + kAfter) return;
  const std::size_t at = blocks - kAfter;
  if (!shifts_.empty() && last_step_ - shifts_.back().step < static_cast<std::int64_t>(kApart) * FindingsScan::kBlock) {
    return;
  }
  Shift shift;
  double after_sum = 0, before_sum = 0;
  std::size_t jumped = 0;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const double before = mean(l, at - kBefore, at), after = mean(l, at, blocks);
    shift.before.push_back(before);
    before_sum += before, after_sum += after;
    jumped += after >= kLayerJump * before;
  }
  const auto layers = static_cast<double>(layers_.size());
  if (!(after_sum >= kJump * before_sum) || static_cast<double>(jumped) < kJumpedLayers * layers) return;
  shift.step = jump_step(first);
  shift.mean_before = before_sum / layers, shift.mean_after = after_sum / layers;
  shift.back_at.assign(layers_.size(), -1);
  if (!shifts_.empty() && shifts_.back().over < 0) shifts_.back().over = shift.step - 1;
  shifts_.push_back(std::move(shift));
}

// Where, in the last blocks, the few batches after lie highest above the few before.
std::int64_t ShiftWatch::jump_step(std::int64_t first) const {
  const std::int64_t begin = last_step_ + 1 - std::ssize(whole_);
  std::vector<float> batches;
  std::vector<std::int64_t> steps;
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    if (!std::isfinite(whole_[i])) continue;
    batches.push_back(whole_[i]);
    steps.push_back(begin + static_cast<std::int64_t>(i));
  }
  std::int64_t best = first;
  double highest = -1e30;
  for (std::size_t i = 1; i < batches.size(); ++i) {
    if (last_step_ - steps[i] >= kSearch * FindingsScan::kBlock) continue;
    const std::size_t before = std::min(i, kEdge), after = std::min(batches.size() - i, kEdge);
    const double rise = mean_of_finite(std::span(batches).subspan(i, after)) -
                        mean_of_finite(std::span(batches).subspan(i - before, before));
    if (rise > highest) highest = rise, best = steps[i];
  }
  return best;
}

void ShiftWatch::follow() {
  if (shifts_.empty() || shifts_.back().over >= 0) return;
  Shift& shift = shifts_.back();
  const std::size_t blocks = means_[0].size();
  if (last_step_ - shift.step < static_cast<std::int64_t>(kPeak) * FindingsScan::kBlock) {
    double after = 0;
    for (std::size_t l = 0; l < layers_.size(); ++l) after += mean(l, blocks - kAfter, blocks);
    shift.mean_after = std::max(shift.mean_after, after / static_cast<double>(layers_.size()));
  }
  if (last_step_ - shift.step + 1 < static_cast<std::int64_t>(kMean) * FindingsScan::kBlock) return;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const double now = mean(l, blocks - kMean, blocks);
    if (shift.back_at[l] < 0 && now <= kBack * shift.before[l]) shift.back_at[l] = last_step_;
    const bool left_again = mean(l, blocks - 2 * kMean, blocks) > kNotBack * shift.before[l];
    if (left_again && last_step_ - shift.back_at[l] > kRecoverySteps / 3) shift.back_at[l] = -1;
  }
  const bool all = std::ranges::none_of(shift.back_at, [](std::int64_t step) { return step < 0; });
  if (all && last_step_ - shift.step + 1 >= kRecoverySteps) shift.over = last_step_;
}

std::vector<std::size_t> ShiftWatch::not_back(const Shift& shift) const {
  std::vector<std::size_t> out;
  if (shift.over >= 0 || last_step_ - shift.step + 1 < kRecoverySteps) return out;
  const std::size_t blocks = means_[0].size();
  std::size_t back = 0;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    back += shift.back_at[l] >= 0;
    if (shift.back_at[l] < 0 && mean(l, blocks - kMean, blocks) > kNotBack * shift.before[l]) out.push_back(l);
  }
  if (2 * back < layers_.size()) out.clear();
  return out;
}

Finding ShiftWatch::describe(const Shift& shift) const {
  Finding finding;
  finding.run = run_;
  finding.metric = Metric::max_vio;
  finding.knobs = {"router.bias_update_rate", "router.aux_coeff"};
  finding.steps = {shift.step, shift.over >= 0 ? shift.over : last_step_};
  finding.ongoing = shift.over < 0;
  std::int64_t first_back = INT64_MAX, last_back = 0, back = 0;
  for (const std::int64_t step : shift.back_at) {
    if (step < 0) continue;
    ++back;
    first_back = std::min(first_back, step - shift.step + 1), last_back = std::max(last_back, step - shift.step + 1);
  }
  const std::string jump = "At step " + axis_->name(shift.step) + " the load of most layers jumped: MaxVio from " +
                           decimal(shift.mean_before, 2) + " to " + decimal(shift.mean_after, 2) +
                           " (mean of the layers).";
  const std::string returned =
      first_back == last_back ? grouped(last_back) : grouped(first_back) + " to " + grouped(last_back);
  const std::vector<std::size_t> left = not_back(shift);
  if (left.empty()) {
    finding.kind = FindingKind::load_shift;
    finding.title = "The load jumped at step " + axis_->name(shift.step);
    finding.saw = jump + " " + std::to_string(back) + " of " + counted(std::ssize(layers_), "layer", "layers") +
                  (back == 1 ? " is back" : " are back") + (back ? " after " + returned + " steps" : "") + ".";
    finding.why =
        "Another kind of text or a change of settings can cause it: the router's balance was learnt for what came "
        "before. Where the sign rule balances, expert_bias takes about gap / rate steps to follow.";
    return finding;
  }
  const std::size_t blocks = means_[0].size();
  finding.kind = FindingKind::no_recovery;
  finding.severity = Severity::warning;
  for (const std::size_t l : left) finding.layers.push_back(layers_[l]);
  const bool one = left.size() == 1;
  finding.title = (one ? "Layer " : "Layers ") + listed(finding.layers) +
                  (one ? " does not recover" : " do not recover") + " from the shift at step " +
                  axis_->name(shift.step);
  finding.saw = jump;
  for (const std::size_t l : left) {
    finding.saw += " Layer " + std::to_string(layers_[l]) + " was at " + decimal(shift.before[l], 2) + " and is at " +
                   decimal(mean(l, blocks - kMean, blocks), 2) + ", " + grouped(last_step_ - shift.step + 1) +
                   " steps later;";
  }
  finding.saw += " " + std::to_string(back) + " of the " + std::to_string(layers_.size()) + " layers were back after " +
                 returned + " steps.";
  finding.why =
      "Where the sign rule balances, expert_bias moves by its rate in each step, whatever the distance: this layer's "
      "scores now prefer a few experts by more than it has made up for, or by a gap that grows as fast.";
  return finding;
}

void ShiftWatch::findings(std::vector<Finding>& out) const {
  for (const Shift& shift : shifts_) out.push_back(describe(shift));
}

}  // namespace moescope
