// The sentences of findings on the loss and the gradient norm.
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "core/files/text/no_value.h"
#include "core/files/text/words.h"
#include "core/findings/loss_watch.h"

namespace moescope {

void LossWatch::describe(const Lost& lost, Finding& finding) const {
  const bool ongoing = finding.ongoing;
  const std::string what = lost.by == LostBy::gradient ? "gradient" : "loss", when = axis_->words(lost.steps);
  const std::string lost_since = " has been NaN or infinite since step " + axis_->name(lost.steps.first);
  finding.brief = "The " + what + lost_since;
  finding.title = ongoing ? "The " + what + " is NaN or infinite" : "The " + what + " was NaN or infinite at " + when;
  finding.observation = "It was NaN or infinite somewhere in " + when + "; only means of these steps are kept";
  if (lost.exact) finding.observation = "It was NaN or infinite at " + when;
  if (ongoing && lost.steps.size() > 1) finding.observation = "It" + lost_since;
  if (ongoing && lost.steps.size() == 1) finding.observation += ", the newest step";
  const auto spike = std::ranges::find_if(spikes_.rbegin(), spikes_.rend(),
                                          [&](const Spike& spike) { return spike.steps.first < lost.steps.first; });
  if (spike != spikes_.rend()) finding.observation += "; it had spiked at step " + axis_->name(spike->steps.first);
  finding.observation += ".";
  if (lost.by == LostBy::zero)
    finding.observation +=
        " It is logged as 0 beside a gradient that is NaN or infinite: transformers' Trainer writes 0 for such a loss "
        "(logging_nan_inf_filter).";
  if (lost.weights) {
    finding.observation += " The gradient was NaN or infinite, too, and the weights were updated with it.";
    finding.meaning = "The weights contain NaN, so that further training is useless. Go back to an earlier checkpoint.";
  } else if (ongoing) {
    finding.meaning =
        "This history does not show the weights. If a step was taken with such a gradient, or with the gradient of "
        "such "
        "a loss, they contain NaN, and further training is useless; if every such step is skipped, nothing is learnt.";
  } else {
    finding.meaning =
        "It became finite again: the step was skipped, or the run continued from other weights. The cause may come "
        "back.";
  }
}

void LossWatch::describe(const Spike& spike, Finding& finding) const {
  finding.title = "The loss jumped at step " + axis_->name(spike.steps.first);
  finding.observation =
      "From about " + decimal(spike.before, 3) + " to " + decimal(spike.highest, 3) + " nats/token" +
      (is_missing(spike.grad_norm) ? std::string() : ", gradient norm " + decimal(spike.grad_norm, 3)) +
      (spike.steps.size() > 1 ? ", over " + axis_->words(spike.steps) : "") + ".";
  finding.meaning =
      "A bad batch, a learning rate that is almost too high, or a change of data or settings can cause it. A single "
      "spike from which the loss recovers costs some steps; if spikes repeat, the run may diverge.";
}

void LossWatch::describe_stuck(Finding& finding) const {
  finding.title = "The loss does not fall";
  // A plateau after a fall is not part of the verdict: the model may have learned what the text allows.
  if (plateau_ > kFallenShare * start_) finding.brief = finding.title;
  finding.observation = "Its mean of the last 100 steps is " +
                        decimal(mean(blocks_.size() - kMeanOf, blocks_.size()), 3) +
                        " nats/token; over the 100 steps from step " + axis_->name(flat_since_) + " on it was " +
                        decimal(plateau_, 3) + ". The run began at " + decimal(start_, 3) + ".";
  finding.meaning =
      "A learning rate that is far too high or near 0 causes this, and so does a text from which nothing more can be "
      "learnt. A run with a tenth of the learning rate shows whether it is the cause.";
}

void LossWatch::describe_risen(Finding& finding) const {
  const bool diverged = finding.severity == Severity::severe;
  const std::string at = " at step " + axis_->name(finding.steps.first);
  finding.title = diverged ? "The loss diverged" + at : "The loss rose" + at + " and stays up";
  finding.brief = finding.title;
  finding.observation = "The median of its newest " + grouped(kMedianOf) + " values is " + decimal(median_, 3) +
                        " nats/token; the lowest such median, up to step " + axis_->name(lowest_step_) + ", was " +
                        decimal(lowest_, 3) + ". The run began at " + decimal(start_, 3) + ".";
  finding.meaning =
      "Either the text has changed, so that the two values cannot be compared, or the model has lost what it had "
      "learnt: a learning rate that is too high causes this without a NaN.";
}

void LossWatch::describe_unlogged(Finding& finding) const {
  finding.brief = "The loss has not been logged since step " + axis_->name(last_step_);
  finding.title = "The loss is no longer logged";
  finding.observation = "Step " + axis_->name(last_step_) + " has the newest loss. " +
                        counted(unlogged_, "later step has", "later steps have") +
                        " other values, but no loss; between two losses there were at most " +
                        counted(most_unlogged_, "such step", "such steps") + " before.";
  finding.meaning =
      "Some programs write no value for a loss that is NaN. Then the training is lost; the newest checkpoint shows "
      "whether its weights contain NaN.";
}

void GradientWatch::describe_grown(Finding& finding) const {
  finding.title = "The gradient norm grew " + grouped(static_cast<std::int64_t>(grown())) + "-fold";
  finding.brief = finding.title + " since step " + axis_->name(low_until_);
  finding.observation = fmt::format(
      "The median of its newest {} values is {}; over as many values up to step {} it was {}, the lowest of the run. "
      "It has been more than {} times this value since step {}.",
      kNormsOfMedian, decimal(median_, 3), axis_->name(lowest_step_), decimal(lowest_, 3),
      grouped(static_cast<std::int64_t>(kGrownGradient)), axis_->name(grows_since_));
  finding.meaning =
      "Weights or activations grow without limit: a learning rate that is too high, layers without normalization or "
      "number formats that clip can cause it. Clipping keeps the update small, but its direction is then decided by "
      "few tokens, and a NaN often follows.";
}

void GradientWatch::describe_spikes(Finding& finding) const {
  finding.title = "The gradient norm has spikes";
  finding.observation = fmt::format(
      "{} of the newest {} {} above {} times the median of the {} values before, the last at step {}.",
      counted(std::ssize(spikes_), "value", "values"), grouped(std::min(read_, kSpikesAmong)),
      spikes_.size() == 1 ? "is" : "are", decimal(kGradientSpike), kNormsOfMedian, axis_->name(spikes_.back().step));
  finding.meaning =
      "Clipping limits the effect of a spike, but the moments of the optimizer keep it for many steps. Repeated spikes "
      "often come before a spike of the loss.";
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
