#include "app/cli/train/train_report.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

#include "app/cli/command_line.h"
#include "app/cli/processes.h"
#include "core/config/config_check.h"
#include "core/files/output_guard.h"
#include "core/files/text/text_escape.h"
#include "core/files/whole_file.h"
#include "core/findings/health.h"
#include "core/logs/log_exports.h"
#include "core/model/learner.h"
#include "core/numerics/processor.h"
#include "core/numerics/threads.h"
#include "core/training/checkpoint_folder.h"

namespace moescope {

namespace fs = std::filesystem;

WatchedPath::WatchedPath(std::string path) : path_(std::move(path)) {
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0) return;
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

bool WatchedPath::is_there() const {
  struct stat status {};
  return path_.empty() || (stat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_);
}

JsonLinesOutput::JsonLinesOutput(const std::string& path) : path_(path) {
  if (path == "-") file_ = stdout;
  if (path.empty() || path == "-") return;
  try {
    file_ = fdopen(open_growing_file(path), "w");
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string("--jsonl ") + error.what());
  }
  watched_path_ = WatchedPath(path);
}

JsonLinesOutput::~JsonLinesOutput() {
  if (file_ && file_ != stdout) std::fclose(file_);
}

void JsonLinesOutput::write(const TelemetryFrame& frame) {
  if (file_ && error_.empty()) write(to_json_line(frame));
}

void JsonLinesOutput::write(const RunInfo& info) {
  if (file_ && error_.empty()) write(to_json_line(info));
}

void JsonLinesOutput::write(const std::string& line) {
  const std::string text = line + '\n';
  const bool written = std::fwrite(text.data(), 1, text.size(), file_) == text.size() && std::fflush(file_) == 0;
  const int error_code = errno;
  if (!written) error_ = fmt::format("--jsonl {}: cannot be written: {}", path_, std::strerror(error_code));
  reader_is_gone_ = !written && error_code == EPIPE;
  if (written && !watched_path_.is_there()) error_ = "--jsonl " + path_ + ": was removed or moved while it was written";
}

TrainCheckpoints::TrainCheckpoints(const std::string& folder) : folder_(folder) {
  if (folder.empty()) return;
  std::error_code error;
  created_ = fs::create_directories(folder, error);
  if (error || access(folder.c_str(), W_OK) != 0)
    throw std::runtime_error(
        fmt::format("--checkpoint {}: cannot be written: {}", folder, error ? error.message() : std::strerror(errno)));
}

TrainCheckpoints::~TrainCheckpoints() {
  std::error_code ignored;  // a folder with checkpoints is kept
  if (created_) fs::remove(folder_, ignored);
}

void TrainCheckpoints::remove_earlier() {
  for (const std::int64_t step : checkpoint_steps(folder_)) remove_checkpoint(folder_, step);
}

void TrainCheckpoints::note(std::int64_t step, const std::string& problem) {
  find_removed();
  error_ = problem;
  if (problem.empty()) newest_ = fmt::format("{}/{}", folder_, step);
}

std::string TrainCheckpoints::removed() {
  find_removed();
  return std::exchange(removed_, {});
}

void TrainCheckpoints::find_removed() {
  std::error_code ignored;  // a path that cannot be read counts as removed
  if (newest_.empty() || fs::exists(newest_, ignored)) return;
  removed_ = fmt::format(
      "checkpoint {}: was removed or moved while training; the next checkpoint is written to {} again, earlier ones "
      "may be gone",
      newest_, folder_);
  newest_.clear();
}

bool continues_checkpoints(const TrainOptions& o) {
  return !o.resume.empty() && fs::weakly_canonical(o.resume) == fs::weakly_canonical(o.checkpoint);
}

void check_outputs(const TrainOptions& o, const std::vector<RunConfig>& configs) {
  check_table_name(o.table);
  std::vector<std::string> inputs{o.config, o.data.value_or(""), o.resume};
  for (const RunConfig& config : configs)
    for (const std::string& input : input_paths(config)) inputs.push_back(input);
  guard_outputs(inputs,
                {{"--out", o.out}, {.option = "--jsonl", .path = o.jsonl, .stream = true}, {"--table", o.table}},
                o.overwrite);
  if (o.checkpoint_interval > 0 && o.checkpoint.empty())
    throw std::runtime_error(fmt::format("--every {}: needs --out, or --checkpoint DIR", o.checkpoint_interval));
  if (o.checkpoint.empty()) return;
  if (fs::exists(o.checkpoint) && !fs::is_directory(o.checkpoint))
    throw std::runtime_error("--checkpoint " + o.checkpoint + ": is a file, expected a folder");
  const auto steps = checkpoint_steps(o.checkpoint);
  if (!steps.empty() && !o.overwrite && !continues_checkpoints(o))
    throw std::runtime_error(
        fmt::format("--checkpoint {}: holds checkpoints up to step {} of another training; choose another folder, "
                    "continue with --resume {}, or give --overwrite",
                    o.checkpoint, steps.back(), o.checkpoint));
}

