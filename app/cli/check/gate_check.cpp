#include "app/cli/check/gate_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string_view>

#include "core/files/text/words.h"

namespace moescope {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kGateSchema = 1;  // version of --json; rises when a key changes its meaning or is removed

// Words of --fail-on; "too early" is written with a hyphen.
std::string verdict_word(GateVerdict verdict) {
  std::string word = gate_verdict_name(verdict);
  std::ranges::replace(word, ' ', '-');
  return word;
}

Json gate_number(float value) {
  if (is_missing(value)) return nullptr;
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return static_cast<double>(value);
}

Json exit_json(const GateReport& report, const GateExit& exit) {
  const GateSeries& series = report.series[exit.series];
  const GateFigure& figure = series.figure;
  return {{"figure", figure.info->key},
          {"name", figure.info->name},
          {"layer", figure.layer == kWholeRun ? Json() : Json(figure.layer)},
          {"operand", figure.operand ? Json(place_text(*figure.operand)) : Json()},
          {"steps", {exit.first_step(), exit.last_step()}},
          {"times", exit.times.size()},
          {"over", exit.is_over},
          {"worse", exit.is_worse},
          {"value", exit.not_finite_step ? Json("NaN") : gate_number(exit.value)},
          {"good", gate_number(exit.good)},
          {"half_width", gate_number(exit.half_width)},
          {"z", gate_number(exit.z)},
          {"limit", gate_number(series.limit)},
          {"expert", exit.expert < 0 ? Json() : Json(exit.expert)},
          {"load", gate_number(exit.expert_load)}};
}

Json setting_json(const GateSetting& setting) {
  return {{"name", setting.name},
          {"value", setting.value},
          {"good", setting.good},
          {"since", setting.changed_at ? Json(*setting.changed_at) : Json()},
          {"differs_among_good", setting.differs_among_good}};
}

const char* side_word(const GateReport& report, const GateExit& exit) {
  if (!exit.is_worse) return "better";
  return report.series[exit.series].figure.worst ? "WORSE" : "outside";
}

}  // namespace

std::vector<GateVerdict> gate_verdicts(const std::string& words) {
  constexpr std::array kVerdicts = {GateVerdict::regressed, GateVerdict::differs, GateVerdict::better,
                                    GateVerdict::too_early, GateVerdict::same};
  std::vector<GateVerdict> verdicts;
  for (std::string_view unread_words = words;;) {
    const bool is_last = unread_words.find(',') == std::string_view::npos;
    const std::string_view word = take_until(unread_words, ',');
    const auto found = std::ranges::find(kVerdicts, word, verdict_word);
    if (found == kVerdicts.end())
      throw std::runtime_error(fmt::format("--fail-on: \"{}\" is not a verdict of --against; allowed: {}", word,
                                           joined(kVerdicts, ", ", verdict_word)));
    verdicts.push_back(*found);
    if (is_last) return verdicts;
  }
}

std::string gate_text(const GateResult& result) {
  const GateReport& report = result.report;
  std::string text = fmt::format("{} against {}\n{}: {}\n", report.name, joined(report.good_names, ", "),
                                 gate_verdict_name(report.verdict), gate_sentence(report));
  text[text.find('\n') + 1] = static_cast<char>(std::toupper(text[text.find('\n') + 1]));
  for (const GateExit& exit : report.exits)
    text += fmt::format("{:<8}{}\n", side_word(report, exit), exit_text(report, exit));
  for (const GateSetting& setting : report.settings) text += "Setting that differs: " + setting_text(setting) + "\n";
  if (!report.not_in_all.empty()) text += "Not compared: " + joined(report.not_in_all, "; ") + "\n";
  for (const std::string& note : gate_notes(report)) text += note + "\n";
  return text;
}

std::string gate_json(const GateResult& result) {
  const GateReport& report = result.report;
  Json json = {{"moescope_gate", kGateSchema},
               {"verdict", verdict_word(report.verdict)},
               {"failed", result.failed},
               {"sentence", gate_sentence(report)},
               {"run", report.name},
               {"good", report.good_names},
               {"repeated", report.repeated_runs},
               {"paired_by", report.by_tokens ? "tokens" : "steps"},
               {"common_steps", report.common_steps},
               {"steps", {report.steps.first, report.steps.last}},
               {"figures", report.series.size()},
               {"exits", Json::array()},
               {"settings", Json::array()},
               {"not_in_all", report.not_in_all},
               {"notes", gate_notes(report)}};
  for (const GateExit& exit : report.exits) json["exits"].push_back(exit_json(report, exit));
  for (const GateSetting& setting : report.settings) json["settings"].push_back(setting_json(setting));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

// A case for the verdict and for each figure.
std::vector<CheckCase> gate_cases(const GateResult& result) {
  const GateReport& report = result.report;
  std::vector<CheckCase> cases = {{report.name, "as good as " + joined(report.good_names, ", "),
                                   result.failed ? CheckOutcome::failed : CheckOutcome::passed, gate_sentence(report)}};
  if (report.verdict == GateVerdict::too_early && !result.failed) cases.front().outcome = CheckOutcome::not_checked;
  std::set<std::size_t> outside;
  for (const GateExit& exit : report.exits) {
    outside.insert(exit.series);
    cases.push_back({report.name, figure_text(report.series[exit.series].figure),
                     result.failed && exit.is_worse ? CheckOutcome::failed : CheckOutcome::noted,
                     exit_text(report, exit)});
  }
  for (std::size_t s = 0; s < report.series.size(); ++s)
    if (!outside.contains(s)) cases.push_back({report.name, figure_text(report.series[s].figure)});
  for (const std::string& figure : report.not_in_all)
    cases.push_back({report.name, figure, CheckOutcome::not_checked, "not in all runs, or in too few steps"});
  return cases;
}

}  // namespace moescope
