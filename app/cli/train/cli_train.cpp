#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/command_line.h"
#include "app/cli/processes.h"
#include "app/cli/train/cli_train_options.h"
#include "app/cli/train/train_report.h"
#include "app/program/program_start.h"
#include "core/cluster/ranks/mpi_ranks.h"
#include "core/config/run_config.h"
#include "core/files/text/text_escape.h"
#include "core/findings/comparison/outcomes.h"
#include "core/model/learner.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/threads.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/engine/engine.h"
#include "core/training/engine/run_queue.h"

namespace moescope {
namespace {

// If there are more candidates than can train side by side, moescope-cli train trains them in groups (run_queue.h),
// each with run A and its own recording, and prints one table of outcomes. --continue keeps the finished groups.

void refuse_options(const TrainOptions& o, std::size_t runs) {
  const auto refuse = [&](const char* option) {
    throw std::runtime_error(fmt::format(
        "{}: cannot be used with {} runs, which train in groups; up to 5 runs train together", option, runs));
  };
  check_table_name(o.table);
  if (o.ep > 0) refuse("--ep");
  if (!o.jsonl.empty()) refuse("--jsonl");
  if (!o.checkpoint.empty()) refuse("--checkpoint");
  if (o.continues && o.out.empty()) throw std::runtime_error("--continue: needs --out, whose recordings it continues");
}

std::string title_of(std::size_t group, std::size_t groups) {
  return fmt::format("group {} of {}", group + 1, groups);
}

// With --continue, reads the finished groups and uses their kernels again.
void take_up(RunQueue& queue) {
  try {
    for (std::size_t g = 0; g < queue.groups().size(); ++g) queue.read_finished(g);
  } catch (const std::runtime_error& problem) {
    throw std::runtime_error(std::string("--continue: ") + problem.what() +
                             "; choose another --out, or give --overwrite in place of --continue");
  }
  if (queue.status().finished > 0) use_recorded_kernels(queue.kernels());
}

void check_outputs_of_groups(TrainOptions o, const std::vector<RunGroup>& groups) {
  o.overwrite |= o.continues;  // an unfinished recording of a group is replaced
  for (const RunGroup& group : groups) {
    o.out = group.recording;
    if (!group.finished) check_outputs(o, group.runs);
  }
}

void name_finished(const std::vector<RunGroup>& groups) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (groups[g].finished)
      print_out("{}: finished before, {}\n", title_of(g, groups.size()), printable(groups[g].recording));
}

// Work of the groups after this one, in multiples of this group.
double work_behind(const std::vector<RunGroup>& groups, std::size_t group) {
  std::size_t runs = 0;
  for (std::size_t g = group + 1; g < groups.size(); ++g) runs += groups[g].finished ? 0 : groups[g].runs.size();
  return runs / static_cast<double>(groups[group].runs.size());
}

// Prints the outcomes of the finished groups. Returns `status`, or 1 if it is 0 and the table cannot be written.
int report(const TrainOptions& o, const RunQueue& queue, int status) {
  const std::vector<Outcome> found = group_outcomes(queue.groups());
  Report report;
  add_outcomes(report, found);
  if (!queue.status().done)
    report.sentence(fmt::format("Candidates that wait are trained by the same command{}.",
                                o.out.empty() ? "" : " with --continue, which keeps the groups that are finished"));
  print_report(report);
  if (!o.table.empty() && !write_table(o.table, found, stdout) && status == 0) status = 1;
  std::fflush(stdout);
  return status;
}

// Throws std::runtime_error if options do not go with groups, if the recordings hold other candidates, if outputs
// cannot be written, or if a group cannot be trained; ExitStatus if training failed or was stopped.
void train_groups(const TrainOptions& o, const std::vector<RunConfig>& runs) {
  refuse_options(o, runs.size());
  const std::int64_t steps = o.steps.value_or(runs.front().optimizer.total_steps);
  RunQueue queue(candidate_groups(runs, o.out), steps, o.out);
  if (o.continues) take_up(queue);
  const std::vector<RunGroup> groups = queue.groups();
  check_outputs_of_groups(o, groups);
  name_finished(groups);
  catch_signals(nullptr);
  int status = 0;
  queue.train([&](const QueueStatus&) { return status == 0 && stop_signal() == 0; },
              [&](Engine& engine, std::size_t group) {
                TrainJob job{.end = steps,
                             .status = &status,
                             .group = title_of(group, groups.size()),
                             .later = work_behind(groups, group)};
                return std::make_unique<TrainReport>(o, engine, std::move(job));
              });
  const QueueStatus ended = queue.status();
  if (status == 0 && !ended.error.empty()) throw std::runtime_error(ended.error);
  if (status == 0 && stop_signal() != 0) status = 128 + stop_signal();
  if (const int end = report(o, queue, status); end != 0) throw ExitStatus{end};
}

// Runs an action that can fail on rank 0 only, which alone writes. Then all ranks continue, or all ranks throw.
void together(Ranks* ranks, const std::function<void()>& action) {
  std::string problem;
  try {
    action();
  } catch (const std::runtime_error& error) {
    problem = error.what();
  }
  int found = problem.empty() ? 0 : 1;
  sum_over_ranks(ranks, std::span(&found, 1));
  if (found > 0) throw std::runtime_error(problem);
}

// Opens the ranks on all processes or on none: the others would wait for a rank that leaves.
std::unique_ptr<Ranks> open_ranks(const TrainOptions& o) {
  if (o.ep == 0) {
    if (o.ranks_per_node > 0) throw std::runtime_error("--ranks-per-node: needs --ep R");
    if (!o.all_to_all.empty()) throw std::runtime_error("--all-to-all: needs --ep R");
    return nullptr;
  }
  if (o.compares()) throw std::runtime_error("--ep: trains one run; it cannot be used with --compare or twins");
  if ((o.ep & (o.ep - 1)) != 0)
    throw std::runtime_error(fmt::format("--ep {}: must be a power of two, so that the order of sums is fixed", o.ep));
  const int per_node = o.ranks_per_node > 0 ? o.ranks_per_node : o.ep;
  if (o.ep % per_node != 0)
    throw std::runtime_error(fmt::format("--ranks-per-node {}: must divide the {} ranks of --ep", per_node, o.ep));
  return mpi_ranks(o.ep, per_node, o.all_to_all == "hierarchical");
}

// Divides the cores among the ranks of a machine: with more threads than cores they would wait for each other.
void share_cores(const Ranks& ranks) {
  const int cores = to_int(sysconf(_SC_NPROCESSORS_ONLN));
  set_num_threads(std::min(num_threads(), std::max(1, cores / ranks.ranks_on_machine())));
}

void use_matrix_units(const std::string& choice) {
  if (const std::string problem = choose_matrix_unit(choice); !problem.empty())
    throw std::runtime_error("--matrix-units: " + problem);
}

void train_runs(const TrainOptions& o, std::vector<Trainer> trainers, Ranks* ranks, std::string kernels) {
  const Trainer& first = trainers.front();
  const std::int64_t end = o.steps.value_or(first.config().optimizer.total_steps);
  if (end < first.steps_taken())
    throw std::runtime_error(fmt::format(
        "--steps {}: the checkpoint has already taken {} steps; --steps counts from the beginning of the training", end,
        first.steps_taken()));
  const bool writes = !ranks || ranks->rank() == 0;
  int status = 0;
  std::optional<Engine> engine;
  std::optional<TrainReport> report;
  together(ranks, [&] {
    TrainJob job{.end = end, .status = &status, .ranks = ranks, .kernels = std::move(kernels)};
    if (writes) job.outputs = std::make_unique<TrainOutputs>(o.checkpoint, o.jsonl);
    engine.emplace(std::move(trainers), EngineOptions{.recording = writes ? o.out : ""});
    report.emplace(o, *engine, std::move(job));
  });
  catch_signals(ranks);
  engine->train([&] { return report->wants_step(); }, *report);
  if (status != 0) throw ExitStatus{status};
}

std::vector<Trainer> fresh_trainers(const std::vector<RunConfig>& configs, Ranks* ranks) {
  std::vector<Trainer> trainers;
  for (const RunConfig& config : configs) {
    if (ranks) check_ranks(config, ranks->size());
    trainers.emplace_back(config, ranks);
  }
  return trainers;
}

// All ranks find the same errors; only one rank prints them.
void train(TrainOptions options) {
  set_num_threads(options.threads);
  if (!options.matrix_units.empty()) use_matrix_units(options.matrix_units);
  const std::string kernels = options.resume.empty() ? "" : kernels_of_checkpoint(options);
  const std::unique_ptr<Ranks> ranks = open_ranks(options);
  if (ranks && options.threads == 0) share_cores(*ranks);
  const bool writes = !ranks || ranks->rank() == 0;
  try {
    std::vector<RunConfig> configs;
    std::vector<Trainer> trainers;
    if (options.resume.empty()) configs = fresh_configs(options);
    if (configs.size() > kMaxRuns) return train_groups(options, configs);
    if (!options.resume.empty()) trainers = resumed_trainers(options, ranks.get());
    for (const Trainer& trainer : trainers) configs.push_back(trainer.config());
    // `export` takes the weights of a recording from there.
    if (options.checkpoint.empty()) options.checkpoint = checkpoints_of(options.out);
    together(ranks.get(), [&] {
      if (writes) check_outputs(options, configs);
    });
    if (options.continues)
      throw std::runtime_error(
          "--continue: needs more than four twins, which train in groups; a single group continues from --checkpoint "
          "with --resume");
    if (!options.table.empty() && options.resume.empty() && configs.size() < 2)
      throw std::runtime_error("--table " + options.table + ": needs --compare or a config with [[compare]] tables");
    if (options.resume.empty()) trainers = fresh_trainers(configs, ranks.get());
    train_runs(options, std::move(trainers), ranks.get(), kernels);
  } catch (const std::runtime_error&) {
    if (writes) throw;
    throw ExitStatus{2};
  }
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  Command sub(app, "train", "Train a model and record it");
  add_train_options(sub, *options);
  sub.runs([options] { train(*options); });
}

}  // namespace moescope
