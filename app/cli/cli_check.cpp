#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <ranges>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/cli/check/check_parts.h"
#include "app/cli/cli_reading.h"
#include "app/cli/command_line.h"
#include "core/files/output_guard.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/files/whole_file.h"
#include "core/findings/findings.h"
#include "core/findings/health.h"
#include "core/logs/file_kind.h"
#include "core/logs/follower.h"
#include "core/logs/log_probs.h"
#include "core/logs/open_runs.h"
#include "core/logs/runs_in_folder.h"
#include "core/logs/standard_input.h"
#include "core/recording/marks.h"
#include "core/training/engine/lock_step.h"

namespace moescope {
namespace {

using namespace std::chrono_literals;

constexpr int kFound = 1, kNotChecked = 3;
constexpr auto kPause = 200ms;   // between two reads of a growing file
constexpr int kCheckSchema = 2;  // version of --json; rises when a key changes its meaning or is removed

struct CheckOptions {
  RoutedShape routed;
  std::string run;
  std::string file, engine, fail_on, until = "finding", on_finding, junit;
  std::vector<std::string> against;
  bool json = false, follow = false, github = false, overwrite = false;
  double idle = 0;
};

// Decides which findings make the check fail. Past findings do not, except a loss that was NaN or infinite.
class FailOn {
 public:
  explicit FailOn(const std::string& option) {
    const std::string words = option.empty() ? "severe" : option;
    for (const auto word : std::views::split(words, ',')) add({word.begin(), word.end()});
  }
  bool meets(const Finding& finding) const {
    return (finding.ongoing || finding.kind == FindingKind::loss_not_finite) && names(finding);
  }
  // True if the kind or severity of the finding is named, also if it is over.
  bool names(const Finding& finding) const {
    return static_cast<int>(finding.severity) >= lowest_severity_ || kinds_.contains(finding.kind);
  }
  // The named kinds that were not checked in a run, as they were typed.
  std::vector<std::string> unchecked(const std::vector<FindingKind>& not_checked) const {
    std::vector<std::string> words;
    for (const auto& [kind, word] : kinds_)
      if (std::ranges::find(not_checked, kind) != not_checked.end()) words.push_back(word);
    return words;
  }

