#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/command_line.h"
#include "app/cli/processes.h"
#include "app/cli/train/cli_progress.h"
#include "app/cli/train/cli_train_options.h"
#include "app/program/program_start.h"
#include "core/config/run_config.h"
#include "core/files/output_guard.h"
#include "core/files/text/words.h"
#include "core/findings/comparison/outcomes.h"
#include "core/numerics/threads.h"
#include "core/training/engine/run_queue.h"
#include "core/training/engine/sweep.h"

namespace moescope {
namespace {

// A figure of the tables: its title, and the keys of its CSV columns.
struct SweepColumn {
  const char *title, *key, *half_key;  // half_key: half the interval over seeds; nullptr: not shown
  SeedMean SweepPoint::*figure;
  const char* format;
};
constexpr SweepColumn kSweepColumns[] = {
    {"loss", "loss_nats", "loss_interval", &SweepPoint::loss, ".4f"},
    {"gap to the first", "gap_to_first_nats", "gap_interval", &SweepPoint::gap, "+.4f"},
    {"validation loss", "validation_loss_nats", "validation_loss_interval", &SweepPoint::val_loss, ".4f"},
    {"lowest SQNR, dB", "sqnr_worst_db", nullptr, &SweepPoint::worst_sqnr, ".1f"},
    {"mean SQNR, dB", "sqnr_mean_db", nullptr, &SweepPoint::mean_sqnr, ".1f"},
    {"MaxVio", "max_vio", nullptr, &SweepPoint::max_vio, ".3f"},
    {"tokens/s", "tokens_per_s", nullptr, &SweepPoint::tokens_per_s, ".0f"},
};

// Returns a row for each point. `in_file`: with the names of the CSV, and with the loss of each seed.
ValueTable table_of(const SweepResult& result, bool in_file) {
  std::vector<ValueColumn> columns;
  for (const SweepAxis& axis : result.axes) columns.push_back({axis.field->key});
  columns.insert(columns.end(), {{"seeds"}, {"lost"}});
  for (const SweepColumn& column : kSweepColumns) {
    columns.push_back({.name = in_file ? column.key : column.title, .format = column.format});
    if (column.half_key) columns.push_back({.name = in_file ? column.half_key : "+-", .format = ".4f"});
  }
  for (int seed = 1; in_file && seed <= result.seeds; ++seed)
    columns.push_back({fmt::format("loss_nats_of_seed_{}", seed)});
  ValueTable table(columns);
  for (const SweepPoint& point : result.points) {
    std::vector<TableValue> row(point.values.begin(), point.values.end());
    row.push_back(table_value(point.ended));
    row.push_back(in_file || point.lost > 0 ? table_value(point.lost) : TableValue());
    for (const SweepColumn& column : kSweepColumns) {
      row.push_back(unless_nan((point.*column.figure).mean));
      if (column.half_key) row.push_back(unless_nan((point.*column.figure).half_width));
    }
    if (in_file)
      for (const double loss : point.losses) row.push_back(unless_nan(loss));
    table.add_row(row);
  }
  return table;
}

// Returns why the intervals of the gaps are widened; empty if only one setting is compared with the first.
std::string allowance(const SweepResult& result) {
  const auto compared = std::ssize(result.points) - 1;
  if (compared < 2) return {};
  return fmt::format(
      " These intervals are wider than that of a single comparison, as {} settings are compared with one (Bonferroni): "
      "about 1 of 20 sweeps in which no setting has an effect reports a difference.",
      compared);
}

// Returns the sentences below the table: over which steps and seeds the figures are taken, what the intervals mean.
std::string sweep_notes(const SweepResult& result) {
  std::string notes = fmt::format(
      "Losses in nats/token: means over the last {} of {} steps, then over seeds; MaxVio and tokens/s likewise, the "
      "validation loss as last measured.",
      std::min(kOutcomeSteps, result.steps), grouped(result.steps));
  if (result.seeds > 1)
    notes += fmt::format(
        " +-: 95 % interval of the mean over seeds (Student's t). The gap to the first row is the mean difference of "
        "the {} losses of equal seeds, so that the effects of initial weights and batches cancel. A setting differs "
        "from the first by more than chance if the interval of its gap excludes 0.{}",
        std::ranges::any_of(result.points, &SweepPoint::by_validation) ? "validation" : "training", allowance(result));
  else
    notes += " One seed each: it is not known how much of a difference is chance. --seeds 3 or more shows it.";
  if (std::ranges::any_of(result.points, [](const SweepPoint& point) { return !std::isnan(point.mean_sqnr.mean); }))
    notes +=
        " SQNR: signal-to-quantization-noise ratio of the operands whose format differs from the first row's, the "
        "lowest and the mean, as last measured.";
  const auto lost = std::ranges::count_if(result.points, [](const SweepPoint& point) { return point.lost > 0; });
  if (lost > 0) notes += " Runs whose loss became NaN or infinite are lost and not part of any mean.";
  return notes;
}

struct SweepOptions {
  TrainOptions run;
  std::vector<std::string> axes;
  int seeds = 1;
  std::string table, recipes, share;
  bool quiet = false;
};

void check_names(const SweepOptions& o) {
  if (o.run.out.empty()) throw std::runtime_error("--out: the recordings need a name, such as sweep.moescope");
  if (!o.table.empty() && !o.table.ends_with(".csv"))
    throw std::runtime_error("--table " + o.table + ": expected a name that ends in .csv");
  if (!o.recipes.empty() && !o.recipes.ends_with(".json"))
    throw std::runtime_error("--recipes " + o.recipes + ": expected a name that ends in .json");
}

RunConfig base_of(const SweepOptions& o) {
  std::vector<RunConfig> runs = fresh_configs(o.run);
  if (runs.size() > 1)
    throw std::runtime_error(runs.front().name +
                             " contains twins; a sweep varies a single run: choose another base run");
  return std::move(runs.front());
}

// The part of a sweep that one of several processes trains: run n trains in the process of rank n % ranks.
struct Share {
  int rank = 0, ranks = 1;
  bool has(std::size_t run) const { return to_int(run % static_cast<std::size_t>(ranks)) == rank; }
};

Share parse_share(const std::string& text) {
  Share share;
  char end = 0;
  if (std::sscanf(text.c_str(), "%d/%d%c", &share.rank, &share.ranks, &end) != 2 || share.rank < 0 ||
      share.rank >= share.ranks)
    throw std::runtime_error("--share " + text +
                             ": expected RANK/RANKS, such as 0/4, 1/4, 2/4 and 3/4 of four processes");
  return share;
}

Share share_of(const SweepOptions& o) {
  if (!o.share.empty()) return parse_share(o.share);
  const std::optional<LaunchedRank> launched = launched_rank();
  if (!launched || launched->ranks == 1) return {};
  if (launched->rank == 0 && !o.quiet)
    print_to(stderr, "{} processes of {} share the runs\n", launched->ranks, launched->by);
  return {launched->rank, launched->ranks};
}

// Reads the finished runs with --continue. Throws std::runtime_error if a recording exists and neither --continue nor
// --overwrite is given.
void take_up(const SweepOptions& o, RunQueue& queue) {
  const std::vector<RunGroup> runs = queue.groups();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (o.run.overwrite || !std::filesystem::exists(runs[i].recording)) continue;
    if (!o.run.continues)
      throw std::runtime_error(runs[i].recording +
                               ": exists already; --continue keeps the runs that have ended, --overwrite replaces all");
    queue.read_finished(i);
  }
  if (queue.status().finished > 0) use_recorded_kernels(queue.kernels());
  guard_outputs({}, {{"--table", o.table}, {"--recipes", o.recipes}}, o.run.overwrite || o.run.continues);
}

// Reads the runs that other processes have trained. A recording that cannot be read counts as unfinished: its process
// may have just created it or be about to replace it, and reports other errors itself.
void take_others(const Share& share, std::int64_t steps, std::vector<RunGroup>& runs) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (share.has(i)) continue;
    try {
      Baseline own_baseline;
      runs[i].histories = finished_group(runs[i], steps, own_baseline);
      runs[i].finished = !runs[i].histories.empty();
    } catch (const std::runtime_error&) {
      runs[i].finished = false;
    }
  }
}

