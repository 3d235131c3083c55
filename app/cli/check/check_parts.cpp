#include "app/cli/check/check_parts.h"

#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <string_view>

#include "app/cli/command_line.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/files/whole_file.h"

extern char** environ;

namespace moescope {

void FindingCommand::start(const std::string& input) {
  // A file in place of a pipe: a command that does not read its input blocks nothing.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  if (!file || !write_all(fileno(file.get()), input) || lseek(fileno(file.get()), 0, SEEK_SET) != 0)
    return print_to(stderr, "--on-finding: a temporary file cannot be written: {}\n", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(file.get()), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  std::string shell = "sh", option = "-c";
  char* arguments[] = {shell.data(), option.data(), command_.data(), nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/bin/sh", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return print_to(stderr, "--on-finding: /bin/sh: {}\n", std::strerror(error));
  running_.push_back(pid);
}

void FindingCommand::collect(bool waits) {
  std::erase_if(running_, [&](pid_t pid) {
    int status = 0;
    pid_t ended = 0;
    do ended = waitpid(pid, &status, waits ? 0 : WNOHANG);
    while (ended < 0 && errno == EINTR);
    if (ended == 0) return false;
    if (ended == pid && status != 0)
      print_to(stderr, "--on-finding: {} ended with {} {}\n", printable(command_),
               WIFEXITED(status) ? "status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return true;
  });
}

namespace {

using Replacements = std::initializer_list<std::pair<char, const char*>>;

std::string replaced(std::string_view text, Replacements replacements) {
  std::string result;
  for (const char c : text) {
    const auto found = std::ranges::find(replacements, c, &std::pair<char, const char*>::first);
    if (found == replacements.end())
      result += c;
    else
      result += found->second;
  }
  return result;
}

// printable_lines() leaves no character that XML 1.0 refuses.
std::string xml(std::string_view text) {
  return replaced(printable_lines(text), {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}});
}

std::string case_xml(const CheckCase& found) {
  const std::string text = xml(found.text);
  std::string inside;
  if (found.outcome == CheckOutcome::failed) inside = fmt::format("<failure message=\"{}\">{}</failure>", text, text);
  if (found.outcome == CheckOutcome::noted) inside = fmt::format("<system-out>{}</system-out>", text);
  if (found.outcome == CheckOutcome::not_checked) inside = fmt::format("<skipped message=\"{}\"/>", text);
  return fmt::format("    <testcase classname=\"{}\" name=\"{}\">{}</testcase>\n", xml(found.run), xml(found.name),
                     inside);
}

std::size_t count(std::span<const CheckCase> cases, CheckOutcome outcome) {
  return std::ranges::count(cases, outcome, &CheckCase::outcome);
}

std::string counts_xml(std::span<const CheckCase> cases) {
  return fmt::format("tests=\"{}\" failures=\"{}\" skipped=\"{}\"", cases.size(), count(cases, CheckOutcome::failed),
                     count(cases, CheckOutcome::not_checked));
}

}  // namespace

std::string junit_xml(std::span<const CheckCase> cases) {
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"moescope-cli check\" {}>\n", counts_xml(cases));
  for (std::size_t begin = 0; begin < cases.size();) {
    std::size_t end = begin;
    while (end < cases.size() && cases[end].run == cases[begin].run) ++end;
    const auto suite = cases.subspan(begin, end - begin);
    text += fmt::format("  <testsuite name=\"{}\" {}>\n", xml(suite.front().run), counts_xml(suite));
    for (const CheckCase& found : suite) text += case_xml(found);
    text += "  </testsuite>\n";
    begin = end;
  }
  return text + "</testsuites>\n";
}

std::string github_annotations(std::span<const CheckCase> cases) {
  static const Replacements kData = {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}};
  static const Replacements kProperty = {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}, {':', "%3A"}, {',', "%2C"}};
  std::string text;
  for (const CheckCase& found : cases) {
    if (found.outcome != CheckOutcome::failed && found.outcome != CheckOutcome::noted) continue;
    text += fmt::format("::{} title={}::{}\n", found.outcome == CheckOutcome::failed ? "error" : "warning",
                        replaced(printable(found.run + ": " + found.name), kProperty),
                        replaced(printable_lines(found.text), kData));
  }
  return text;
}

