#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/cli/train/cli_train_options.h"
#include "app/cli/train/cli_train_outputs.h"
#include "app/cli/train/cli_train_queue.h"
#include "app/cli/train/cli_train_runs.h"
#include "app/cli/train/cli_train_stop.h"
#include "app/cli/train/train_report.h"
#include "core/model/learner.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/threads.h"
#include "core/parallel/mpi_ranks.h"
#include "core/training/engine/engine.h"

namespace moescope {
namespace {

// Runs an action that can fail on rank 0 only, since only rank 0 writes: afterwards all ranks continue, or none does.
void together(Ranks* ranks, const std::function<void()>& action) {
  std::string problem;
  try {
    action();
  } catch (const std::runtime_error& error) {
    problem = error.what();
  }
  int found = problem.empty() ? 0 : 1;
  sum_over_ranks(ranks, &found, 1);
  if (found > 0) throw std::runtime_error(problem);
}

// Opens the ranks on all processes or on none: the others would wait for a rank that leaves.
std::unique_ptr<Ranks> open_ranks(const TrainOptions& o) {
  if (o.ep == 0) {
    if (o.ranks_per_node > 0) throw std::runtime_error("--ranks-per-node: needs --ep R");
    if (!o.all_to_all.empty()) throw std::runtime_error("--all-to-all: needs --ep R");
    return nullptr;
  }
  if (o.compares()) throw std::runtime_error("--ep: trains one run; --compare and twins do not go with it");
  if ((o.ep & (o.ep - 1)) != 0)
    throw std::runtime_error("--ep " + std::to_string(o.ep) +
                             ": must be a power of two, so that the order of sums is fixed");
  const int per_node = o.ranks_per_node > 0 ? o.ranks_per_node : o.ep;
  if (o.ep % per_node != 0)
    throw std::runtime_error("--ranks-per-node " + std::to_string(per_node) + ": must divide the " +
                             std::to_string(o.ep) + " ranks of --ep");
  return mpi_ranks(o.ep, per_node, o.all_to_all == "hierarchical");
}

// Divides the cores among the ranks of a machine: with more threads than cores they would wait for each other.
void share_cores(const Ranks& ranks) {
  const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  set_num_threads(std::min(num_threads(), std::max(1, cores / ranks.size_here())));
}

void use_matrix_units(const std::string& choice) {
  if (const std::string problem = choose_matrix_unit(choice); !problem.empty())
    throw std::runtime_error("--matrix-units: " + problem);
}

void train_runs(const TrainOptions& o, std::vector<Trainer> trainers, Ranks* ranks, std::string kernels) {
  const Trainer& first = trainers.front();
  const std::int64_t end = o.has_steps ? o.steps : first.config().optimizer.total_steps;
  if (end < first.steps_taken())
    throw std::runtime_error("--steps " + std::to_string(end) + ": the checkpoint has already taken " +
                             std::to_string(first.steps_taken()) +
                             " steps; --steps counts from the beginning of the training");
  const bool writes = !ranks || ranks->rank() == 0;
  std::optional<Engine> engine;
  std::optional<TrainReport> report;
  together(ranks, [&] {
    TrainJob job{.end = end, .ranks = ranks, .kernels = std::move(kernels)};
    if (writes) job.outputs = std::make_unique<TrainOutputs>(o.checkpoint, o.jsonl);
    engine.emplace(std::move(trainers), EngineOptions{.recording = writes ? o.out : ""});
    report.emplace(o, *engine, std::move(job));
  });
  catch_signals(ranks);
  engine->train([&] { return report->wants_step(); }, *report);
  if (report->status() != 0) throw ExitStatus{report->status()};
}

// All ranks find the same errors, and one of them prints them.
void train(const TrainOptions& options) {
  set_num_threads(options.threads);
  if (!options.matrix_units.empty()) use_matrix_units(options.matrix_units);
  const std::string kernels = options.resume.empty() ? "" : kernels_of_checkpoint(options);
  const std::unique_ptr<Ranks> ranks = open_ranks(options);
  if (ranks && options.threads == 0) share_cores(*ranks);
  const bool writes = !ranks || ranks->rank() == 0;
  try {
    std::vector<RunConfig> configs;
    if (options.resume.empty()) configs = fresh_configs(options);
    if (configs.size() > kMaxRuns) return train_groups(options, configs);
    together(ranks.get(), [&] {
      if (writes) check_outputs(options, configs);
    });
    if (options.continues)
      throw std::runtime_error(
          "--continue: goes with more than four twins, which train in groups; a single group "
          "continues from --checkpoint with --resume");
    if (!options.table.empty() && options.resume.empty() && configs.size() < 2)
      throw std::runtime_error("--table " + options.table + ": needs --compare or a config with [[compare]] tables");
    std::vector<Trainer> trainers;
    if (!options.resume.empty()) {
      trainers = resumed_trainers(options, ranks.get());
    } else {
      for (const RunConfig& config : configs) {
        if (ranks) check_ranks(config, ranks->size());
        trainers.emplace_back(config, ranks.get());
      }
    }
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
  sub.footer(
      "Examples:\n"
      "  moescope-cli train --preset small --steps 500 --out run.moescope\n"
      "  moescope-cli train --preset nano --set router.bias_update_rate=0 --jsonl - | jq .ce_loss\n"
      "  moescope-cli train --preset mini-v3 --data texts/ --checkpoint kept --every 200\n"
      "  moescope-cli train --resume kept --checkpoint kept --steps 3000\n"
      "  moescope-cli train --from model --data texts/ --set optimizer.lr=1e-4 --steps 500 --out more.moescope\n"
      "  moescope-cli train --preset nano --compare precision.experts=mxfp8_rceil --noise-twin\n"
      "  moescope-cli train --preset nano --compare precision.experts=mxfp4 \\\n"
      "    --compare precision.experts=mxfp4,router.replay=true   (separates the gap by routing from the gap by "
      "arithmetic)\n"
      "  moescope-cli train --config many.toml --steps 300 --out many.moescope --table many.csv   up to sixteen "
      "[[compare]]\n"
      "  moescope-cli train --config many.toml --steps 300 --out many.moescope --table all.csv --continue   after a "
      "stop\n"
      "  mpirun -n 2 moescope-cli train --preset mini-v3 --ep 2 --out spread.moescope --serve 5000\n"
      "The published check that MXFP8 trains like BF16, at a small scale (1,500 steps, three models: minutes to an "
      "hour),\n"
      "and a case in which it fails:\n"
      "  moescope-cli train --preset convergence-check --out check.moescope\n"
      "  moescope-cli train --preset mxfp4-everywhere --out fails.moescope\n"
      "Ctrl-C, SIGTERM and a closed terminal (SIGHUP) stop after the current step; everything is saved. A full "
      "disk\n"
      "ends the recording or the JSON lines, never the training; a message says so once. Checkpoints name the kernels "
      "that\n"
      "computed them: --resume uses these again, or says that it cannot.\n"
      "Exit status: 0 done, 1 training or writing failed, 2 wrong input, 128 + signal when one stopped it: 130 "
      "Ctrl-C,\n"
      "143 SIGTERM, 129 SIGHUP.");
  sub.runs([sub, options] {
    options->has_data = sub.given("--data");
    options->has_seed = sub.given("--seed");
    options->has_steps = sub.given("--steps");
    train(*options);
  });
}

}  // namespace moescope