// Shows the progress in a line that redraws itself on a terminal; elsewhere prints a line for every run that ends.
class SweepLine {
 public:
  void show(const QueueStatus& progress, std::size_t runs) {
    const bool terminal = isatty(STDERR_FILENO) == 1, ended = progress.finished != ended_;
    const auto time = std::chrono::steady_clock::now();
    if (!ended && (!terminal || time - shown_ < std::chrono::milliseconds(200))) return;
    shown_ = time;
    ended_ = progress.finished;
    std::string text = fmt::format("{} of {} runs", progress.finished, runs);
    if (!progress.done && !is_missing(static_cast<float>(progress.seconds_left)))
      text += fmt::format(", {} %, about {} left", static_cast<int>(100 * progress.share),
                          duration_text(progress.seconds_left));
    print_to(stderr, "{}{}{}", terminal ? "\r" : "", text, terminal ? "\x1b[K" : "\n");
    if (terminal && progress.done) std::fputc('\n', stderr);
    std::fflush(stderr);
  }

 private:
  int ended_ = 0;
  std::chrono::steady_clock::time_point shown_{};
};

// Trains the runs of this process. Returns false if it was stopped.
bool train_share(const Share& share, const SweepOptions& o, std::int64_t steps, std::vector<RunGroup>& runs) {
  std::vector<RunGroup> own_groups;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (share.has(i)) own_groups.push_back(runs[i]);
  RunQueue queue(std::move(own_groups), steps);
  take_up(o, queue);
  SweepLine line;
  const bool all = queue.train([&](const QueueStatus& progress) {
    if (!o.quiet && share.rank == 0) line.show(progress, queue.groups().size());
    return stop_signal() == 0;
  });
  if (const std::string error = queue.status().error; !error.empty()) throw std::runtime_error(error);
  own_groups = queue.groups();
  auto trained = own_groups.begin();
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (share.has(i)) runs[i] = std::move(*trained++);
  return all;
}

