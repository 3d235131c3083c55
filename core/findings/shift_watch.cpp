#include "core/findings/shift_watch.h"

#include <fmt/core.h>

#include <cmath>
#include <functional>

#include "core/files/text/no_value.h"
#include "core/files/text/words.h"
#include "core/frame/router_stats.h"

namespace moescope {

namespace {

constexpr std::size_t kBeforeBlocks = 10, kBeforeLoads = 12;          // compared loads before a jump
constexpr std::size_t kMinBeforeBlocks = 5, kMinBeforeLoads = 10;     // fewer are not compared
constexpr std::size_t kAfterBlocks = 2, kAfterLoads = 4;              // compared loads after a jump
constexpr std::size_t kMeanBlocksOfLayer = 5, kMeanLoadsOfLayer = 5;  // loads that show whether a layer has recovered
constexpr std::size_t kKeptBlocks = 32;
constexpr std::int64_t kEarly = 170;           // first steps, in which loads change most
constexpr std::size_t kMinBlocksBetween = 10;  // blocks between two shifts
constexpr std::int64_t kPeak = 100;            // steps in which a jump reaches its peak
constexpr std::size_t kEdge = 5;               // loads on each side that locate the jump

}  // namespace

ShiftWatch::ShiftWatch(const RunInfo& info, const StepAxis& axis)
    : axis_(&axis),
      layers_(info.moe_layers),
      run_(info.run),
      n_experts_(info.n_experts),
      top_k_(std::max(1, info.top_k)),
      by_layer_(layers_.size()) {}

double ShiftWatch::mean(std::size_t layer, Part part) const {
  return mean_of_finite(std::span(by_layer_[layer]).subspan(part.begin, part.size()));
}

double ShiftWatch::mean_of_layers(Part part) const {
  double sum = 0;
  for (std::size_t i = part.begin; i < part.end; ++i) sum += batches_[i].max_vio;
  return sum / part.size();
}

double ShiftWatch::deviation(Part part) const {
  const double mean = mean_of_layers(part);
  double squares = 0;
  for (std::size_t i = part.begin; i < part.end; ++i) {
    const double difference = batches_[i].max_vio - mean;
    squares += difference * difference;
  }
  return std::sqrt(squares / (part.size() - 1));
}

double ShiftWatch::chance(Part part) const {
  std::vector<float> chances;
  for (std::size_t i = part.begin; i < part.end; ++i) chances.push_back(batches_[i].chance);
  return mean_of_finite(chances);
}

ShiftWatch::Part ShiftWatch::newest(std::size_t blocks, std::size_t loads, std::size_t end) const {
  std::size_t begin = end, block_count = 0;
  while (begin > 0) {
    const bool next_block = begin == end || batches_[begin - 1].block != batches_[begin].block;
    if (next_block && block_count++ >= blocks && end - begin >= loads) break;
    --begin;
  }
  return {begin, end};
}

double ShiftWatch::newest_mean(std::size_t layer) const {
  return mean(layer, newest(kMeanBlocksOfLayer, kMeanLoadsOfLayer));
}

// Rounds the number of tokens to an eighth of an octave, so that the value of chance is rarely recomputed.
double ShiftWatch::chance_of_batches(std::span<const float> assignments) {
  const double mean = mean_of_finite(assignments) / top_k_;
  if (!(mean >= 1)) return std::nan("");
  const auto tokens = static_cast<std::int64_t>(std::round(std::exp2(std::round(8 * std::log2(mean)) / 8)));
  if (tokens != chance_tokens_) {
    chance_tokens_ = tokens;
    chance_max_vio_ = max_vio_noise_floor(tokens, top_k_, n_experts_);
  }
  return chance_max_vio_;
}

double ShiftWatch::grown(const Shift& shift) const {
  const double later = chance(newest(kAfterBlocks, kAfterLoads));
  return later > shift.chance_before ? later / shift.chance_before : 1;
}

// Steps without a MaxVio do not count, because logs may have it on some steps only.
void ShiftWatch::block(std::int64_t first, std::span<const float> whole,
                       std::span<const std::span<const float>> by_layer, std::span<const float> assignments) {
  last_step_ = first + std::ssize(whole) - 1;
  if (layers_.empty() || std::ranges::none_of(whole, [](float value) { return std::isfinite(value); })) return;
  ++blocks_;
  const auto chance = static_cast<float>(chance_of_batches(assignments));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (!std::isfinite(whole[i])) continue;
    const std::int64_t step = first + static_cast<std::int64_t>(i);
    if (loads_++ == 0) first_step_ = step;
    batches_.push_back({step, blocks_, whole[i], chance});
    for (std::size_t l = 0; l < layers_.size(); ++l)
      by_layer_[l].push_back(i < by_layer[l].size() ? by_layer[l][i] : kNoValue);
  }
  const auto old =
      std::ranges::count_if(batches_, [this](const Batch& batch) { return batch.block + kKeptBlocks <= blocks_; });
  batches_.erase(batches_.begin(), batches_.begin() + old);
  for (std::vector<float>& values : by_layer_) values.erase(values.begin(), values.begin() + old);
  look_for_jump();
  follow();
}