 private:
  void add(const std::string& word) {
    if (word == "severe" || word == "warning") {
      lowest_severity_ =
          std::min(lowest_severity_, static_cast<int>(word == "severe" ? Severity::severe : Severity::warning));
      return;
    }
    std::string allowed = "severe, warning";
    for (const FindingKindInfo& info : finding_kinds()) {
      std::string name = info.name;
      std::ranges::replace(name, ' ', '-');
      if (word == info.word || word == name) return static_cast<void>(kinds_[info.kind] = word);
      allowed += std::string(", ") + info.word;
    }
    throw std::runtime_error(fmt::format("--fail-on: \"{}\" is not a finding; allowed: {}", word, allowed));
  }
  int lowest_severity_ = static_cast<int>(Severity::severe) + 1;  // least that fails; above severe: none
  std::map<FindingKind, std::string> kinds_;
};

struct CheckedRun {
  HistoryPtr history;
  StepRange steps;  // that were checked: a history that is followed grows meanwhile
  std::vector<Finding> findings;
  Health health;
  Checks checks;
  std::vector<FindingKind> not_checked;
};

// The runs of a file, or of a folder, that another program may still be writing.
class GrowingRuns {
 public:
  // A file that does not exist yet is followed as a log of JSON lines; "-" is standard input. Throws
  // std::runtime_error if the file holds no runs.
  explicit GrowingRuns(const std::string& path) : path_(path) {
    if (path == kStandardInput) {
      path_ = kStandardInputName;
      log_ = std::make_unique<Follower>(path, 0, kMaxRuns);
      return;
    }
    const bool is_written =
        std::filesystem::is_directory(path) || (std::filesystem::exists(path) && std::filesystem::file_size(path) > 0);
    const FileKind kind = is_written ? file_kind(path) : FileKind::training_log;
    if (kind == FileKind::recording)
      recording_ = open_runs({path}, ImportOptions{}, kMaxRuns);
    else if (holds_runs(kind))
      log_ = std::make_unique<Follower>(path, 0, kMaxRuns);
    else
      throw std::runtime_error(no_runs_in(path, kind));
  }
  // Returns all runs. A log that started again or had to be read again has new histories.
  std::vector<HistoryPtr> read() {
    const auto pointers = [](const auto& histories) {
      return std::vector<HistoryPtr>(histories.begin(), histories.end());
    };
    if (log_) return pointers(log_->histories());
    for (const auto& more : recording_.more) more();
    return pointers(recording_.histories);
  }
  // Prints what is new about the file: why it cannot be read, that it was truncated or replaced.
  void print_news() {
    if (!log_) return;
    const std::vector<std::string> restarts = log_->restart_remarks();
    for (; restarts_printed_ < restarts.size(); ++restarts_printed_) print(restarts[restarts_printed_]);
    if (const std::string problem = log_->problem(); std::exchange(problem_, problem) != problem && !problem.empty())
      print("waiting: " + problem);
  }
  // True if standard input has ended. Throws std::runtime_error if it could not be read to its end.
  bool has_ended() const {
    if (!log_ || !log_->has_ended()) return false;
    if (const std::string problem = log_->problem(); !problem.empty()) throw std::runtime_error(path_ + ": " + problem);
    return true;
  }
  // Reads a last line that has no newline. No lines are read afterwards.
  void finish() {
    if (log_) log_->finish();
  }
  void print_remarks() const {
    for (const std::string& remark : log_ ? log_->remarks() : recording_.remarks) print(remark);
    if (log_ && log_->bad().count() > 0) print(log_->bad().summary());
  }

 private:
  void print(const std::string& text) const { print_to(stderr, "{}: {}\n", printable(path_), printable(text)); }

  std::string path_;
  OpenedRuns recording_;
  std::unique_ptr<Follower> log_;
  std::size_t restarts_printed_ = 0;
  std::string problem_;
};

// Keeps a FindingsScan for each run, so that a new step costs the same at the end of a long run as at its beginning.
class Checker {
 public:
  std::vector<CheckedRun> check(const std::vector<HistoryPtr>& histories) {
    std::vector<CheckedRun> runs;
    for (const HistoryPtr& history : histories) {
      auto& scan = scans_[history.get()];
      if (!scan) scan = std::make_unique<FindingsScan>(history);
      const StepRange steps = history->steps();
      scan->advance(steps.last);
      std::vector<Finding> findings = scan->findings();
      Checks checks = checks_of(*history, findings);
      std::vector<FindingKind> not_checked = checked_kinds(*history, findings).not_checked;
      runs.push_back(
          {history, steps, std::move(findings), judge_health(*scan), std::move(checks), std::move(not_checked)});
    }
    return runs;
  }