void write_result(Report& report, const std::string& path, const std::string& text) {
  if (path.empty()) return;
  write_output("", path, text);
  report.value({"written"}, path);
}

// Throws std::runtime_error if an output would replace an input.
void keep_inputs(const SweepOptions& o, const RunConfig& base, const std::vector<RunGroup>& runs) {
  std::vector<std::string> inputs = input_paths(base);
  inputs.push_back(o.run.config);
  std::vector<OutputFile> outputs{{"--table", o.table}, {"--recipes", o.recipes}};
  for (const RunGroup& run : runs) outputs.push_back({"--out", run.recording});
  guard_outputs(inputs, outputs, true);
}

void sweep(const SweepOptions& o) {
  check_names(o);
  const RunConfig base = base_of(o);
  std::vector<SweepAxis> axes;
  for (const std::string& text : o.axes) axes.push_back(parse_sweep_axis(text));
  const std::int64_t steps = o.run.steps.value_or(base.optimizer.total_steps);
  if (steps < 1) throw std::runtime_error("--steps: a sweep takes 1 step or more");
  set_num_threads(o.run.threads);
  std::vector<RunGroup> runs = sweep_groups(base, axes, o.seeds, o.run.out);
  keep_inputs(o, base, runs);
  const Share share = share_of(o);
  catch_signals(nullptr);
  const bool all = train_share(share, o, steps, runs);
  take_others(share, steps, runs);
  if (all && !std::ranges::all_of(runs, &RunGroup::finished)) {
    if (share.rank == 0)
      print_out(
          "This process has trained its runs. The last process to end writes the table; when all have ended,\nthe same "
          "command with --continue writes it, too.\n");
    return;
  }
  const std::vector<SweepPoint> points = sweep_points(runs, axes, steps);
  const SweepResult result{steps, o.seeds, axes, points};
  Report report;
  report.table("", table_of(result, false));
  report.sentence(sweep_notes(result));
  report.value({"recordings"}, fmt::format("{} to {}", runs.front().recording, runs.back().recording));
  write_result(report, o.table, to_csv(table_of(result, true)));
  write_result(report, o.recipes, sweep_recipes(result, runs));
  if (!all)
    report.sentence(fmt::format("Stopped by {}. The same command with --continue trains what is missing.",
                                signal_text(stop_signal())));
  print_report(report);
  if (all) return;
  throw ExitStatus{128 + stop_signal()};
}

}  // namespace

void add_sweep_command(CLI::App& app) {
  auto options = std::make_shared<SweepOptions>();
  Command command(app, "sweep", "Train a grid of settings, each with several seeds, and compare them");
  TrainOptions& run = options->run;
  add_config_options(command, run);
  command
      .option("--over", options->axes,
              "KEY=VALUE,VALUE,...: an axis of the grid, any key of the config; may be repeated")
      .repeatable()
      .required();
  command
      .option("--seeds", options->seeds,
              "Seeds of each point of the grid, from the config's on; 3 or more show the effect of chance")
      .range(1, 100)
      .shows_default();
  command.option("--steps", run.steps, "Steps of each run (default: optimizer.total_steps)")
      .range(std::int64_t{1}, std::int64_t{1000000000});
  command.option("--threads", run.threads, "Threads, of all runs together (default: one per core)")
      .range(1, kMaxThreadCount);
  command
      .option("-o,--out", run.out, "Recordings to write: sweep.moescope makes sweep-1.moescope, sweep-2.moescope, ...")
      .required();
  command.option("--table", options->table, "Table to write, .csv: a row for each point of the grid");
  command.option("--recipes", options->recipes,
                 "File to write, .json: the number formats of each point as configs of torchao and TransformerEngine, "
                 "with the gap, steps and seeds that speak for them");
  const Option overwrite = command.option("--overwrite", run.overwrite, "Replace existing recordings");
  command.option("--continue", run.continues, "Keep the runs that have ended, and train the others")
      .excludes(overwrite);
  command.option("--share", options->share,
                 "RANK/RANKS, from 0 on: train only this process's share of the runs, for machines that share a disk\n"
                 "(default: from mpirun or srun)");
  command.option("--quiet", options->quiet, "No progress");
  command.runs([options] { sweep(*options); });
}

}  // namespace moescope