namespace {

constexpr int kGateSchema = 1;  // version of --json; rises when a key changes its meaning or is removed

// Words of --fail-on; "too early" is written with a hyphen.
std::string gate_verdict_word(GateVerdict verdict) {
  std::string word = gate_verdict_name(verdict);
  std::ranges::replace(word, ' ', '-');
  return word;
}

ValueTable exits_table(const GateReport& report) {
  std::vector<ValueColumn> columns;
  for (const char* key : {"figure", "name", "layer", "operand", "steps.0", "steps.1", "times", "over", "worse", "value",
                          "good", "half_width", "z", "limit", "expert", "load"})
    columns.push_back({.key = key});
  ValueTable table(std::move(columns));
  for (const GateExit& exit : report.exits) {
    const GateSeries& series = report.series[exit.series];
    const GateFigure& figure = series.figure;
    table.add(
        figure.info->key, figure.info->name, figure.layer == kWholeRun ? std::nullopt : std::optional(figure.layer),
        figure.operand ? std::optional(place_text(*figure.operand)) : std::nullopt, exit.first_step(), exit.last_step(),
        exit.times.size(), exit.is_over, exit.is_worse, named_number(exit.not_finite_step ? NAN : exit.value),
        named_number(exit.good), named_number(exit.half_width), named_number(exit.z), named_number(series.limit),
        exit.expert < 0 ? std::nullopt : std::optional(exit.expert), named_number(exit.expert_load));
  }
  return table;
}

Report report_of(const GateSetting& setting) {
  Report report;
  report.value({.key = "name"}, setting.name);
  report.value({.key = "value"}, setting.value);
  report.json("good", setting.good);
  report.value({.key = "since"}, table_value(setting.changed_at));
  report.value({.key = "differs_among_good"}, setting.differs_among_good);
  report.sentence("Setting that differs: " + setting_text(setting));
  return report;
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
    const auto found = std::ranges::find(kVerdicts, word, gate_verdict_word);
    if (found == kVerdicts.end())
      throw std::runtime_error(fmt::format("--fail-on: \"{}\" is not a verdict of --against; allowed: {}", word,
                                           joined(kVerdicts, ", ", gate_verdict_word)));
    verdicts.push_back(*found);
    if (is_last) return verdicts;
  }
}

Report report_of(const GateResult& result) {
  const GateReport& gate = result.report;
  Report report;
  std::string verdict = gate_verdict_name(gate.verdict);
  verdict.front() = static_cast<char>(std::toupper(verdict.front()));
  report.sentence(fmt::format("{} against {}", gate.name, joined(gate.good_names, ", ")));
  report.sentence(fmt::format("{}: {}", verdict, gate_sentence(gate)));
  for (const GateExit& exit : gate.exits)
    report.sentence(fmt::format("{:<8}{}", side_word(gate, exit), exit_text(gate, exit)));
  report.value({.key = "moescope_gate"}, kGateSchema);
  report.value({.key = "verdict"}, gate_verdict_word(gate.verdict));
  report.value({.key = "failed"}, result.failed);
  report.value({.key = "sentence"}, gate_sentence(gate));
  report.value({.key = "run"}, gate.name);
  report.json("good", gate.good_names);
  report.json("repeated", gate.repeated_runs);
  report.value({.key = "paired_by"}, gate.by_tokens ? "tokens" : "steps");
  report.value({.key = "common_steps"}, gate.common_steps);
  report.json("steps", {gate.steps.first, gate.steps.last});
  report.value({.key = "figures"}, table_value(gate.series.size()));
  report.rows("exits", exits_table(gate));
  std::vector<Report> settings;
  for (const GateSetting& setting : gate.settings) settings.push_back(report_of(setting));
  report.parts("settings", settings);
  report.json("not_in_all", gate.not_in_all);
  report.json("notes", gate_notes(gate));
  if (!gate.not_in_all.empty()) report.sentence("Not compared: " + joined(gate.not_in_all, "; "));
  for (const std::string& note : gate_notes(gate)) report.sentence(note);
  return report;
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
