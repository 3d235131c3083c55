#include "core/findings/comparison/comparison.h"

#include <algorithm>
#include <cmath>

#include "core/files/text/words.h"
#include "core/frame/router_stats.h"
#include "core/recording/history/step_axis.h"

namespace moescope {
namespace {

float mean_of(const History& history, Metric metric, StepRange window) {
  double sum = 0;
  int finite = 0;
  float last = kNoValue;
  for (const float value : history.values_in(metric, kWholeRun, window)) {
    if (!is_missing(value)) last = value;
    if (!std::isfinite(value)) continue;
    sum += value;
    ++finite;
  }
  return finite ? static_cast<float>(sum / finite) : last;
}

}  // namespace

std::optional<std::int64_t> first_divergence_step(const History& a, const History& b, double epsilon) {
  GapTrack track(HistoryPtr(HistoryPtr(), &a), HistoryPtr(HistoryPtr(), &b));
  track.update();
  return track.first_beyond(epsilon);
}

std::vector<float> load_difference(const RouterFrame& a, const RouterFrame& b) {
  if (a.tokens_per_expert.size() != b.tokens_per_expert.size()) return {};
  std::vector<float> difference(a.tokens_per_expert.size());
  for (std::size_t e = 0; e < difference.size(); ++e)
    difference[e] = utilisation(b.tokens_per_expert, e) - utilisation(a.tokens_per_expert, e);
  return difference;
}

RunFigures run_figures(const History& history, StepRange window) {
  RunFigures row;
  row.run = history.info().run;
  row.name = history.info().name;
  if (window.empty()) return row;
  row.steps = std::ssize(history.steps_in({history.steps().first, window.last}));
  const std::int64_t last[] = {window.last};
  row.final_loss = history.values_at(Metric::ce_loss, kWholeRun, last).front();
  row.mean_loss = mean_of(history, Metric::ce_loss, window);
  row.max_vio = mean_of(history, Metric::max_vio, window);
  row.tokens_per_s = mean_of(history, Metric::tokens_per_s, window);
  row.flip_rate = mean_of(history, Metric::flip_rate, window);
  row.rounding_flip_rate = mean_of(history, Metric::rounding_flip_rate, window);
  row.gradient_cosine = mean_of(history, Metric::gradient_cosine, window);
  return row;
}

std::optional<FigureOfPieces> figure_of_texts(const History& history, Metric metric, int layer) {
  std::vector<double> known;
  for (const float value : history.values_in(metric, layer, history.steps()))
    if (std::isfinite(value)) known.push_back(value);
  return known.empty() ? std::nullopt : std::optional(figure_of_pieces(known));
}

StepRange last_common_steps(std::span<const HistoryPtr> histories, std::int64_t n, std::int64_t last_step) {
  if (histories.empty()) return {};
  StepRange common{histories.front()->steps().first, std::min(histories.front()->steps().last, last_step)};
  for (const HistoryPtr& history : histories) {
    const StepRange steps = history->steps();
    common = {std::max(common.first, steps.first), std::min(common.last, steps.last)};
    if (steps.empty()) return {};
  }
  const StepRange newest = histories.front()->last_steps(n, common.last);
  return {std::max(common.first, newest.first), common.last};
}

FormatCosts format_costs(const History& history, std::int64_t step) {
  FormatCosts costs;
  if (const auto measured = history.gradient_frame_at(step)) {
    const float snr = history.value_at(Metric::gradient_snr_db, kWholeRun, measured->step);
    if (!is_missing(snr)) costs.gradient_error = std::pow(10.0f, -snr / 20);
    double flips = 0;
    for (const FlipFrame& layer : measured->rounding_flips) flips += layer.flip_rate;
    if (!measured->rounding_flips.empty()) costs.flips = static_cast<float>(flips / measured->rounding_flips.size());
  }
  if (const auto quantized = history.quant_frame_at(step))
    for (const QuantFrame& operand : quantized->quants)
      if (!is_missing(operand.underflow) && !(operand.underflow <= costs.flushed)) {
        costs.flushed = operand.underflow;
        costs.flushed_operand = operand;
      }
  return costs;
}

RoutingOverlap routing_overlap(const History& run, std::int64_t step) {
  RoutingOverlap routing;
  routing.replayed = run.settings_at_start()->holds(&RouterConfig::replay);
  const auto compared = run.flip_frame_at(step);
  if (!compared || compared->flips.empty()) return routing;
  routing.step = compared->step;
  double sum = 0;
  for (const FlipFrame& layer : compared->flips) {
    sum += layer.overlap;
    if (layer.flip_rate > 0 && routing.first_differing_layer < 0) routing.first_differing_layer = layer.layer;
  }
  routing.overlap = static_cast<float>(sum / compared->flips.size());
  return routing;
}

std::string to_text(const RoutingOverlap& routing) {
  if (routing.replayed)
    return "replays run A's routing, so that all experts are in common: arithmetic causes the rest of the gap";
  if (routing.step < 0 || !std::isfinite(routing.overlap)) return {};
  // Four digits show the differences of a few in a thousand that rounding causes.
  const std::string text =
      fmt::format("{:.4g} % of experts in common with run A at step {}", 100 * routing.overlap, routing.step);
  if (routing.first_differing_layer < 0) return text;
  return fmt::format("{}, different experts from layer {} on", text, routing.first_differing_layer);
}

void RunGaps::set(const HistoryPtr& a, const std::vector<PairedRun>& other_runs, const std::vector<PairedRun>& twins,
                  const Judging& judging) {
  const auto taken_over = [&](std::vector<PairedTrack>& old, const std::vector<PairedRun>& runs) {
    std::vector<PairedTrack> tracks;
    bool is_unchanged = old.size() == runs.size();  // true if the runs and their order are the same as before
    for (const PairedRun& run : runs) {
      PairedTrack track = paired_track(a, run, loss_);
      const auto previous = std::ranges::find_if(old, [&](const PairedTrack& pair) {
        return pair.track.a() == track.track.a() && pair.track.b() == track.track.b() &&
               pair.track.by_tokens() == track.track.by_tokens();
      });
      is_unchanged &= previous != old.end() && previous - old.begin() == std::ssize(tracks) &&
                      previous->same_start == run.same_start && previous->has_twins == run.has_twins;
      if (previous != old.end()) track.track = std::move(previous->track);
      tracks.push_back(std::move(track));
    }
    old = std::move(tracks);
    return is_unchanged;
  };
  const bool same_runs = taken_over(runs_, other_runs), same_twins = taken_over(twins_, twins);
  if (!same_runs || !same_twins || judging != judging_) conclusions_.clear();
  if (!same_runs || !same_twins || judging.matters != judging_.matters || judging.candidates != judging_.candidates)
    traces_.clear();
  judging_ = judging;
  update();
}

void RunGaps::update() {
  bool news = conclusions_.size() != runs_.size();
  for (std::vector<PairedTrack>* tracks : {&runs_, &twins_})
    for (PairedTrack& pair : *tracks) news |= pair.track.update();
  if (!news) return;
  conclusions_.clear();
  for (const PairedTrack& run : runs_) conclusions_.push_back(conclude(run, twins_, judging_));
}

Conclusion RunGaps::newest(int place) const {
  Judging judging = judging_;
  judging.last_step = kNoLastStep;
  return conclude(runs_[place - 1], twins_, judging);
}

const std::vector<PastVerdict>& RunGaps::past(int place) {
  traces_.resize(runs_.size());
  traces_[place - 1].update(runs_[place - 1], twins_, judging_);
  return traces_[place - 1].past();
}

void VerdictTrace::update(const PairedTrack& run, std::span<const PairedTrack> twins, Judging judging) {
  constexpr std::int64_t kShare = 16;  // of the steps, by which looks are apart
  judging.goes_on = true;              // as it did at each of these steps
  const StepRange steps = run.track.steps();
  std::erase_if(past_, [&](const PastVerdict& verdict) { return verdict.steps.first > steps.last; });
  if (!past_.empty()) past_.back().steps.last = std::min(past_.back().steps.last, steps.last);
  const auto word_at = [&](std::int64_t last_step) {
    judging.last_step = last_step;
    judging.goes_on = true;  // also at the newest step, which a recording of more steps may go beyond
    return verdict_word(conclude(run, twins, judging));
  };
  std::int64_t look = steps.first + kMinSteps - 1;
  for (; look <= steps.last; look += std::max<std::int64_t>(1, (look - steps.first) / kShare)) {
    if (past_.empty()) past_.push_back({{look, look}, word_at(look)});
    if (look <= past_.back().steps.last) continue;
    const VerdictWord word = word_at(look);
    while (past_.back().word != word) {
      std::int64_t last_same_step = past_.back().steps.last, first_other_step = look;
      while (first_other_step - last_same_step > 1) {
        const std::int64_t middle = last_same_step + (first_other_step - last_same_step) / 2;
        (word_at(middle) == past_.back().word ? last_same_step : first_other_step) = middle;
      }
      past_.back().steps.last = last_same_step;
      past_.push_back({{first_other_step, first_other_step}, word_at(first_other_step)});
    }
    past_.back().steps.last = look;
  }
}

std::string withdrawn_text(std::span<const PastVerdict> past, const Conclusion& c) {
  if (c.held_from > 0) return {};  // the reason names the step since which the present side holds
  const VerdictWord present_word = verdict_word(c);
  for (auto verdict = past.rbegin(); verdict != past.rend(); ++verdict) {
    if (verdict->word > VerdictWord::better || verdict->word == present_word || verdict->steps.last >= c.steps.last)
      continue;
    return "verdict until step " + grouped(verdict->steps.last) + ": " + verdict_text(verdict->word);
  }
  return {};
}

}  // namespace moescope
