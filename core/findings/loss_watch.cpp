#include "core/findings/loss_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/history/finite_mean.h"
#include "core/io/words.h"

namespace moescope {

namespace {

constexpr double kMemory = 0.95;           // factor of the moving mean, about 20 steps: the loss falls fast at first
constexpr std::int64_t kFirstJudged = 50;  // steps before spikes are judged
constexpr std::int64_t kSameSpike = 20;    // steps without a spike that end a spike
constexpr std::size_t kNamedSpikes = 5;    // the newest spikes have a finding each
constexpr std::size_t kMeanOf = 10;        // blocks, 100 steps
constexpr std::size_t kFallBlocks = kFallSteps / FindingsScan::kBlock;
constexpr double kRising = 1.1;  // relative to the mean of 200 steps before

bool is_lost(float value) {
  return !is_missing(value) && !std::isfinite(value);
}

}  // namespace

void LossWatch::block(std::int64_t first, const LossValues& values) {
  if (first_step_ < 0) first_step_ = first;
  for (std::size_t i = 0; i < values.ce.size(); ++i) {
    const float loss = values.ce[i], grad_norm = values.grad_norm[i];
    const bool lost = is_lost(loss) || is_lost(values.aux[i]) || is_lost(values.z[i]);
    if (!lost && is_missing(loss)) continue;
    const std::int64_t previous = std::exchange(last_step_, first + static_cast<std::int64_t>(i));
    // A NaN gradient is ignored for runs of other programs, because many skip such a step.
    const bool of_gradient = !lost && trained_here_ && is_lost(grad_norm);
    if (lost || of_gradient)
      note_lost(previous, last_step_, of_gradient, trained_here_ && is_lost(grad_norm));
    else
      add(last_step_, loss, grad_norm);
  }
  if (std::ssize(values.ce) == FindingsScan::kBlock) judge_blocks(values);
}

// Extends the newest episode if it ended at step `previous`, else begins one. A NaN gradient and the NaN loss of the
// next step belong to one episode.
void LossWatch::note_lost(std::int64_t previous, std::int64_t step, bool of_gradient, bool with_weights) {
  if (lost_.empty() || lost_.back().steps.last != previous) lost_.push_back({{step, step}, of_gradient});
  Lost& lost = lost_.back();
  lost.steps.last = step;
  lost.gradient &= of_gradient;
  lost.weights |= with_weights;
}

void LossWatch::non_finite_among(StepRange steps) {
  lost_.push_back({steps, false, false, false});
}

void LossWatch::add(std::int64_t step, float loss, float grad_norm) {
  const auto value = static_cast<double>(loss);
  if (seen_ == 0) start_ = value;
  const double mean = weight_ > 0 ? mean_ / weight_ : value, deviation = weight_ > 0 ? deviation_ / weight_ : 0;
  const double limit = std::max(kSpikeDeviations * deviation, kSpikeShare * std::fabs(mean));
  double taken = value;
  if (seen_ >= kFirstJudged && value - mean > limit) {
    taken = mean + limit;  // limits the effect of a spike, which must not hide the next one
    if (spikes_.empty() || step - spikes_.back().steps.last > kSameSpike) {
      spikes_.push_back({{step, step}, loss, static_cast<float>(mean), grad_norm});
    }
    Spike& spike = spikes_.back();
    spike.steps.last = step;
    if (loss > spike.highest) spike.highest = loss, spike.grad_norm = grad_norm;
  }
  mean_ = kMemory * mean_ + (1 - kMemory) * taken;
  deviation_ = kMemory * deviation_ + (1 - kMemory) * std::fabs(taken - mean);
  weight_ = kMemory * weight_ + (1 - kMemory);
  ++seen_;
}

double LossWatch::mean(double Means::*member, std::size_t begin, std::size_t end) const {
  double sum = 0;
  int count = 0;
  for (std::size_t i = begin; i < end; ++i) {
    if (!std::isfinite(blocks_[i].*member)) continue;
    sum += blocks_[i].*member;
    ++count;
  }
  return count ? sum / count : std::nan("");
}

void LossWatch::judge_blocks(const LossValues& values) {
  blocks_.push_back({mean_of_finite(values.ce), mean_of_finite(values.aux), mean_of_finite(values.z)});
  if (blocks_.size() > kFallBlocks) blocks_.pop_front();
  const std::int64_t end = last_step_;
  const auto follow = [&](bool holds, std::int64_t steps, std::int64_t& since) {
    if (!holds)
      since = -1;
    else if (since < 0)
      since = std::max(first_step_, end - steps + 1);
  };
  if (blocks_.size() < kMeanOf) return;
  const std::size_t begin = blocks_.size() - kMeanOf;
  const double ce = mean(&Means::ce, begin, blocks_.size());
  follow(mean(&Means::aux, begin, blocks_.size()) >= kAuxNoted * ce, kMeanOf * FindingsScan::kBlock, aux_since_);
  follow(mean(&Means::z, begin, blocks_.size()) >= kAuxNoted * ce, kMeanOf * FindingsScan::kBlock, z_since_);
  if (lowest_ == 0 || ce < lowest_) lowest_ = ce, lowest_step_ = end;
  follow(ce >= kRose * lowest_, kMeanOf * FindingsScan::kBlock, high_since_);
  judge_fall(ce);
}

void LossWatch::judge_fall(double now) {
  if (high_since_ >= 0) {  // reported by add_risen()
    flat_since_ = -1;
    return;
  }
  if (flat_since_ >= 0) {
    if (now < kFallsAgain * plateau_) flat_since_ = -1;
    return;
  }
  if (blocks_.size() < kFallBlocks || first_step_ > 1 || last_step_ - first_step_ >= kJudgedFall) return;
  const double before = mean(&Means::ce, 0, kMeanOf);
  if (now <= kStillFalls * before || before < kHardlyFallen * start_) return;
  if (now >= kRising * before) return;  // still rising
  flat_since_ = last_step_ - kFallSteps + 1;
  plateau_ = before;
}

Finding LossWatch::make(FindingKind kind, StepRange steps, bool ongoing) const {
  Finding finding;
  finding.kind = kind;
  finding.severity = Severity::warning;
  finding.run = run_;
  finding.steps = steps;
  finding.ongoing = ongoing;
  finding.metric = Metric::ce_loss;
  finding.knobs = {&OptimizerConfig::lr, &OptimizerConfig::clip, &PrecisionConfig::experts};
  return finding;
}

void LossWatch::findings(std::vector<Finding>& out, std::optional<double> even_aux) const {
  add_lost(out);
  add_spikes(out);
  add_stuck(out);
  add_risen(out);
  add_auxiliary(out, even_aux);
}

void LossWatch::add_lost(std::vector<Finding>& out) const {
  for (const Lost& lost : lost_) {
    const bool ongoing = lost.exact && lost.steps.last == last_step_;
    Finding finding = make(FindingKind::loss_not_finite, lost.steps, ongoing);
    finding.severity = Severity::severe;
    const std::string what = lost.gradient ? "gradient" : "loss";
    const std::string when = axis_->words(lost.steps);
    finding.title = ongoing ? "The " + what + " is NaN or infinite" : "The " + what + " was NaN or infinite at " + when;
    finding.observation =
        ongoing && lost.steps.size() > 1 ? "It has been NaN or infinite since step " + axis_->name(lost.steps.first)
        : lost.exact                     ? "It was NaN or infinite at " + when
                     : "It was NaN or infinite somewhere in " + when + "; only means of these steps are kept";
    if (ongoing && lost.steps.size() == 1) finding.observation += ", the newest step";
    const auto spike = std::ranges::find_if(spikes_.rbegin(), spikes_.rend(),
                                            [&](const Spike& each) { return each.steps.first < lost.steps.first; });
    if (spike != spikes_.rend()) finding.observation += "; it had spiked at step " + axis_->name(spike->steps.first);
    finding.observation += ".";
    if (lost.weights) {
      finding.observation += " The gradient was NaN or infinite, too, and the weights were updated with it.";
      finding.why = "The weights contain NaN, so that further training is useless. Go back to an earlier checkpoint.";
    } else if (ongoing) {
      finding.why =
          "This history does not show the weights. If a step was taken with the gradient of such a loss, they contain "
          "NaN, and further training is useless.";
    } else {
      finding.why =
          "It became finite again: the step was skipped, or the run continued from other weights. The cause may come "
          "back.";
    }
    out.push_back(std::move(finding));
  }
}

void LossWatch::add_spikes(std::vector<Finding>& out) const {
  const std::size_t from = spikes_.size() - std::min(spikes_.size(), kNamedSpikes);
  for (std::size_t i = from; i < spikes_.size(); ++i) {
    const Spike& spike = spikes_[i];
    Finding found = make(FindingKind::loss_spike, spike.steps, last_step_ - spike.steps.last <= kSameSpike);
    found.title = "The loss jumped at step " + axis_->name(spike.steps.first);
    found.observation =
        "From about " + decimal(static_cast<double>(spike.before), 3) + " to " +
        decimal(static_cast<double>(spike.highest), 3) + " nats/token" +
        (is_missing(spike.grad_norm) ? std::string()
                                     : ", gradient norm " + decimal(static_cast<double>(spike.grad_norm), 3)) +
        (spike.steps.size() > 1 ? ", over " + axis_->words(spike.steps) : "") + ".";
    found.why =
        "A bad batch, a learning rate that is almost too high, or a change of data or settings can cause it. A single "
        "spike from which the loss recovers costs some steps; if spikes repeat, the run may diverge.";
    out.push_back(std::move(found));
  }
}

void LossWatch::add_stuck(std::vector<Finding>& out) const {
  if (flat_since_ < 0 || (!lost_.empty() && lost_.back().steps.last == last_step_)) return;
  Finding finding = make(FindingKind::loss_stuck, {flat_since_, last_step_}, true);
  finding.knobs = {&OptimizerConfig::lr, &OptimizerConfig::clip, &OptimizerConfig::warmup_steps};
  finding.title = "The loss does not fall";
  finding.observation = "Its mean of the last 100 steps is " +
                        decimal(mean(&Means::ce, blocks_.size() - kMeanOf, blocks_.size()), 3) +
                        " nats/token; over the 100 steps from step " + axis_->name(flat_since_) + " on it was " +
                        decimal(plateau_, 3) + ". The run began at " + decimal(start_, 3) + ".";
  finding.why =
      "A learning rate that is far too high or near 0 causes this, and so does a text from which nothing more can be "
      "learnt. A twin with a tenth of optimizer.lr shows whether the learning rate is the cause.";
  out.push_back(std::move(finding));
}

void LossWatch::add_risen(std::vector<Finding>& out) const {
  if (high_since_ < 0 ||
      last_step_ - high_since_ + 1 < kRoseSteps + static_cast<std::int64_t>(kMeanOf) * FindingsScan::kBlock)
    return;
  if (!lost_.empty() && lost_.back().steps.last == last_step_) return;
  Finding finding = make(FindingKind::loss_stuck, {high_since_, last_step_}, true);
  finding.title = "The loss rose and stays up";
  finding.observation = "Its mean of the last 100 steps is " +
                        decimal(mean(&Means::ce, blocks_.size() - kMeanOf, blocks_.size()), 3) +
                        " nats/token; over the 100 steps up to step " + axis_->name(lowest_step_) + " it was " +
                        decimal(lowest_, 3) + ".";
  finding.why =
      "Either the text has changed, so that the two values cannot be compared, or the model has lost what it had "
      "learnt: a learning rate that is too high causes this without a NaN.";
  out.push_back(std::move(finding));
}

void LossWatch::add_auxiliary(std::vector<Finding>& out, std::optional<double> even_aux) const {
  const std::size_t begin = blocks_.size() - std::min(blocks_.size(), kMeanOf);
  const double ce = mean(&Means::ce, begin, blocks_.size());
  const auto add = [&](std::int64_t since, double value, const char* name, Metric metric) -> Finding* {
    if (since < 0) return nullptr;
    Finding finding = make(FindingKind::auxiliary_dominates, {since, last_step_}, true);
    if (value < kAuxRules * ce) finding.severity = Severity::note;
    finding.metric = metric;
    finding.title = std::string("The ") + name + " outweighs the cross-entropy";
    finding.observation =
        "It is " + decimal(value, 3) + " against " + decimal(ce, 3) + " nats/token (means of 100 steps).";
    out.push_back(std::move(finding));
    return &out.back();
  };
  if (Finding* aux = add(aux_since_, mean(&Means::aux, begin, blocks_.size()), "load-balance loss", Metric::aux_loss)) {
    aux->knobs = {&RouterConfig::aux_coeff, &RouterConfig::aux_mode};
    if (even_aux)
      aux->observation +=
          " At an even load it would be " + decimal(*even_aux, 3) + " (the coefficient times the number of layers).";
    aux->why =
        "The gates are trained on the sum, so that an uneven load affects them more than the text does. This number "
        "does not show the cost: compare the mutual information, and the loss of a twin with a smaller coefficient.";
  }
  if (Finding* z = add(z_since_, mean(&Means::z, begin, blocks_.size()), "router z-loss", Metric::z_loss)) {
    z->knobs = {&RouterConfig::z_coeff};
    z->why =
        "The z-loss pulls the logits of the router towards 0, where all experts have equal scores: a router that "
        "mainly minimises it does not distinguish experts. Its purpose is to keep large logits from growing; for that "
        "it should be small beside the cross-entropy.";
  }
}

void add_origin(const History& history, Finding& finding) {
  if (finding.kind != FindingKind::loss_not_finite) return;
  for (const Marker& marker : history.markers()) {
    if (marker.step != finding.steps.first || !marker.text.starts_with(kFirstNonFinite)) continue;
    const auto place = non_finite_in(std::string_view(marker.text).substr(kFirstNonFinite.size()));
    if (!place) continue;
    finding.observation += " In the order of computation the first such value is: " + place->text() + ".";
    if (const RunConfig* config = history.settings_at(marker.step)->config())
      finding.operands = operands_at(*place, config->model);
    return;
  }
}

}  // namespace moescope