 private:
  std::map<const History*, std::unique_ptr<FindingsScan>> scans_;
};

bool fails(const std::vector<CheckedRun>& runs, const FailOn& fail_on) {
  return std::any_of(runs.begin(), runs.end(), [&](const CheckedRun& run) {
    return std::any_of(run.findings.begin(), run.findings.end(), [&](const Finding& f) { return fail_on.meets(f); });
  });
}

Report report_of(const History& history, const Finding& finding, const FailOn& fail_on) {
  const FindingKindInfo& kind = finding_kind_info(finding.kind);
  const StepRange steps = finding.steps;
  Report report;
  report.value({.key = "kind"}, kind.word);
  report.value({.key = "severity"}, severity_name(finding.severity));
  report.value({.key = "fails"}, fail_on.meets(finding));
  report.value({.key = "ongoing"}, finding.ongoing);
  report.json("steps", {steps.first, steps.last});
  report.json("layers", finding.layers);
  report.json("experts", finding.experts);
  report.value({.key = "title"}, finding.title);
  report.value({.key = "observation"}, finding.observation);
  report.value({.key = "why"}, finding.meaning);
  report.json("settings", finding.settings);
  report.sentence(fmt::format("{}{}, {}{}, steps {} to {}: {}", fail_on.meets(finding) ? "FAIL  " : "      ", kind.word,
                              severity_name(finding.severity), finding.ongoing ? "" : ", over", steps.first, steps.last,
                              finding.title));
  if (finding.tensor) report.value({.key = "operand"}, place_text(*finding.tensor));
  if (const auto checkpoint = checkpoint_before(history, steps.first)) {
    report.value({.key = "checkpoint.step"}, checkpoint->step);
    report.value({.key = "checkpoint.text"}, checkpoint->text);
    report.sentence(fmt::format("      newest checkpoint before: step {}, {}", checkpoint->step, checkpoint->text));
  }
  return report;
}

// Tells --on-finding of each finding once when it begins and once when it has ended. Only severe findings and those of
// --fail-on count.
class FindingNews {
 public:
  FindingNews(const std::string& command, const FailOn& fail_on) : fail_on_(fail_on) {
    if (!command.empty()) command_ = std::make_unique<FindingCommand>(command);
  }
  void tell(const std::vector<CheckedRun>& runs) {
    if (!command_) return;
    command_->collect();
    std::map<std::string, std::pair<int, int>> counts;  // ongoing and ended findings by run and identifier
    for (const CheckedRun& run : runs)
      for (const Finding& finding : run.findings) {
        if (finding.severity != Severity::severe && !fail_on_.names(finding)) continue;
        const std::string id = fmt::format("{} {}", run.history->info().run, finding_id(finding));
        auto& [ongoing, ended] = counts[id];
        const auto [known_ongoing, known_ended] = counts_reported_[id];
        if (finding.ongoing ? ++ongoing > known_ongoing : ++ended > known_ended) tell(run, finding);
      }
    counts_reported_ = std::move(counts);
  }

 private:
  void tell(const CheckedRun& run, const Finding& finding) {
    Report report = report_of(*run.history, finding, fail_on_);
    report.value({.key = "event"}, finding.ongoing ? "new" : "ended");
    report.value({.key = "run"}, run.history->info().name);
    command_->start(report.json_text(-1));
  }