namespace {

// Adds a line unless the text is empty.
void add_text(Report& report, const char* name, const std::string& text) {
  if (!text.empty()) report.value({name}, text);
}

std::FILE* where_to_report(const TrainOptions& o, bool writes) {
  if (!writes) return std::fopen("/dev/null", "w");
  return o.jsonl == "-" ? stderr : stdout;
}

}  // namespace

TrainReport::TrainReport(const TrainOptions& options, Engine& engine, TrainJob job)
    : o_(options),
      engine_(engine),
      job_(std::move(job)),
      first_(engine.next_step()),
      text_(where_to_report(options, writes())),
      progress_(text_, first_, job_.end, job_.group, job_.later) {
  if (writes() && o_.overwrite && !continues_checkpoints(o_)) job_.outputs->checkpoints.remove_earlier();
  for (const auto& history : engine_.histories()) job_.outputs->lines.write(history->info());
  introduce();
}

void TrainReport::introduce() {
  if (!job_.group.empty()) print_to(text_, "\n{}\n", job_.group);
  std::string on = num_threads() == 1 ? "1 thread" : fmt::format("{} threads", num_threads());
  if (job_.ranks) on += fmt::format(" on each of {} ranks", job_.ranks->size());
  print_to(text_, "{}: {:.2f} million parameters, {}, {}{}\n", config().name, parameter_count(config()) * 1e-6,
           printable(engine_.data().summary()), on,
           first_ > 0 ? (fmt::format(", resumed after step {}", first_ - 1)) : "");
  if (!job_.kernels.empty()) print_to(text_, "kernels: {}\n", printable(job_.kernels));
  for (std::size_t i = 1; i < engine_.runs().size(); ++i)
    print_to(text_, "in lock-step with {}\n", engine_.runs()[i].trainer.config().name);
  std::fflush(text_);
}

bool TrainReport::wants_step() {
  if (engine_.next_step() >= job_.end) return false;
  int stopped = stop_signal() != 0 || engine_.trouble() || !failure_.empty() ? 1 : 0;
  sum_over_ranks(job_.ranks, std::span(&stopped, 1));
  return stopped == 0;
}

void TrainReport::frame(const TelemetryFrame& frame) {
  if (frame.run == 0) {
    wire_.add(frame, config());
    last_.add(frame);
    progress_.show(frame);
    engine_.sink().flush();  // so that a kill loses at most the present step
  }
  job_.outputs->lines.write(frame);
}

void TrainReport::after_step(Engine&) {
  look_after_outputs();
  const std::int64_t next = engine_.next_step();
  if (o_.checkpoint_interval > 0 && next % o_.checkpoint_interval == 0 && next < job_.end && !engine_.trouble())
    save_checkpoint(false);
}

void TrainReport::ended(Engine&) {
  progress_.finish();
  if (engine_.trouble() && engine_.trouble()->within_step && failure_.empty()) failure_ = engine_.trouble()->reason;
  if (!o_.checkpoint.empty() && !engine_.trouble()) save_checkpoint(true);
  engine_.sink().flush();
  look_after_outputs();
  summarize();
  if (!failure_.empty()) print_to(stderr, "moescope-cli: error: {}\n", printable_lines(failure_));
  const bool failed = engine_.trouble() || unwritten_ || !failure_.empty();
  *job_.status = stop_signal() != 0 ? 128 + stop_signal() : 0;
  if (failed) *job_.status = 1;
}

void TrainReport::save_checkpoint(bool last) {
  const std::string problem = engine_.save_checkpoint(o_.checkpoint);
  if (!writes()) return;
  const bool failed_before = !job_.outputs->checkpoints.error().empty();
  job_.outputs->checkpoints.note(engine_.next_step(), problem);
  if (problem.empty()) return;
  unwritten_ = true;
  if (!failed_before) say(problem + (last ? "" : "; training goes on and will try the next one"));
}

