#include "core/findings/comparison/gap_track.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace moescope {

constexpr std::size_t kMaxBytes = std::size_t{8} << 20;  // for each of the two series
constexpr double kRoundingError = 1e-9;                  // of a number of batches

double token_ratio(const History& a, const History& b) {
  const auto is_log = [](const History& run) { return run_origin(run.info()) == RunOrigin::log; };
  const double tokens_a = a.info().tokens_per_step, tokens_b = b.info().tokens_per_step;
  return tokens_a > 0 && tokens_b > 0 && (is_log(a) || is_log(b)) ? tokens_a / tokens_b : 1;
}

bool are_paired_by_tokens(std::span<const HistoryPtr> runs) {
  const auto states_tokens = [](const HistoryPtr& run) { return run->info().tokens_per_step > 0; };
  const auto differs = [&](const HistoryPtr& run) { return token_ratio(*runs.front(), *run) != 1; };
  return std::ranges::all_of(runs, states_tokens) && std::ranges::any_of(runs, differs);
}

static std::int64_t aligned_step(std::int64_t step, double ratio) {
  return std::llround((step + 1) * ratio) - 1;
}

// How far a paired step may be from the aligned one, if a step has `ratio` times the tokens of a step of the other run.
static std::int64_t step_tolerance(double ratio) {
  return ratio > 1 ? std::max<std::int64_t>(1, static_cast<std::int64_t>(ratio / 2)) : 0;
}

// Returns the one of these rising steps that is nearest to `step`, at most `tolerance` away; nullopt if there is none.
static std::optional<std::int64_t> nearest_step(const std::vector<std::int64_t>& steps, std::int64_t step,
                                                std::int64_t tolerance) {
  auto nearest = std::ranges::lower_bound(steps, step);
  if (nearest != steps.begin() && (nearest == steps.end() || step - *std::prev(nearest) <= *nearest - step)) --nearest;
  return nearest == steps.end() || std::abs(*nearest - step) > tolerance ? std::nullopt : std::optional(*nearest);
}

std::optional<std::int64_t> paired_step(const History& a, std::int64_t step, const History& b, bool by_tokens) {
  const double ratio = by_tokens ? token_ratio(a, b) : 1;
  const std::int64_t aligned = aligned_step(step, ratio), tolerance = step_tolerance(ratio);
  return nearest_step(b.steps_in({aligned - tolerance, aligned + tolerance}), aligned, tolerance);
}

std::int64_t step_by_tokens(const History& a, std::int64_t step, const History& b) {
  return aligned_step(step, token_ratio(a, b));
}

// The average is over steps, not over values, which may be many steps apart, as in a log of every 20th step.
void GapTrack::Average::add(std::int64_t step, double value) {
  if (!std::isfinite(value)) return;
  const double decay = std::pow(kGapFactor, step - last_step_);
  last_step_ = step;
  sum_ = decay * sum_ + (1 - kGapFactor) * value;
  weight_ = decay * weight_ + (1 - kGapFactor);
}

float GapTrack::Average::get() const {
  return weight_ > 0 ? static_cast<float>(sum_ / weight_) : kNoValue;
}

GapTrack::GapTrack(HistoryPtr a, HistoryPtr b, Metric metric, bool by_tokens)
    : a_(std::move(a)), b_(std::move(b)), metric_(metric), by_tokens_(by_tokens) {}

bool GapTrack::update() {
  const std::uint64_t sequence = a_->sequence() + b_->sequence();
  if (sequence == read_sequence_) return false;
  const std::uint64_t truncations = a_->truncations() + b_->truncations();
  const StepRange both = readable_steps();
  if (truncations != truncations_ || both.empty() || both.first != read_.first)
    *this = GapTrack(a_, b_, metric_, by_tokens_);
  read_sequence_ = sequence;
  truncations_ = truncations;
  const StepRange news{read_.empty() ? both.first : read_.last + 1, both.last};
  if (news.empty()) return true;
  read_ = both;
  const StepPairs pairs = pairs_in(news);
  const std::vector<float> values_a = a_->values_at(metric_, kWholeRun, pairs.a),
                           values_b = b_->values_at(metric_, kWholeRun, pairs.b);
  for (std::size_t i = 0; i < pairs.a.size(); ++i) add(pairs.a[i], values_a[i], values_b[i]);
  for (Pyramid* series : {&raw_, &smooth_})
    while (series->bytes() > kMaxBytes && series->forget_older_half()) {
    }
  return true;
}

