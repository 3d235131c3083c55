#include "core/findings/shift_watch.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/frame/router_stats.h"
#include "core/history/finite_mean.h"
#include "core/io/words.h"

namespace moescope {

namespace {

constexpr std::size_t kBefore = 10, kAfter = 2, kMean = 5;  // blocks
constexpr std::size_t kLeastBefore = 5;                     // least number of blocks before a jump
constexpr std::size_t kKept = kBefore + kAfter;             // blocks that are kept
constexpr std::int64_t kEarly = 170;                        // first steps, in which loads change most
constexpr std::size_t kApart = 10;                          // blocks between two shifts
constexpr std::int64_t kPeak = 100;                         // steps in which a jump reaches its peak
constexpr std::size_t kEdge = 5;                            // batches on each side that locate the jump
constexpr std::size_t kSearch = 4;                          // blocks in which the jump is searched
constexpr double kLeastRise = 0.02;                         // in MaxVio: a perfect balance makes any factor large

}  // namespace

ShiftWatch::ShiftWatch(const RunInfo& info, const StepAxis& axis)
    : axis_(&axis),
      layers_(info.moe_layers),
      run_(info.run),
      n_experts_(info.n_experts),
      top_k_(std::max(1, info.top_k)),
      means_(layers_.size()) {}

double ShiftWatch::mean(std::size_t layer, std::size_t begin, std::size_t end) const {
  return mean_of_finite(std::span(means_[layer]).subspan(begin, end - begin));
}

double ShiftWatch::newest_mean(std::size_t layer) const {
  const std::size_t blocks = means_[0].size();
  return mean(layer, blocks - std::min(blocks, kMean), blocks);
}

double ShiftWatch::chance(std::size_t begin, std::size_t end) const {
  return mean_of_finite(std::span(chances_).subspan(begin, end - begin));
}

// Rounds the number of tokens to an eighth of an octave, so that the value of chance is rarely recomputed.
double ShiftWatch::chance_of_batches(std::span<const float> assignments) {
  const double mean = mean_of_finite(assignments) / top_k_;
  if (!(mean >= 1)) return std::nan("");
  const auto tokens = static_cast<std::int64_t>(std::round(std::exp2(std::round(8 * std::log2(mean)) / 8)));
  if (tokens != chance_tokens_) {
    chance_tokens_ = tokens;
    chance_max_vio_ = static_cast<double>(max_vio_noise_floor(tokens, top_k_, n_experts_));
  }
  return chance_max_vio_;
}

double ShiftWatch::grown(const Shift& shift) const {
  const std::size_t blocks = chances_.size();
  const double now = chance(blocks - std::min(blocks, kAfter), blocks);
  return now > shift.chance_before ? now / shift.chance_before : 1;
}

// Blocks without a MaxVio do not count, because logs may have it on some steps only.
void ShiftWatch::block(std::int64_t first, std::span<const float> whole,
                       std::span<const std::span<const float>> by_layer, std::span<const float> assignments) {
  if (first_step_ < 0) first_step_ = first;
  last_step_ = first + std::ssize(whole) - 1;
  if (layers_.empty() || std::ranges::none_of(whole, [](float value) { return std::isfinite(value); })) return;
  ++blocks_seen_;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    means_[l].push_back(static_cast<float>(mean_of_finite(by_layer[l])));
    if (means_[l].size() > kKept) means_[l].erase(means_[l].begin());
  }
  chances_.push_back(static_cast<float>(chance_of_batches(assignments)));
  if (chances_.size() > kKept) chances_.erase(chances_.begin());
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (std::isfinite(whole[i])) whole_.push_back({first + static_cast<std::int64_t>(i), blocks_seen_, whole[i]});
  std::erase_if(whole_, [this](const Batch& batch) { return batch.block + kKept <= blocks_seen_; });
  look_for_jump(first);
  follow();
}