// Reports failed outputs right after a step, since hours of training may be left.
void TrainReport::look_after_outputs() {
  if (!writes()) return;
  const auto say_once = [&](const std::string& error, bool& is_reported) {
    if (error.empty() || is_reported) return;
    is_reported = unwritten_ = true;
    say(error + "; training goes on without it");
  };
  say_once(engine_.sink().error(), recording_said_);
  const JsonLinesOutput& lines = job_.outputs->lines;
  if (lines.reader_is_gone())
    failure_ = lines.error();
  else
    say_once(lines.error(), lines_said_);
  if (const std::string removed = job_.outputs->checkpoints.removed(); !removed.empty()) say(removed);
}

void TrainReport::say(const std::string& warning) {
  progress_.finish();
  std::fflush(text_);
  print_to(stderr, "moescope-cli: warning: {}\n", printable_lines(warning));
}

void TrainReport::summarize() {
  Report report;
  const std::int64_t steps = engine_.next_step();
  if (stop_signal() != 0) report.sentence(fmt::format("Stopped by {}.", signal_text(stop_signal())));
  if (engine_.trouble() && !engine_.trouble()->within_step)
    report.sentence(fmt::format("Stopped: the loss is NaN or infinite at step {}.", steps - 1));
  report.value({"steps"}, steps);
  add_steps(report);
  for (const auto& history : engine_.histories()) {
    FindingsScan scan(history);
    scan.advance(INT64_MAX);
    report.value({"health"},
                 (engine_.histories().size() > 1 ? history->info().name + ": " : "") + health_text(judge_health(scan)));
  }
  add_text(report, "all-to-all", wire_.text());
  add_outputs(report);
  const std::vector<HistoryPtr>& histories = engine_.histories();
  std::vector<JudgedRun> runs;
  for (const Engine::Run& run : engine_.runs()) runs.push_back({run.trainer.config(), histories[runs.size()]});
  const bool compares = runs.size() > 1 && job_.group.empty();
  if (compares) add_comparison(report, runs, o_.epsilon);
  print_to(text_, "{}", report.text());
  if (compares && writes() && !o_.table.empty()) unwritten_ |= !write_table(o_.table, outcomes(runs), text_);
  std::fflush(text_);
}

void TrainReport::add_steps(Report& report) const {
  if (last_.losses.empty()) return;
  report.value({.name = "final loss", .unit = "nats/token", .format = ".4f"}, last_.losses.back());
  report.value({.name = fmt::format("mean loss of the last {} steps", last_.losses.size()),
                .unit = "nats/token",
                .format = ".4f"},
               last_.mean_loss());
  report.value({.name = "speed", .unit = "tokens/s", .format = ".0f"}, progress_.tokens_per_s());
  add_text(report, "GEMMs", multiplied_by(engine_.histories().front()->info().kernels));
  if (is_missing(last_.max_vio)) return;
  report.value({.name = "MaxVio of the last batch, mean over MoE layers", .format = ".3f"}, last_.max_vio);
  report.value(
      {.name = fmt::format("MaxVio over {} steps, mean over MoE layers", config().telemetry.window), .format = ".3f"},
      last_.max_vio_window);
}

void TrainReport::add_outputs(Report& report) const {
  const auto written = [](bool ended) { return ended ? ", not to the end (see above)" : ""; };
  const std::string& recording = engine_.recording();
  if (!recording.empty()) report.value({"recording"}, recording + written(recording_said_));
  if (!o_.jsonl.empty() && o_.jsonl != "-") report.value({"JSON lines"}, o_.jsonl + written(lines_said_));
  const TrainCheckpoints& checkpoints = job_.outputs->checkpoints;
  const std::string& newest = checkpoints.newest();
  if (checkpoints.error().empty())
    add_text(report, "checkpoint", newest);
  else
    report.value({"checkpoint"},
                 (newest.empty() ? "none could be written" : newest + ", no later one") + " (see above)");
}

void check_table_name(const std::string& path) {
  if (!path.empty() && !path.ends_with(".csv") && !path.ends_with(".json"))
    throw std::runtime_error(fmt::format("--table {}: expected a name that ends in .csv or .json", path));
}

bool write_table(const std::string& path, std::span<const Outcome> outcomes, std::FILE* text) {
  try {
    const ValueTable table = outcomes_table(outcomes);
    write_whole_file(path, path.ends_with(".json") ? json_rows(table).dump(2) + '\n' : to_csv(table));
  } catch (const std::runtime_error& error) {
    print_to(stderr, "moescope-cli: error: --table {}\n", printable(error.what()));
    return false;
  }
  print_to(text, "table: {}\n", printable(path));
  return true;
}

}  // namespace moescope