  const FailOn& fail_on_;
  std::unique_ptr<FindingCommand> command_;
  std::map<std::string, std::pair<int, int>> counts_reported_;
};

std::int64_t newest_step(const std::vector<CheckedRun>& runs) {
  std::int64_t newest = -1;
  for (const CheckedRun& run : runs) newest = std::max(newest, run.steps.last);
  return newest;
}

// When the following ends.
struct Until {
  bool finding = true;            // with the first finding of --fail-on
  std::int64_t step = INT64_MAX;  // with this step
};

Until until_of(const std::string& text) {
  if (text == "finding") return {};
  if (text == "end") return {.finding = false};
  Until until;
  if (!read_number(text, until.step) || until.step < 0)
    throw std::runtime_error("--until " + text + ": is neither `finding`, `end` nor a step");
  return until;
}

std::vector<CheckedRun> follow(const CheckOptions& options, const FailOn& fail_on, FindingNews& news) {
  const Until until = until_of(options.until);
  GrowingRuns file(options.file);
  Checker checker;
  std::int64_t last_step = -1;
  for (auto grew = std::chrono::steady_clock::now();; std::this_thread::sleep_for(kPause)) {
    const bool has_ended = file.has_ended();  // asked before reading, so that nothing arrives in between
    std::vector<CheckedRun> runs = checker.check(file.read());
    news.tell(runs);
    const auto time = std::chrono::steady_clock::now();
    if (const std::int64_t newest = newest_step(runs); newest != last_step) {
      last_step = newest;
      grew = time;
    }
    const bool idle = options.idle > 0 && std::chrono::duration<double>(time - grew).count() >= options.idle;
    file.print_news();
    if (!(until.finding && fails(runs, fail_on)) && last_step < until.step && !idle && !has_ended) continue;
    if (idle) {
      file.finish();
      runs = checker.check(file.read());
      news.tell(runs);
    }
    file.print_remarks();
    return runs;
  }
}

std::vector<CheckedRun> read_once(const CheckOptions& options) {
  const OpenedRuns opened = read_runs(options.file, options.run, options.routed);
  print_notes(opened);
  return Checker().check({opened.histories.begin(), opened.histories.end()});
}

Report report_of(const CheckedRun& run, const FailOn& fail_on) {
  const std::string& name = run.history->info().name;
  const std::string verdict = health_verdict_name(run.health.verdict), advice = advice_text(run.health);
  std::vector<Report> findings;
  for (const Finding& finding : run.findings) findings.push_back(report_of(*run.history, finding, fail_on));
  const std::vector<std::string> unchecked = fail_on.unchecked(run.not_checked);
  Report report;
  report.sentence(fmt::format("{}, steps {} to {}", name, run.steps.first, run.steps.last));
  report.sentence(verdict + ": " + run.health.sentence);
  report.lines(advice);
  report.value({.key = "name"}, name);
  report.json("steps", {run.steps.first, run.steps.last});
  report.value({.key = "verdict"}, verdict);
  report.value({.key = "router"}, health_verdict_name(run.health.router));
  report.value({.key = "training"}, run.health.training);
  report.value({.key = "sentence"}, run.health.sentence);
  report.value({.key = "balance"}, run.health.balance.empty() ? "" : run.health.balance.front());
  report.value({.key = "help"}, run.health.help);
  report.parts("findings", findings);
  report.json("passed", run.checks.passed);
  report.json("not_checked", run.checks.not_checked);
  report.json("fail_on_not_checked", unchecked);
  for (const std::string& line : run.checks.not_checked) report.sentence("Not checked: " + line);
  for (const std::string& word : unchecked)
    report.sentence("--fail-on " + word + " was not checked: the run lacks what it needs");
  return report;
}

Report report_of(const std::vector<CheckedRun>& runs, const FailOn& fail_on) {
  std::vector<Report> parts;
  for (const CheckedRun& run : runs) parts.push_back(report_of(run, fail_on));
  Report report;
  report.value({.key = "moescope_check"}, kCheckSchema);
  report.value({.key = "failed"}, fails(runs, fail_on));
  report.parts("runs", parts);
  return report;
}

// Compares the log probabilities of a trainer and of an inference engine, from one file or two.
void compare_engines(const CheckOptions& options) {
  const LogRatios ratios = compare_log_probs(read_log_probs(options.file), read_log_probs(options.engine));
  Report report;
  report.value({.key = "moescope_check"}, kCheckSchema);
  report.value({.name = "compared", .unit = "tokens", .key = "tokens"}, ratios.tokens());
  report.value({.name = "KL(engine || trainer), k1", .unit = "nats/token", .digits = 3, .key = "k1"}, ratios.k1());
  report.value({.name = "KL(engine || trainer), k3", .unit = "nats/token", .digits = 3, .key = "k3"}, ratios.k3());
  report.value(
      {.name = "tokens with a probability ratio beyond 2", .unit = "share", .digits = 3, .key = "ratio_beyond_2"},
      ratios.ratio_beyond_2());
  report.value(
      {.name = "largest difference of a log-probability", .unit = "nats", .digits = 3, .key = "largest_difference"},
      ratios.largest());
  print_report(report, options.json);
}

std::vector<CheckCase> cases_of(const std::vector<CheckedRun>& runs, const FailOn& fail_on) {
  std::vector<CheckCase> cases;
  for (const CheckedRun& run : runs) {
    const std::string& name = run.history->info().name;
    for (const Finding& finding : run.findings)
      cases.push_back({name, finding_kind_info(finding.kind).name + std::string(": ") + finding.title,
                       fail_on.meets(finding) ? CheckOutcome::failed : CheckOutcome::noted,
                       finding.observation + " " + finding.meaning});
    for (const std::string& line : run.checks.passed) cases.push_back({name, line});
    for (const std::string& line : run.checks.not_checked)
      cases.push_back({name, line, CheckOutcome::not_checked, line});
  }
  return cases;
}

// Prints the report, and writes --junit and the annotations of --github. Standard output has only XML or JSON if it has
// one of them.
void print_report(const CheckOptions& options, const Report& report, const std::vector<CheckCase>& cases) {
  const bool is_xml = options.junit == "-";
  print_to(is_xml ? stderr : stdout, "{}", options.json ? report.json_text() : report.text());
  if (is_xml) print_out("{}", junit_xml(cases));
  if (!is_xml && !options.junit.empty()) write_whole_file(options.junit, junit_xml(cases));
  if (options.github) print_to(is_xml || options.json ? stderr : stdout, "{}", github_annotations(cases));
}

void check_against_good(const CheckOptions& options) {
  const std::vector<GateVerdict> failing =
      gate_verdicts(options.fail_on.empty() ? "regressed,differs" : options.fail_on);
  const auto runs_of = [&](const std::string& file, const std::string& run) {
    const OpenedRuns opened = read_runs(file, run, options.routed);
    print_notes(opened);
    return opened.histories;
  };
  const auto judged = runs_of(options.file, options.run);
  if (judged.size() != 1)
    throw std::runtime_error(fmt::format("{}: holds {} runs{}; name the one to judge with --run",
                                         named_standard_input(options.file), judged.size(),
                                         options.run.empty() ? "" : " named " + options.run));
  std::vector<HistoryPtr> good;
  std::vector<std::string> names;
  for (const std::string& file : options.against) {
    const std::string path = input_path(file);
    auto runs = runs_of(path, {});
    if (std::error_code error; std::filesystem::equivalent(path, options.file, error))
      std::erase_if(runs, [&](const auto& run) { return run->info().name == judged.front()->info().name; });
    if (runs.empty()) throw std::runtime_error("--against " + file + ": is the run that is judged; name earlier runs");
    const std::string shown = named_standard_input(path);
    for (const auto& history : runs) names.push_back(runs.size() == 1 ? shown : shown + ": " + history->info().name);
    good.insert(good.end(), runs.begin(), runs.end());
  }
  GateResult result{judge_gate(judged.front(), good)};
  result.report.name = named_standard_input(options.file);
  result.report.good_names = names;
  if (result.report.problem != GateProblem::none && result.report.problem != GateProblem::few_steps)
    throw std::runtime_error(named_standard_input(options.file) + ": " + gate_sentence(result.report));
  result.failed = std::ranges::find(failing, result.report.verdict) != failing.end();
  print_report(options, report_of(result), gate_cases(result));
  if (result.failed) throw ExitStatus{kFound};
}

// Refuses options that would have no effect.
void check_options(const Command& command, const CheckOptions& options) {
  if (!options.engine.empty())
    command.refuse({"--run", "--layers", "--top-k", "--experts", "--fail-on", "--follow", "--against", "--on-finding",
                    "--junit", "--github"},
                   "cannot be used with --engine, which compares log-probabilities and judges nothing");
  if (!options.against.empty()) {
    command.refuse(
        {"--follow"},
        "cannot be used with --against: 1 false alarm in 20 holds for one comparison, not for one after each "
        "step. Wait with `check RUN --follow --until STEP`, then compare with --against");
    command.refuse({"--on-finding"}, "cannot be used with --against, which judges figures, not findings");
  }
  if (options.follow)
    command.refuse({"--run", "--layers", "--top-k", "--experts"},
                   "cannot be used with --follow, which checks all runs as the file states them");
  if (options.junit.empty()) command.refuse({"--overwrite"}, "needs --junit");
  if (options.junit == "-")
    command.refuse({"--json"}, "cannot be used with --junit -: standard output has one of them");
}

void check(const Command& command, CheckOptions options) {
  check_options(command, options);
  std::vector<std::string> inputs = options.against;
  inputs.push_back(options.file);
  std::erase(inputs, kStandardInput);
  guard_outputs(inputs, {{"--junit", options.junit == "-" ? "" : options.junit}}, options.overwrite);
  if (!options.follow) options.file = input_path(options.file);
  options.engine = input_path(options.engine);
  if (!options.engine.empty()) return compare_engines(options);
  if (!options.against.empty()) return check_against_good(options);
  const FailOn fail_on(options.fail_on);
  FindingNews news(options.on_finding, fail_on);
  const std::vector<CheckedRun> runs = options.follow ? follow(options, fail_on, news) : read_once(options);
  if (!options.follow) news.tell(runs);
  if (newest_step(runs) < 0) throw std::runtime_error(named_standard_input(options.file) + ": has no step yet");
  print_report(options, report_of(runs, fail_on), cases_of(runs, fail_on));
  if (fails(runs, fail_on)) throw ExitStatus{kFound};
  // A gate that cannot see the fault must not pass.
  if (std::ranges::any_of(runs, [&](const CheckedRun& run) { return !fail_on.unchecked(run.not_checked).empty(); }))
    throw ExitStatus{kNotChecked};
}

}  // namespace

void add_check_command(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  Command command(
      app, "check",
      "Print the verdict and the findings of a run; the exit status is 1 if one of --fail-on is among them");
  command.option("RUN", options->file, "Recording (.moescope) or training log; - is standard input").required();
  add_run_option(command, options->run);
  add_routed_options(command, options->routed);
  std::string words =
      "Findings that end the command with status 1, separated by commas (default: severe): severe (all severe ones), "
      "warning (all warnings, too)";
  for (const FindingKindInfo& info : finding_kinds()) words += std::string(", ") + info.word;
  words +=
      ", or the name of a finding with hyphens (stale-bias); with --against: regressed and differs (default), better, "
      "too-early, same";
  command.option("--fail-on", options->fail_on, words);
  command.option("--json", options->json, "Print all findings, or what --engine compares, as JSON");
  const Option follow = command.option("--follow", options->follow,
                                       "Read new steps while the recording or log grows (JSON lines may not exist "
                                       "yet), until one of these findings appears or standard input ends");
  command
      .option("--until", options->until,
              "`finding`: wait for a finding without limit; a step: end after this step even without a finding; `end`: "
              "go on after a finding, until standard input ends or --idle")
      .shows_default()
      .needs(follow);
  command.option("--idle", options->idle, "End after this many seconds without a new step; 0: never")
      .range(0.0, 1e9)
      .shows_default()
      .needs(follow);
  command.option("--engine", options->engine,
                 "Compare the log-probabilities in RUN, computed by a trainer, with those in this file, computed by an "
                 "inference engine for the same tokens: k1, k3 and probability ratios beyond 2. Batches of verl, slime "
                 "and AReaL, responses of vLLM and SGLang; the same file twice if it has both");
  command
      .option("--against", options->against,
              "Recordings or logs of good runs: answer whether RUN is as good. All runs of a file count. Two or more "
              "show how far equal runs lie apart; one does not")
      .up_to(16);
  command.option("--on-finding", options->on_finding,
                 "Run this line of the shell once for each severe finding, or finding of --fail-on, when it begins and "
                 "when it has ended. It gets the finding as JSON on standard input, with the keys of findings below, "
                 "\"event\": new or ended, and \"run\"; its output goes to standard error. A line that fails is "
                 "reported and ends nothing");
  command.option("--junit", options->junit, "Write findings and checks as JUnit XML; - is standard output");
  command.option("--github", options->github,
                 "Print findings as annotations of GitHub's workflows, ::error title=...::..., on standard error with "
                 "--json");
  command.option("--overwrite", options->overwrite, "Replace the file of --junit");
  command.runs([command, options] { check(command, *options); });
}

}  // namespace moescope