void ShiftWatch::look_for_jump(std::int64_t first) {
  const std::size_t blocks = means_[0].size();
  if (last_step_ - first_step_ + 1 < kEarly || blocks < kLeastBefore + kAfter) return;
  const std::size_t at = blocks - kAfter, begin = at - std::min(at, kBefore);
  if (!shifts_.empty() && blocks_seen_ - shifts_.back().block < kApart) return;
  Shift shift;
  shift.chance_before = chance(begin, at);
  const double grown = this->grown(shift);
  double after_sum = 0, before_sum = 0;
  std::size_t jumped = 0;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const double before = mean(l, begin, at), after = mean(l, at, blocks);
    shift.before.push_back(before);
    before_sum += before, after_sum += after;
    jumped += after > before && after >= kLayerJump * grown * before;
  }
  const auto layers = static_cast<double>(layers_.size());
  const bool is_jump = after_sum >= kJump * grown * before_sum && after_sum - before_sum >= kLeastRise * layers;
  if (!is_jump || static_cast<double>(jumped) < kJumpedLayers * layers) return;
  shift.step = jump_step(first);
  shift.block = blocks_seen_ - kAfter;
  shift.mean_before = before_sum / layers, shift.mean_after = after_sum / layers;
  shift.back_at.assign(layers_.size(), -1);
  if (!shifts_.empty() && shifts_.back().over < 0) shifts_.back().over = shift.step - 1;
  shifts_.push_back(std::move(shift));
}

// Returns the step in the last blocks with the largest rise from the mean of the few batches before to the mean of the
// few batches from this step on.
std::int64_t ShiftWatch::jump_step(std::int64_t first) const {
  std::int64_t best = first;
  double highest = -1e30;
  const auto mean_of = [this](std::size_t begin, std::size_t n) {
    double sum = 0;
    for (std::size_t i = begin; i < begin + n; ++i) sum += static_cast<double>(whole_[i].max_vio);
    return sum / static_cast<double>(n);
  };
  for (std::size_t i = 1; i < whole_.size(); ++i) {
    if (whole_[i].block + kSearch <= blocks_seen_) continue;
    const std::size_t before = std::min(i, kEdge), after = std::min(whole_.size() - i, kEdge);
    // Weight by the standard error of the difference of both means.
    const double weight = std::sqrt(static_cast<double>(before * after) / static_cast<double>(before + after));
    const double rise = weight * (mean_of(i, after) - mean_of(i - before, before));
    if (rise > highest) highest = rise, best = whole_[i].step;
  }
  return best;
}

void ShiftWatch::follow() {
  if (shifts_.empty() || shifts_.back().over >= 0) return;
  Shift& shift = shifts_.back();
  const std::size_t blocks = means_[0].size();
  if (last_step_ - shift.step < kPeak) {
    double after = 0;
    for (std::size_t l = 0; l < layers_.size(); ++l) after += mean(l, blocks - kAfter, blocks);
    shift.mean_after = std::max(shift.mean_after, after / static_cast<double>(layers_.size()));
  }
  if (blocks_seen_ - shift.block < kMean) return;
  const double grown = this->grown(shift);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    if (shift.back_at[l] < 0 && newest_mean(l) <= kBack * grown * shift.before[l]) shift.back_at[l] = last_step_;
    const bool left_again = mean(l, blocks - std::min(blocks, 2 * kMean), blocks) > kNotBack * grown * shift.before[l];
    if (left_again && last_step_ - shift.back_at[l] > kRecoverySteps / 3) shift.back_at[l] = -1;
  }
  const bool all = std::ranges::none_of(shift.back_at, [](std::int64_t step) { return step < 0; });
  if (all && last_step_ - shift.step + 1 >= kRecoverySteps) shift.over = last_step_;
}

// Returns the layers that should have recovered but have not.
std::vector<std::size_t> ShiftWatch::not_back(const Shift& shift) const {
  std::vector<std::size_t> out;
  if (shift.over >= 0 || last_step_ - shift.step + 1 < kRecoverySteps || blocks_seen_ - shift.block < 2 * kMean)
    return out;
  const double grown = this->grown(shift);
  double higher = 0;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    if (shift.back_at[l] >= 0 || !(newest_mean(l) > kNotBack * grown * shift.before[l])) continue;
    out.push_back(l);
    higher += newest_mean(l) - grown * shift.before[l];
  }
  std::ranges::stable_sort(out, std::greater{}, [this](std::size_t l) { return newest_mean(l); });
  if (most_are_back(shift) || higher >= kStaysHigher * static_cast<double>(out.size())) return out;
  return {};
}