// After a shift the loads are compared with loads since the shift, so that it is found once.
void ShiftWatch::look_for_jump() {
  if (!LoadSpan{loads_, axis_->step(first_step_), axis_->step(batches_.back().step)}.lasts(kEarly)) return;
  if (!shifts_.empty() && blocks_ - shifts_.back().block < kMinBlocksBetween) return;
  const Part after = newest(kAfterBlocks, kAfterLoads);
  Part before = newest(kBeforeBlocks, kBeforeLoads, after.begin);
  while (!shifts_.empty() && before.begin < before.end && batches_[before.begin].block <= shifts_.back().block)
    ++before.begin;
  if (before.size() < kMinBeforeLoads || after.size() < kAfterLoads) return;
  if (batches_[before.end - 1].block - batches_[before.begin].block + 1 < kMinBeforeBlocks) return;
  Shift shift;
  shift.chance_before = chance(before);
  const double grown = this->grown(shift);
  const double mean_before = mean_of_layers(before), mean_after = mean_of_layers(after), usual = grown * mean_before;
  if (mean_after < kJump * usual || mean_after - mean_before < kMinRise) return;
  const double deviation = std::max(grown * this->deviation(before), this->deviation(after) * usual / mean_after);
  const double error =
      deviation * std::sqrt(1 / static_cast<double>(before.size()) + 1 / static_cast<double>(after.size()));
  if (mean_after - usual < kJumpDeviations * error) return;
  const std::size_t first = first_of_jump(before.begin);  // all these loads: a jump of few layers is found late
  before.end = std::clamp(first, before.begin + 1, before.end);
  std::size_t jumped = 0;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    shift.before.push_back(mean(l, before));
    const double newest = mean(l, after);
    jumped += newest > shift.before[l] && newest >= kLayerJump * grown * shift.before[l];
  }
  if (jumped < kJumpedLayers * layers_.size()) return;
  shift.step = batches_[first].step;
  shift.block = batches_[first].block;
  shift.loads = loads_ - static_cast<std::int64_t>(batches_.size() - first);
  shift.mean_before = mean_of_layers(before);
  shift.mean_after = mean_after;
  shift.back_at.assign(layers_.size(), -1);
  if (!shifts_.empty() && shifts_.back().end_step < 0) shifts_.back().end_step = shift.step - 1;
  shifts_.push_back(std::move(shift));
}

// Returns the load from `begin` on with the largest rise from the mean of the few loads before to the mean of the few
// loads from this one on.
std::size_t ShiftWatch::first_of_jump(std::size_t begin) const {
  std::size_t best = std::max<std::size_t>(begin, 1);
  double highest = -1e30;
  for (std::size_t i = best; i < batches_.size(); ++i) {
    const std::size_t before = std::min(i, kEdge), after = std::min(batches_.size() - i, kEdge);
    // Weight by the standard error of the difference of both means.
    const double weight = std::sqrt((before * after) / static_cast<double>(before + after));
    const double rise = weight * (mean_of_layers({i, i + after}) - mean_of_layers({i - before, i}));
    if (rise > highest) {
      highest = rise;
      best = i;
    }
  }
  return best;
}

void ShiftWatch::follow() {
  if (shifts_.empty() || shifts_.back().end_step >= 0) return;
  Shift& shift = shifts_.back();
  if (last_step_ - shift.step < kPeak)
    shift.mean_after = std::max(shift.mean_after, mean_of_layers(newest(kAfterBlocks, kAfterLoads)));
  if (blocks_ - shift.block + 1 < kMeanBlocksOfLayer) return;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    if (shift.back_at[l] < 0 && is_back(shift, l)) shift.back_at[l] = last_step_;
    const bool long_ago =
        axis_->step(last_step_) - axis_->step(std::max<std::int64_t>(0, shift.back_at[l])) > kRecoverySteps / 3;
    if (long_ago && stays_higher(shift, l)) shift.back_at[l] = -1;
  }
  const bool all = std::ranges::none_of(shift.back_at, [](std::int64_t step) { return step < 0; });
  if (all && is_judged(shift)) shift.end_step = last_step_;
}

