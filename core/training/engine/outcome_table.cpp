#include "core/training/engine/outcome_table.h"

#include "core/io/words.h"

namespace moescope {
namespace {

constexpr OutcomeFigure kOutcomeFigures[] = {
    {"final_loss_nats", [](const Outcome& o) { return o.figures.final_loss; }},
    {"mean_loss_nats", [](const Outcome& o) { return o.figures.mean_loss; }},
    {"loss_gap_nats", [](const Outcome& o) { return o.conclusion.gap; }},
    {"interval_half_width_nats", [](const Outcome& o) { return o.conclusion.half; }},
    {"gap_that_matters_nats", [](const Outcome& o) { return o.conclusion.matters; }},
    {"more_steps_for_a_verdict",
     [](const Outcome& o) { return o.conclusion.lacking > 0 ? static_cast<float>(o.conclusion.lacking) : kNoValue; }},
    {"gradient_error_share", [](const Outcome& o) { return o.costs.gradient_error; }},
    {"flips_by_rounding_share", [](const Outcome& o) { return o.costs.flips; }},
    {"flips_against_a_share", [](const Outcome& o) { return o.figures.flip_rate; }},
    {"underflow_share", [](const Outcome& o) { return o.costs.flushed; }},
    {"sqnr_worst_db", [](const Outcome& o) { return o.sqnr.worst_db; }},
    {"sqnr_mean_db", [](const Outcome& o) { return o.sqnr.mean_db; }},
    {"max_vio", [](const Outcome& o) { return o.figures.max_vio; }},
    {"tokens_per_s", [](const Outcome& o) { return o.figures.tokens_per_s; }},
};

std::string quoted(const std::string& text) {
  std::string cell = "\"";
  for (const char c : text) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + '"';
}

}  // namespace

std::span<const OutcomeFigure> outcome_figures() {
  return kOutcomeFigures;
}

std::string underflow_place(const Outcome& outcome) {
  return is_missing(outcome.costs.flushed) ? "" : place_text(outcome.costs.where);
}

std::string sqnr_place(const Outcome& outcome) {
  return outcome.sqnr.operands > 0 ? place_text(outcome.sqnr.worst) : "";
}

std::string judged_loss(const Outcome& outcome) {
  return is_missing(outcome.conclusion.gap) ? "" : loss_words(outcome.conclusion.loss);
}

std::string outcomes_csv(std::span<const Outcome> outcomes) {
  std::string text = "candidate,differs_in,group,verdict,steps,first_judged_step,last_judged_step";
  for (const OutcomeFigure& column : kOutcomeFigures) text += std::string(",") + column.key;
  text += ",underflow_at,sqnr_worst_at,judged_loss\n";
  for (const Outcome& o : outcomes) {
    const StepRange judged = o.conclusion.steps;
    text += quoted(o.name) + ',' + quoted(o.differs) + ',' + std::to_string(o.group) + ',' + verdict_words(o) + ',';
    text += (o.waits ? "" : std::to_string(o.figures.steps)) + ',';
    text += judged.empty() ? "," : std::to_string(judged.first) + ',' + std::to_string(judged.last);
    for (const OutcomeFigure& column : kOutcomeFigures) {
      const float value = column.value(o);
      text += ',' + (is_missing(value) ? "" : formatted("%.9g", static_cast<double>(value)));
    }
    text += ',' + quoted(underflow_place(o)) + ',' + quoted(sqnr_place(o)) + ',' + judged_loss(o) + '\n';
  }
  return text;
}

}  // namespace moescope