bool ShiftWatch::most_are_back(const Shift& shift) {
  return 2 * std::ranges::count_if(shift.back_at, [](std::int64_t step) { return step >= 0; }) >=
         std::ssize(shift.back_at);
}

Finding ShiftWatch::describe(const Shift& shift) const {
  Finding finding;
  finding.run = run_;
  finding.metric = Metric::max_vio;
  finding.knobs = {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff};
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
    finding.observation = jump + " " + std::to_string(back) + " of " + counted(std::ssize(layers_), "layer", "layers") +
                          (back == 1 ? " has recovered" : " have recovered") +
                          (back ? " after " + returned + " steps" : "") + ".";
    finding.why =
        "Another kind of text or a change of settings can cause it, because the balance was learnt for the earlier "
        "text. With the sign rule, a change of expert_bias by d takes about d / bias_update_rate steps.";
    return finding;
  }
  finding.kind = FindingKind::no_recovery;
  finding.severity = Severity::warning;
  finding.observation = jump;
  if (most_are_back(shift))
    describe_left(shift, left, finding);
  else
    describe_stays(shift, left, finding);
  finding.observation += " " + std::to_string(back) + " of the " +
                         counted(std::ssize(layers_), "layer has", "layers have") + " recovered" +
                         (back ? ", after " + returned + " steps." : ".");
  return finding;
}

// Text for a few layers that have not recovered, while the others have.
void ShiftWatch::describe_left(const Shift& shift, const std::vector<std::size_t>& left, Finding& finding) const {
  for (const std::size_t l : left) {
    finding.layers.push_back(layers_[l]);
    finding.observation += " MaxVio of layer " + std::to_string(layers_[l]) + " was " + decimal(shift.before[l], 2) +
                           " and is " + decimal(newest_mean(l), 2) + ", " + grouped(last_step_ - shift.step + 1) +
                           " steps later;";
  }
  finding.observation.back() = '.';
  const bool one = left.size() == 1;
  finding.title = (one ? "Layer " : "Layers ") + listed(finding.layers) +
                  (one ? " does not recover" : " do not recover") + " from the shift at step " +
                  axis_->name(shift.step);
  finding.brief = "MaxVio of a batch was " + decimal(shift.before[left[0]], 2) + " before and is " +
                  decimal(newest_mean(left[0]), 2) + " (mean of the newest batches)";
  finding.why =
      "With the sign rule, expert_bias changes by bias_update_rate in each step, however large the imbalance is. The "
      "scores of this layer prefer a few experts by more than the bias has corrected so far, or by a difference that "
      "grows as fast as the bias.";
}

// Text if most layers have not recovered.
void ShiftWatch::describe_stays(const Shift& shift, const std::vector<std::size_t>& left, Finding& finding) const {
  double before = 0, now = 0;
  for (const std::size_t l : left) {
    finding.layers.push_back(layers_[l]);
    before += shift.before[l] / static_cast<double>(left.size()),
        now += newest_mean(l) / static_cast<double>(left.size());
  }
  finding.title = "The load jumped at step " + axis_->name(shift.step) + " and stays uneven";
  finding.brief = "MaxVio of a batch was " + decimal(before, 2) + " before and is " + decimal(now, 2) +
                  " (mean of these layers and the newest batches)";
  finding.observation += " " + grouped(last_step_ - shift.step + 1) + " steps later it is " + decimal(now, 2) + " in " +
                         std::to_string(left.size()) + " layers (mean), where it was " + decimal(before, 2) +
                         " before the jump.";
  finding.why =
      "Another kind of text, a changed setting or a checkpoint that was loaded without its expert_bias can cause it. "
      "The biases that balanced the routers before no longer do.";
}

void ShiftWatch::findings(std::vector<Finding>& out) const {
  for (const Shift& shift : shifts_) out.push_back(describe(shift));
}

}  // namespace moescope