// Steps of the run with the larger batches up to whose end the other run has read.
StepRange GapTrack::readable_steps() const {
  const bool is_a_coarse = ratio_of(*a_, *b_) >= 1;
  const History &coarse = is_a_coarse ? *a_ : *b_, &fine = is_a_coarse ? *b_ : *a_;
  const StepRange coarse_steps = coarse.steps(), fine_steps = fine.steps();
  if (coarse_steps.empty() || fine_steps.empty()) return {};
  const double batches = ratio_of(fine, coarse), batches_read = (fine_steps.last + 1) * batches;
  return {std::max(coarse_steps.first, aligned_step(fine_steps.first, batches)),
          std::min(coarse_steps.last, static_cast<std::int64_t>(std::floor(batches_read + kRoundingError)) - 1)};
}

// Pairs each step of the run with the larger batches with the nearest step of the other run, which may be half a batch
// or one step away.
GapTrack::StepPairs GapTrack::pairs_in(StepRange steps) const {
  const bool is_a_coarse = ratio_of(*a_, *b_) >= 1;
  const History &coarse = is_a_coarse ? *a_ : *b_, &fine = is_a_coarse ? *b_ : *a_;
  const double ratio = ratio_of(coarse, fine);
  const std::int64_t tolerance = step_tolerance(ratio);
  const std::vector<std::int64_t> fine_steps =
      fine.steps_in({aligned_step(steps.first, ratio) - tolerance, aligned_step(steps.last, ratio) + tolerance});
  StepPairs pairs;
  std::int64_t last_fine_step = steps_.empty() || is_a_coarse ? -1 : steps_.back();
  for (const std::int64_t step : coarse.steps_in(steps)) {
    const std::optional<std::int64_t> nearest = nearest_step(fine_steps, aligned_step(step, ratio), tolerance);
    if (!nearest || *nearest <= last_fine_step) continue;
    last_fine_step = *nearest;
    pairs.a.push_back(is_a_coarse ? step : *nearest);
    pairs.b.push_back(is_a_coarse ? *nearest : step);
  }
  return pairs;
}

void GapTrack::add(std::int64_t step, float loss_a, float loss_b) {
  steps_.push_back(step);
  const double gap = loss_b - static_cast<double>(loss_a);
  raw_.append(std::isfinite(gap) ? static_cast<float>(gap) : kNoValue);
  average_.add(step, gap);
  smooth_.append(average_.get());
  if (is_missing(loss_a) && is_missing(loss_b)) return;  // for example between two measurements of the validation loss
  measured_ = true;
  if (gap != 0) first_different_ = std::min(first_different_, step);
  if (std::isfinite(loss_a) == std::isfinite(loss_b)) {
    lost_.reset();
    return;
  }
  if (!lost_) lost_ = step;
  if (!first_lost_ && !is_missing(loss_a) && !is_missing(loss_b)) first_lost_ = step;
}

std::vector<PyramidBin> GapTrack::series(std::span<const std::int64_t> edges) const {
  std::vector<PyramidBin> bins;
  for (std::size_t b = 0; b + 1 < edges.size(); ++b) bins.push_back(raw_.slice(place(edges[b]), place(edges[b + 1])));
  return bins;
}

std::vector<float> GapTrack::smoothed(std::span<const std::int64_t> edges) const {
  std::vector<float> averages;
  for (std::size_t b = 0; b + 1 < edges.size(); ++b) {
    const std::size_t end = place(edges[b + 1]);
    averages.push_back(place(edges[b]) < end ? smooth_[end - 1] : kNoValue);
  }
  return averages;
}

std::optional<std::int64_t> GapTrack::first_beyond(double epsilon) const {
  const std::size_t end = first_lost_ ? place(*first_lost_) : steps_.size();
  for (std::size_t i = 0; i < end; ++i)
    if (std::fabs(raw_[i]) > epsilon) return steps_[i];
  return first_lost_;
}

StepRange GapTrack::last_steps(std::int64_t n, std::int64_t last_step) const {
  const std::size_t end = place(last_step + 1);
  if (end == 0 || n <= 0) return {};
  return {steps_[end - std::min(end, static_cast<std::size_t>(n))], steps_[end - 1]};
}

}  // namespace moescope