std::vector<std::size_t> ShiftWatch::not_back(const Shift& shift) const {
  std::vector<std::size_t> out;
  if (shift.end_step >= 0 || !is_judged(shift)) return out;
  for (std::size_t l = 0; l < layers_.size(); ++l)
    if (shift.back_at[l] < 0 && stays_higher(shift, l)) out.push_back(l);
  std::ranges::stable_sort(out, std::greater{}, [this](std::size_t l) { return newest_mean(l); });
  return out;
}

Finding ShiftWatch::describe(const Shift& shift) const {
  const std::vector<std::size_t> unrecovered = not_back(shift);
  Finding finding = finding_of(unrecovered.empty() ? FindingKind::load_shift : FindingKind::no_recovery, run_,
                               {shift.step, shift.end_step >= 0 ? shift.end_step : last_step_});
  finding.knobs = {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff};
  finding.ongoing = shift.end_step < 0;
  std::int64_t first_back = INT64_MAX, last_back = 0, back = 0;
  for (const std::int64_t step : shift.back_at) {
    if (step < 0) continue;
    ++back;
    const std::int64_t steps = axis_->step(step) - axis_->step(shift.step) + 1;
    first_back = std::min(first_back, steps);
    last_back = std::max(last_back, steps);
  }
  const std::string jump = "At step " + axis_->name(shift.step) + " the load of most layers jumped: MaxVio from " +
                           decimal(shift.mean_before, 2) + " to " + decimal(shift.mean_after, 2) +
                           " (mean of the layers).";
  const std::string returned =
      first_back == last_back ? grouped(last_back) : grouped(first_back) + " to " + grouped(last_back);
  if (unrecovered.empty()) {
    finding.title = "The load jumped at step " + axis_->name(shift.step);
    finding.observation =
        fmt::format("{} {} of {}{}{}.", jump, back, counted(std::ssize(layers_), "layer", "layers"),
                    back == 1 ? " has recovered" : " have recovered", back ? " after " + returned + " steps" : "");
    finding.meaning =
        "Another kind of text or a change of settings can cause it, because the balance was learnt for the earlier "
        "text. With the sign rule, expert_bias changes by at most the bias update rate in each step.";
    return finding;
  }
  finding.observation = jump;
  if (most_are_back(shift))
    describe_left(shift, unrecovered, finding);
  else
    describe_stays(shift, unrecovered, finding);
  finding.observation +=
      fmt::format(" {} of the {} recovered{}", back, counted(std::ssize(layers_), "layer has", "layers have"),
                  back ? ", after " + returned + " steps." : ".");
  return finding;
}

void ShiftWatch::describe_left(const Shift& shift, const std::vector<std::size_t>& unrecovered,
                               Finding& finding) const {
  for (const std::size_t l : unrecovered) {
    finding.layers.push_back(layers_[l]);
    finding.observation +=
        fmt::format(" MaxVio of layer {} was {} and is {}, {} later;", layers_[l], decimal(shift.before[l], 2),
                    decimal(newest_mean(l), 2), loads_text(loads_since(shift)));
  }
  finding.observation.back() = '.';
  const bool one = unrecovered.size() == 1;
  finding.title = (one ? "Layer " : "Layers ") + listed(finding.layers) +
                  (one ? " does not recover" : " do not recover") + " from the shift at step " +
                  axis_->name(shift.step);
  finding.brief = "MaxVio of a batch was " + decimal(shift.before[unrecovered[0]], 2) + " before and is " +
                  decimal(newest_mean(unrecovered[0]), 2) + " (mean of the newest batches)";
  finding.meaning =
      "With the sign rule, expert_bias changes by the bias update rate in each step, however large the imbalance is. "
      "The "
      "scores of this layer prefer a few experts by more than the bias has corrected so far, or by a difference that "
      "grows as fast as the bias.";
}

void ShiftWatch::describe_stays(const Shift& shift, const std::vector<std::size_t>& unrecovered,
                                Finding& finding) const {
  double before = 0, newest = 0;
  for (const std::size_t l : unrecovered) {
    finding.layers.push_back(layers_[l]);
    before += shift.before[l] / unrecovered.size();
    newest += newest_mean(l) / unrecovered.size();
  }
  finding.title = "The load jumped at step " + axis_->name(shift.step) + " and stays uneven";
  finding.brief = "MaxVio of a batch was " + decimal(before, 2) + " before and is " + decimal(newest, 2) +
                  " (mean of these layers and the newest batches)";
  finding.observation +=
      fmt::format(" After {}, it is {} in {} layers (mean), where it was {} before the jump.",
                  loads_text(loads_since(shift)), decimal(newest, 2), unrecovered.size(), decimal(before, 2));
  finding.meaning =
      "Another kind of text, a changed setting or a checkpoint that was loaded without its expert_bias can cause it. "
      "The biases that balanced the routers before no longer do.";
}

}  // namespace moescope
