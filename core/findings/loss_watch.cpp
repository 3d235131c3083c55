#include "core/findings/loss_watch.h"

#include <algorithm>
#include <cmath>

#include "core/files/text/no_value.h"
#include "core/findings/recent_load.h"
#include "core/frame/router_stats.h"

namespace moescope {

namespace {

constexpr double kMemory = 0.95;           // factor of the moving mean, about 20 steps: the loss falls fast at first
constexpr std::int64_t kFirstJudged = 50;  // steps before spikes are judged
constexpr std::int64_t kSameSpike = 20;    // steps without a spike that end a spike
constexpr std::size_t kNamedSpikes = 5;    // the newest spikes have a finding each
constexpr std::size_t kRecent = 60;        // losses in which the beginning of a rise is searched
constexpr std::size_t kFallBlocks = kFallSteps / FindingsScan::kBlock;
constexpr double kMinGradientGrowth = 1.1;  // relative to the mean of 200 steps before

constexpr double kLow = 2;  // times the lowest median: before a growth

bool is_lost(float value) {
  return !is_missing(value) && !std::isfinite(value);
}

}  // namespace

void LossWatch::block(std::int64_t first, const LossValues& values) {
  if (first_step_ < 0) first_step_ = first;
  for (std::size_t i = 0; i < values.ce.size(); ++i) {
    const std::int64_t step = first + static_cast<std::int64_t>(i);
    const bool has_others = !is_missing(values.grad_norm[i]) || !is_missing(values.max_vio[i]);
    if (has_others || !is_missing(values.ce[i])) last_logged_ = step;
    count_logged(!is_missing(values.ce[i]), has_others);
    judge_step(step, values.ce[i], values.grad_norm[i], is_lost(values.aux[i]) || is_lost(values.z[i]));
  }
  judge_rise();
  if (std::ssize(values.ce) != FindingsScan::kBlock) return;
  blocks_.push_back(mean_of_finite(values.ce));
  if (blocks_.size() > kFallBlocks) blocks_.pop_front();
  if (std::isfinite(blocks_.back())) judge_fall();
}

void LossWatch::count_logged(bool has_loss, bool has_others) {
  if (has_loss) {
    most_unlogged_ = std::max(most_unlogged_, unlogged_);
    unlogged_ = 0;
  } else if (has_others) {
    ++unlogged_;
  }
}

void LossWatch::judge_step(std::int64_t step, float loss, float grad_norm, bool other_lost) {
  const bool gradient_lost = is_lost(grad_norm);
  if (gradient_lost) {
    if (lost_gradients_.count++ == 0) lost_gradients_.steps.first = step;
    lost_gradients_.steps.last = step;
  } else if (!is_missing(grad_norm)) {
    lost_gradients_ = {};
    gradient_was_finite_ = true;
  }
  const bool with_weights = trained_here_ && gradient_lost;
  if (is_lost(loss) || other_lost)
    note_lost(step, LostBy::loss, with_weights);
  else if (gradient_lost && loss == 0)
    note_lost(step, LostBy::zero, with_weights);
  else if (gradient_lost && (trained_here_ || lost_gradients_.are_many()))
    note_lost(step, LostBy::gradient, with_weights);
  if (std::isfinite(loss) && !(gradient_lost && loss == 0)) add(step, loss, grad_norm);
}

// Extends the newest episode if it goes on, else begins one. A NaN gradient and the NaN loss after it are one episode.
void LossWatch::note_lost(std::int64_t step, LostBy by, bool with_weights) {
  const bool by_gradients = by == LostBy::gradient && !trained_here_;
  const std::int64_t first = by_gradients ? lost_gradients_.steps.first : step;
  const bool extends = !lost_.empty() && (goes_on(lost_.back()) || (by_gradients && lost_.back().steps.last >= first));
  if (!extends) lost_.push_back({{first, step}, by});
  last_step_ = step;
  Lost& lost = lost_.back();
  lost.steps.last = step;
  lost.by = std::min(lost.by, by);
  lost.weights |= with_weights;
}

// True if no finite loss followed; for gradients, if no finite gradient followed.
bool LossWatch::goes_on(const Lost& lost) const {
  if (lost.by == LostBy::gradient && !trained_here_)
    return lost_gradients_.count > 0 && lost_gradients_.steps.first >= lost.steps.first &&
           lost_gradients_.steps.first <= lost.steps.last;
  return lost.exact && lost.steps.last == last_step_;
}

void LossWatch::add(std::int64_t step, float loss, float grad_norm) {
  last_step_ = step;
  recent_.push_back({step, loss});
  if (recent_.size() > kRecent) recent_.pop_front();
  const double value = loss;
  if (loss_count_ == 0) start_ = value;
  const double mean = weight_ > 0 ? mean_ / weight_ : value, deviation = weight_ > 0 ? deviation_ / weight_ : 0;
  const double limit = std::max(kSpikeDeviations * deviation, kSpikeShare * std::fabs(mean));
  double limited = value;
  if (loss_count_ >= kFirstJudged && value - mean > limit) {
    limited = mean + limit;  // limits the effect of a spike, which must not hide the next one
    if (spikes_.empty() || step - spikes_.back().steps.last > kSameSpike)
      spikes_.push_back({{step, step}, loss, static_cast<float>(mean), grad_norm});
    Spike& spike = spikes_.back();
    spike.steps.last = step;
    if (loss > spike.highest) {
      spike.highest = loss;
      spike.grad_norm = grad_norm;
    }
  }
  mean_ = kMemory * mean_ + (1 - kMemory) * limited;
  deviation_ = kMemory * deviation_ + (1 - kMemory) * std::fabs(limited - mean);
  weight_ = kMemory * weight_ + (1 - kMemory);
  ++loss_count_;
}

double LossWatch::mean(std::size_t begin, std::size_t end) const {
  double sum = 0;
  int count = 0;
  for (std::size_t i = begin; i < end; ++i) {
    if (!std::isfinite(blocks_[i])) continue;
    sum += blocks_[i];
    ++count;
  }
  return count ? sum / count : std::nan("");
}

// True if the log has no gradient norm at all, but NaN in its place, while the loss falls.
bool LossWatch::has_no_gradients(const Lost& lost) const {
  return lost.by == LostBy::gradient && !gradient_was_finite_ && median_ < kFallenShare * start_;
}

void LossWatch::judge_rise() {
  if (std::ssize(recent_) < kMedianOf) return;
  std::vector<float> newest;
  for (auto recent = recent_.end() - kMedianOf; recent != recent_.end(); ++recent) newest.push_back(recent->loss);
  median_ = percentile(std::move(newest), 0.5);
  if (!(median_ >= lowest_)) {
    lowest_ = median_;
    lowest_step_ = last_step_;
    lowest_deviation_ = deviation_ / weight_;
  }
  for (std::size_t i = 0; i < rises_.size(); ++i) {
    if (!has_risen_by(kLossRises[i], kCooledShare)) rises_[i] = {};
    if (!rises_[i].goes_on() && has_risen_by(kLossRises[i], 1)) rises_[i] = {rise_step(), loss_count_ - kMedianOf / 2};
  }
}

// `share`: of what is required.
bool LossWatch::has_risen_by(const LossRise& level, double share) const {
  if (start_ < kMinFirstLoss || !(lowest_ > 0)) return false;
  const double reference = std::max(
      {kMinLossRise * lowest_, kMinLossRiseDeviations * lowest_deviation_, level.given_back * (start_ - lowest_)});
  return median_ - lowest_ >= share * reference;
}

// Returns the step from which on the recent losses are higher: it maximises the sum of their distances from a value
// half way up the least rise.
std::int64_t LossWatch::rise_step() const {
  const double middle = lowest_ * (1 + kMinLossRise / 2);
  double sum = 0, highest = 0;
  std::int64_t step = recent_.back().step;
  for (auto recent = recent_.rbegin(); recent != recent_.rend(); ++recent) {
    sum += recent->loss - middle;
    if (sum <= highest) continue;
    highest = sum;
    step = recent->step;
  }
  return step;
}

const LossRise* LossWatch::lasting_rise() const {
  // A loss that has never fallen may rise while the learning rate warms up.
  const std::size_t first = lowest_ < kFallenShare * start_ ? 0 : 1;
  for (std::size_t i = first; i < rises_.size(); ++i)
    if (rises_[i].goes_on() && loss_count_ - rises_[i].losses >= kLossRises[i].losses) return &kLossRises[i];
  return nullptr;
}

void LossWatch::judge_fall() {
  if (rises_.back().goes_on()) {  // reported by add_risen()
    flat_since_ = -1;
    return;
  }
  if (blocks_.size() < kMeanOf) return;
  const double newest = mean(blocks_.size() - kMeanOf, blocks_.size());
  if (flat_since_ >= 0) {
    if (newest < kFallenAgainRatio * plateau_) flat_since_ = -1;
    return;
  }
  if (blocks_.size() < kFallBlocks || first_step_ > 1) return;
  if (axis_->step(last_step_) - axis_->step(first_step_) >= kJudgedFall) return;
  const double before = mean(0, kMeanOf);
  if (newest <= kFallingRatio * before || before < kPlateauRatio * start_) return;
  if (newest >= kMinGradientGrowth * before) return;  // still rising
  flat_since_ = last_step_ - kFallSteps + 1;
  plateau_ = before;
}

void LossWatch::findings(std::vector<Finding>& out) const {
  const auto add = [&](FindingKind kind, StepRange steps, bool ongoing, Setting third) -> Finding& {
    Finding& finding = out.emplace_back(finding_of(kind, run_, steps));
    finding.ongoing = ongoing;
    finding.knobs = {&OptimizerConfig::lr, &OptimizerConfig::clip, third};
    return finding;
  };
  const Setting precision = &PrecisionConfig::experts, warmup = &OptimizerConfig::warmup_steps;
  for (const Lost& lost : lost_)
    if (!has_no_gradients(lost))
      describe(lost, add(FindingKind::loss_not_finite, lost.steps, lost.exact && goes_on(lost), precision));
  for (std::size_t i = spikes_.size() - std::min(spikes_.size(), kNamedSpikes); i < spikes_.size(); ++i) {
    const StepRange steps = spikes_[i].steps;
    describe(spikes_[i], add(FindingKind::loss_spike, steps, last_step_ - steps.last <= kSameSpike, precision));
  }
  if (flat_since_ >= 0 && !is_lost_now())
    describe_stuck(add(FindingKind::loss_stuck, {flat_since_, last_step_}, true, warmup));
  if (const LossRise* rise = lasting_rise(); rise && !is_lost_now()) {
    Finding& finding = add(FindingKind::loss_stuck, {rises_.back().step, last_step_}, true, precision);
    if (rise == &kLossRises.front()) finding.severity = Severity::severe;
    describe_risen(finding);
  }
  if (loss_count_ >= kUnloggedSteps && unlogged_ >= std::max(kUnloggedSteps, kUnloggedTimes * most_unlogged_))
    describe_unlogged(add(FindingKind::loss_unlogged, {last_step_, last_logged_}, true, precision));
}

void GradientWatch::block(std::int64_t first, std::span<const float> norms) {
  for (std::size_t i = 0; i < norms.size(); ++i)
    if (std::isfinite(norms[i])) add({first + static_cast<std::int64_t>(i), norms[i]});
}

void GradientWatch::add(Norm newest) {
  if (recent_.size() == kNormsOfMedian && newest.norm > kGradientSpike * median_)
    spikes_.push_back({newest.step, read_});
  ++read_;
  last_step_ = newest.step;
  while (!spikes_.empty() && read_ - spikes_.front().number > kSpikesAmong) spikes_.pop_front();
  recent_.push_back(newest);
  if (recent_.size() > kNormsOfMedian) recent_.pop_front();
  if (recent_.size() < kNormsOfMedian) return;
  std::vector<float> norms;
  for (const Norm& norm : recent_) norms.push_back(norm.norm);
  median_ = percentile(std::move(norms), 0.5);
  // Norms of 0 are steps without a gradient, as those of a policy gradient if all rewards are equal.
  if (median_ > 0 && (lowest_ == 0 || median_ < lowest_)) {
    lowest_ = median_;
    lowest_step_ = newest.step;
  }
  if (grown() <= kLow) low_until_ = newest.step;
  if (grown() < kGrownGradient)
    grows_since_ = -1;
  else if (grows_since_ < 0)
    grows_since_ = newest.step;
}

void GradientWatch::findings(std::vector<Finding>& out) const {
  const auto add = [&](std::int64_t first_step, Severity severity) -> Finding& {
    Finding& finding = out.emplace_back(finding_of(FindingKind::gradient_norm, run_, {first_step, last_step_}));
    finding.severity = severity;
    finding.knobs = {&OptimizerConfig::lr, &OptimizerConfig::clip};
    return finding;
  };
  if (grows_since_ >= 0) {
    Finding& finding = add(low_until_, grown() >= kLostGradient ? Severity::severe : Severity::warning);
    finding.knobs.push_back(&OptimizerConfig::warmup_steps);
    describe_grown(finding);
  } else if (std::ssize(spikes_) >= kGradientSpikes) {
    describe_spikes(add(spikes_.front().step, Severity::note));
  }
}

}  // namespace moescope
