#include "core/telemetry/loss_watch.h"

#include <algorithm>
#include <cmath>

#include "core/telemetry/words.h"

namespace moescope {

namespace {

constexpr double kMemory = 0.95;           // of the mean, a memory of 20 steps: the loss falls fast at first
constexpr std::int64_t kFirstJudged = 50;  // steps
constexpr std::int64_t kSameSpike = 20;    // steps without one that end it
constexpr std::size_t kNamedSpikes = 5;    // the newest ones

}  // namespace

void LossWatch::block(std::int64_t first, std::span<const float> loss, std::span<const float> grad_norm) {
  for (std::size_t i = 0; i < loss.size(); ++i) {
    if (!is_missing(loss[i])) add(first + static_cast<std::int64_t>(i), loss[i], grad_norm[i]);
  }
}

void LossWatch::add(std::int64_t step, float loss, float grad_norm) {
  last_step_ = step;
  if (!std::isfinite(loss)) {
    if (lost_since_ < 0) lost_since_ = step;
    return;
  }
  lost_since_ = -1;
  const auto value = static_cast<double>(loss);
  const double mean = weight_ > 0 ? mean_ / weight_ : value, deviation = weight_ > 0 ? deviation_ / weight_ : 0;
  const double limit = std::max(kSpikeDeviations * deviation, kSpikeShare * std::fabs(mean));
  double taken = value;
  if (seen_ >= kFirstJudged && value - mean > limit) {
    taken = mean + limit;  // a spike must not hide the next one
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

void LossWatch::findings(std::vector<Finding>& out, std::span<const Marker> markers) const {
  Finding finding;
  finding.run = run_;
  finding.metric = "ce_loss";
  finding.knobs = {"optimizer.lr", "optimizer.clip", "precision.experts"};
  if (lost_since_ >= 0) {
    Finding lost = finding;
    lost.kind = FindingKind::loss_lost;
    lost.severity = Severity::severe;
    lost.steps = {lost_since_, last_step_};
    lost.title = "The loss is no number any more";
    lost.saw = "It has been NaN or infinite since step " + grouped(lost_since_) +
               (spikes_.empty() ? "." : "; it had spiked at step " + grouped(spikes_.back().steps.first) + ".");
    lost.why = "The weights hold NaN by now: nothing of what follows is training. Go back to a checkpoint from before.";
    out.push_back(std::move(lost));
  }
  const std::size_t from = spikes_.size() - std::min(spikes_.size(), kNamedSpikes);
  for (std::size_t i = from; i < spikes_.size(); ++i) {
    const Spike& spike = spikes_[i];
    Finding found = finding;
    found.kind = FindingKind::loss_spike;
    found.ongoing = last_step_ - spike.steps.last <= kSameSpike;
    found.severity = Severity::warning;
    found.steps = spike.steps;
    found.title = "The loss jumped at step " + grouped(spike.steps.first);
    found.saw = "From about " + decimal(static_cast<double>(spike.before), 3) + " to " +
                decimal(static_cast<double>(spike.highest), 3) + " nats/token" +
                (is_missing(spike.grad_norm) ? std::string()
                                             : ", gradient norm " + decimal(static_cast<double>(spike.grad_norm), 3)) +
                (spike.steps.size() > 1 ? ", over " + steps_in_words(spike.steps.first, spike.steps.last) : "") + ".";
    for (const Marker& marker : markers) {
      if (marker.run == run_ && std::abs(marker.step - spike.steps.first) <= 3)
        found.saw += " Just then: " + marker.text + ".";
    }
    found.why =
        "A bad batch, a learning rate at the edge, or a change of data or settings. One that comes back by "
        "itself is harmless; series of them end in NaN.";
    out.push_back(std::move(found));
  }
}

}  // namespace moescope
