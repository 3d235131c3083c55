#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "app/cli/cli_reading.h"
#include "app/cli/command_line.h"
#include "app/cli/processes.h"
#include "app/cli/record/recording_in_work.h"
#include "app/cli/train/cli_progress.h"
#include "core/files/output_guard.h"
#include "core/files/text/text_escape.h"
#include "core/logs/file_kind.h"
#include "core/logs/open_runs.h"
#include "core/recording/recording.h"
#include "core/training/engine/lock_step.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShownBadLines = 10;  // unreadable lines printed for each file; --bad-lines writes all

struct ImportCommand {
  std::vector<std::string> files;
  std::string out, bad_lines, tags, run;
  RoutedShape routed;
  bool overwrite = false, quiet = false, explain = false;
};

// Shows the progress in a line that redraws itself on a terminal; elsewhere prints nothing until the end.
class Percentage {
 public:
  explicit Percentage(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) == 1) {}
  ~Percentage() {
    if (last_ >= 0) std::fputs("\r\x1b[K", stderr);
  }
  void show(double share) {
    const int per_mille = static_cast<int>(share * 1000);
    if (!shown_ || per_mille == last_) return;
    last_ = per_mille;
    print_to(stderr, "\r{} {:.1f} %\x1b[K", bar_text(share), per_mille / 10.0);
    std::fflush(stderr);
  }

 private:
  bool shown_;
  int last_ = -1;
};

void check_output(const ImportCommand& command) {
  if (!command.run.empty() && command.files.size() > 1) throw std::runtime_error("--run needs a single FILE");
  std::vector<std::string> inputs = command.files;
  inputs.push_back(command.tags);
  for (const std::string& file : command.files)
    for (const std::string& other : files_beside(file)) inputs.push_back(other);
  guard_outputs(inputs, {{"--out", command.out}, {"--bad-lines", command.bad_lines}}, command.overwrite);
  for (const std::string& file : command.files)
    if (file_kind(file) == FileKind::recording) throw std::runtime_error(file + ": is a recording already");
}

void print_bad_lines(const ImportCommand& command, const std::vector<SkippedLines>& skipped) {
  std::string all;
  for (const SkippedLines& file : skipped) {
    print_to(stderr, "{}: {}\n", printable(file.path), printable(file.bad.summary()));
    const auto& first = file.bad.first();
    for (std::size_t i = 0; i < std::min(kShownBadLines, first.size()); ++i)
      print_to(stderr, "  {} {}: {}\n", file.bad.unit(), first[i].number, printable(first[i].reason));
    if (file.bad.count() > static_cast<std::int64_t>(kShownBadLines) && command.bad_lines.empty())
      print_to(stderr, "  ... --bad-lines FILE writes all\n");
    all += file.path + '\n' + file.bad.text();
  }
  if (!command.bad_lines.empty()) write_output("--bad-lines", command.bad_lines, all);
}

// Returns for example "1401 steps" or "3 steps from 10 to 30".
std::string count_and_range(const History& run) {
  const StepRange steps = run.steps();
  const std::string count = fmt::format("{}{}", run.count(), run.count() == 1 ? " step" : " steps");
  return run.count() == steps.size() ? count : fmt::format("{} from {} to {}", count, steps.first, steps.last);
}

void print_summary(const OpenedRuns& opened, const std::string& out, double seconds) {
  Report report;
  for (const auto& run : opened.histories) {
    const RunInfo& info = run->info();
    report.sentence(fmt::format("{} {}: {}, {} MoE layers of {} experts", static_cast<char>('A' + info.run), info.name,
                                count_and_range(*run), info.moe_layers.size(), info.n_experts));
  }
  report.sentence(fmt::format("{}: {:.1f} MB, in {:.1f} s", out, fs::file_size(out) / 1e6, seconds));
  print_report(report);
}

ImportOptions options_of(const ImportCommand& command) {
  ImportOptions options;
  options.tags = command.tags;
  options.routed = command.routed;
  if (!command.run.empty()) options.only = {command.run};
  options.array_budget_bytes = 0;  // no arrays in memory: the recording keeps them
  return options;
}

// Prints what was read from each log, also from one that is refused.
void explain(const ImportCommand& command) {
  for (const std::string& file : command.files) {
    try {
      for (const ImportAccount& account : open_runs({file}, options_of(command), kMaxRuns).accounts)
        std::fputs(printable_lines(account_text(account)).c_str(), stdout);
    } catch (const RefusedLog& refused) {
      std::fputs(printable_lines(account_text(refused.account)).c_str(), stdout);
      throw;
    }
  }
}

void import(ImportCommand command) {
  for (std::string& file : command.files) file = input_path(file);
  if (command.explain) explain(command);
  if (command.out.empty()) {
    if (command.explain) return;
    throw std::runtime_error("--out FILE is missing: the recording to write (or give --explain)");
  }
  check_output(command);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) stop_unless_ignored(signal, SA_RESETHAND);
  const auto start = std::chrono::steady_clock::now();
  RecordingInWork recording(command.out);
  OpenedRuns opened;
  {
    Percentage percentage(command.quiet);
    ImportOptions options = options_of(command);
    options.progress = [&](double share) {
      percentage.show(share);
      return stop_signal() == 0;
    };
    options.on_run = [&](const RunInfo& info) { recording.add(info); };
    options.on_frame = [&](const std::shared_ptr<const TelemetryFrame>& frame) { recording.add(frame); };
    options.on_marker = [&](const Marker& marker) { recording.add(marker); };
    opened = open_runs(command.files, options, kMaxRuns);
  }
  if (opened.histories.empty()) {
    print_to(stderr, "moescope-cli: stopped: nothing was written\n");
    throw ExitStatus{128 + stop_signal()};
  }
  recording.finish();
  print_remarks(opened);
  print_bad_lines(command, opened.skipped);
  if (!command.quiet)
    print_summary(opened, command.out, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

}  // namespace

void add_import_command(CLI::App& app) {
  auto command = std::make_shared<ImportCommand>();
  Command sub(app, "import", "Turn logs of other programs into a recording");
  sub.option("FILE", command->files, command_notes("import_file")).required().up_to(kMaxRuns);
  sub.option("-o,--out", command->out, "Recording to write; required without --explain");
  sub.option("--explain", command->explain,
             "Print what was read: each name with its values, what it was taken for and why, what was left out, and "
             "how steps, layers and experts were found");
  sub.option("--tags", command->tags,
             "TOML file that defines what the names in a log mean: tags, keys, columns (default: those that the common "
             "training programs use)");
  add_run_option(sub, command->run);
  add_routed_options(sub, command->routed);
  sub.option("--bad-lines", command->bad_lines, "Text file for all lines that could not be read, with the reasons");
  sub.option("--overwrite", command->overwrite, "Replace existing files");
  sub.option("--quiet", command->quiet, "Print only errors");
  sub.runs([command] { import(*command); });
}

}  // namespace moescope
