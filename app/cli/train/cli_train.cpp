#include "app/cli/train/cli_train.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>

#include "app/cli/command_line.h"
#include "app/cli/train/cli_compare.h"
#include "app/cli/train/cli_outcomes.h"
#include "app/cli/train/cli_progress.h"
#include "app/cli/train/cli_train_options.h"
#include "app/cli/train/cli_train_outputs.h"
#include "app/cli/train/cli_train_queue.h"
#include "app/cli/train/cli_train_runs.h"
#include "app/cli/train/cli_train_stop.h"
#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/findings/health.h"
#include "core/io/output_guard.h"
#include "core/io/text_escape.h"
#include "core/io/whole_file.h"
#include "core/logs/run_feed.h"
#include "core/model/learner.h"
#include "core/numerics/kernel_names.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/threads.h"
#include "core/parallel/mpi_ranks.h"
#include "core/parallel/wire.h"
#include "core/recording/frame_sink.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/engine/lock_step.h"
#include "core/training/trainer.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

// Empty: none is set.
std::string given_token() {
  const char* given = std::getenv(kTokenVariable);
  return given ? given : "";
}

// All problems with the paths are found before anything is written.
void check_outputs(const TrainOptions& o, const std::vector<RunConfig>& configs) {
  if (o.serve > 0 && !given_token().empty()) check_feed_token(given_token());
  const auto check_folder = [](const char* option, const std::string& path) {
    const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
    if (!path.empty() && path != "-" && access(folder.c_str(), W_OK) != 0)
      throw std::runtime_error(std::string(option) + ' ' + path + ": folder " + folder.string() + ": " +
                               std::strerror(errno));
  };
  check_folder("--out", o.out);
  check_folder("--jsonl", o.jsonl);
  check_table_name(o.table);
  check_folder("--table", o.table);
  std::vector<std::string> inputs{o.config, o.data, o.resume};
  for (const RunConfig& config : configs) inputs.push_back(config.data.path);
  guard_outputs(inputs,
                {{"--out", o.out}, {.option = "--jsonl", .path = o.jsonl, .stream = true}, {"--table", o.table}},
                o.overwrite);
  if (o.every > 0 && o.checkpoint.empty())
    throw std::runtime_error("--every " + std::to_string(o.every) + ": needs --checkpoint DIR");
  if (o.checkpoint.empty()) return;
  if (fs::exists(o.checkpoint) && !fs::is_directory(o.checkpoint))
    throw std::runtime_error("--checkpoint " + o.checkpoint + ": is a file, expected a folder");
  const bool continues = !o.resume.empty() && fs::weakly_canonical(o.resume) == fs::weakly_canonical(o.checkpoint);
  const auto steps = checkpoint_steps(o.checkpoint);
  if (!steps.empty() && !continues && !o.overwrite)
    throw std::runtime_error("--checkpoint " + o.checkpoint + ": holds checkpoints up to step " +
                             std::to_string(steps.back()) +
                             " of another training; choose another folder, continue with --resume " + o.checkpoint +
                             ", or give --overwrite");
}

// Runs what can fail on rank 0 only, because it alone writes: all ranks continue after it, or none.
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

constexpr std::size_t kArrayBytes = std::size_t{512} << 20;  // that are kept of each run in memory

// Final figures, over the last steps rather than a single batch.
struct Tail {
  std::deque<float> losses;
  float max_vio = kNoValue, max_vio_window = kNoValue;

  void add(const TelemetryFrame& frame) {
    losses.push_back(frame.ce_loss);
    if (losses.size() > 20) losses.pop_front();
    if (frame.routers.empty()) return;
    max_vio = max_vio_window = 0;
    for (const RouterFrame& router : frame.routers) {
      max_vio += router.max_vio / static_cast<float>(frame.routers.size());
      max_vio_window += router.max_vio_window / static_cast<float>(frame.routers.size());
    }
  }
  double mean_loss() const {
    double sum = 0;
    for (const float loss : losses) sum += loss;
    return sum / static_cast<double>(losses.size());
  }
};

// Bytes that the all-to-alls gave to the transport, against those that the routing says.
struct WireTotals {
  int ranks = 0;
  double sent = 0, counted = 0, ms = 0, steps = 0;

  void add(const TelemetryFrame& frame, const RunConfig& config) {
    const WireFrame& wire = frame.wire;
    if (wire.ranks == 0 || frame.routers.empty()) return;
    ranks = wire.ranks;
    const auto size = static_cast<std::size_t>(ranks);
    for (std::size_t i = 0; i < size * size; ++i) {
      if (i / size == i % size) continue;  // stays on its rank
      sent += static_cast<double>(wire.sent_RR[i]);
    }
    const std::string payload = to_string(Setting(&PrecisionConfig::payload).field().get(config));
    const RowBytes row = wire_row_bytes(payload, config.model.row_dim());
    for (const RouterFrame& router : frame.routers)
      for (const std::uint64_t bytes : wire_bytes(router.volume, wire.over_nodes, row))
        counted += static_cast<double>(bytes);
    for (const float rank_ms : wire.all_to_all_ms_R) ms += static_cast<double>(rank_ms) / ranks;
    ++steps;
  }
  void print(std::FILE* text) const {
    if (steps == 0) return;
    std::fprintf(text, "all-to-all  %.0f bytes a step between %d ranks measured, %.0f by the routing; %.1f ms a step\n",
                 sent / steps, ranks, counted / steps, ms / steps);
  }
};

// False: it could not be written, which stderr says.
bool write_table(const std::string& path, const std::vector<Outcome>& found, std::FILE* text) {
  try {
    write_outcomes(path, found);
    std::fprintf(text, "table       %s\n", printable(path).c_str());
    return true;
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "moescope-cli: error: --table %s\n", printable(error.what()).c_str());
    return false;
  }
}

class Training {
 public:
  // `kernels`: what there is to say of those that computed the checkpoint of --resume.
  // `baseline`: of the queue in which this is `group`; otherwise nullptr.
  Training(const TrainOptions& options, std::vector<Trainer> trainers, std::string kernels, Ranks* ranks,
           const QueuedGroup* group = nullptr, Baseline* baseline = nullptr)
      : o_(options),
        ranks_(ranks),
        group_(group),
        baseline_(baseline),
        kernels_(std::move(kernels)),
        lock_step_(std::move(trainers)),
        first_(lock_step_.next_step()),
        end_(o_.has_steps ? o_.steps : config().optimizer.total_steps),
        text_(!writes()         ? std::fopen("/dev/null", "w")
              : o_.jsonl == "-" ? stderr
                                : stdout),
        progress_(text_, first_, end_, group ? group->title : "", group ? group->later : 0) {
    if (end_ < first_)
      throw std::runtime_error("--steps " + std::to_string(end_) + ": the checkpoint has already taken " +
                               std::to_string(first_) + " steps; --steps counts from the beginning of the training");
  }

  // Returns the exit status.
  int run() {
    together(ranks_, [&] {
      checkpoints_.emplace(writes() ? o_.checkpoint : "");
      lines_.emplace(writes() ? o_.jsonl : "");
      sink_ = std::make_unique<FrameSink>(writes() ? o_.out : "", group_ ? kQueueArrayBytes : kArrayBytes);
    });
    for (const LockStep::Run& run : lock_step_.runs())
      histories_.push_back(sink_->add_run(run_info(run.trainer.config(), run.number, lock_step_.data().domains())));
    for (const auto& history : histories_) lines_->write(history->info());
    introduce();
    if (writes() && o_.serve > 0) serve();
    catch_signals(ranks_);
    train();
    progress_.finish();
    if (!o_.checkpoint.empty() && whole_ && !lost_) save_checkpoint(true);
    sink_->flush();
    look_after_outputs();
    sink_.reset();
    if (feed_)
      feed_->end(!failure_.empty() ? "the training failed: " + failure_
                                   : "the training ended after " + std::to_string(lock_step_.next_step()) + " steps");
    summarize();
    if (!failure_.empty()) std::fprintf(stderr, "moescope-cli: error: %s\n", printable_lines(failure_).c_str());
    if (lost_ || unwritten_ || !failure_.empty()) return 1;
    return stop_signal() != 0 ? 128 + stop_signal() : 0;
  }
  std::vector<HistoryPtr> histories() const { return {histories_.begin(), histories_.end()}; }

 private:
  bool writes() const { return !ranks_ || ranks_->rank() == 0; }

  // Ranks stop together; otherwise those that continue would wait for the others.
  bool is_stopped() const {
    int stopped = stop_signal() != 0 || lost_ || !failure_.empty() ? 1 : 0;
    sum_over_ranks(ranks_, &stopped, 1);
    return stopped != 0;
  }

  const RunConfig& config() const { return lock_step_.runs().front().trainer.config(); }

  void introduce() {
    if (group_) std::fprintf(text_, "\n%s\n", group_->title.c_str());
    std::string on = num_threads() == 1 ? "1 thread" : std::to_string(num_threads()) + " threads";
    if (ranks_) on += " on each of " + std::to_string(ranks_->size()) + " ranks";
    std::fprintf(text_, "%s: %.2f million parameters, %s, %s%s\n", config().name.c_str(),
                 parameter_count(config()) * 1e-6, printable(lock_step_.data().summary()).c_str(), on.c_str(),
                 first_ > 0 ? (", resumed after step " + std::to_string(first_ - 1)).c_str() : "");
    if (!kernels_.empty()) std::fprintf(text_, "kernels     %s\n", kernels_.c_str());
    for (std::size_t i = 1; i < lock_step_.runs().size(); ++i)
      std::fprintf(text_, "in lock-step with %s\n", lock_step_.runs()[i].trainer.config().name.c_str());
    std::fflush(text_);
  }

  void serve() {
    const std::string given = given_token();
    const std::string token = given.empty() ? new_feed_token() : given;
    try {
      feed_ = std::make_unique<RunFeed>(FeedAddress{o_.serve_address, o_.serve}, token);
    } catch (const std::runtime_error& error) {
      failure_ = std::string("--serve: ") + error.what();  // all ranks learn of it before the first step
      return;
    }
    for (const auto& history : histories_) feed_->add_run(history->info());
    const std::string address = feed_->address().text();
    if (given.empty())
      std::fprintf(text_, "serving     %s; to watch: %s=%s moescope --attach %s\n", address.c_str(), kTokenVariable,
                   token.c_str(), address.c_str());
    else
      std::fprintf(text_, "serving     %s; to watch: moescope --attach %s, with the %s that is set here\n",
                   address.c_str(), address.c_str(), kTokenVariable);
    std::fflush(text_);
    if (!feed_->is_loopback()) warn_of_listeners(address);
  }

  void warn_of_listeners(const std::string& address) const {
    std::fprintf(stderr,
                 "moescope-cli: warning: %s can be reached from other machines, and nothing is encrypted: whoever can "
                 "read the network's traffic sees the token and the whole run. Safer: leave --serve-address out and, "
                 "on the other machine, open a tunnel: ssh -L %d:127.0.0.1:%d THIS_MACHINE\n",
                 address.c_str(), o_.serve, o_.serve);
  }

  void train() {
    for (std::int64_t step = first_; step < end_ && !is_stopped(); ++step) {
      try {
        take_step(step);
      } catch (const std::exception& error) {
        failure_ = error.what();
      }
    }
  }

  void take_step(std::int64_t step) {
    whole_ = false;
    std::vector<int> lost;
    lock_step_.step([&](const TelemetryFrame& frame) {
      if (frame.run == 0) {
        if (baseline_) baseline_->check(frame);
        wire_.add(frame, config());
        tail_.add(frame);
        progress_.show(frame);
        sink_->flush();  // the previous step is on disk by now, so a kill loses at most this one
      }
      sink_->publish(frame);
      if (feed_) feed_->publish(std::make_shared<const TelemetryFrame>(frame));
      if (loss_is_not_finite(frame)) {
        // One candidate of many ends alone.
        if (group_ && frame.run != 0)
          lost.push_back(frame.run);
        else
          lost_ = true;
        sink_->publish(Marker{frame.run, step, "event", "the loss is NaN or infinite"});
      }
      lines_->write(frame);
      return true;
    });
    whole_ = true;
    for (const int run : lost) end_candidate(run, step);
    look_after_outputs();
    if (o_.every > 0 && (step + 1) % o_.every == 0 && step + 1 < end_ && !lost_) save_checkpoint(false);
  }

  void end_candidate(int run, std::int64_t step) {
    say(lock_step_.find(run)->config().name + ": the loss is NaN or infinite at step " + std::to_string(step) +
        "; the others go on without it");
    lock_step_.remove(run);
  }

  void save_checkpoint(bool last) {
    const std::int64_t step = lock_step_.next_step();
    // Collective, so before anything that can fail on rank 0 alone.
    const auto gathered = ranks_ ? lock_step_.runs().front().trainer.gather() : nullptr;
    if (!writes()) return;
    const bool failed_before = !checkpoints_->error().empty();
    const bool saved = checkpoints_->save(step, [&](const std::string& folder) {
      std::vector<std::string> names;
      for (const LockStep::Run& run : lock_step_.runs()) {
        names.push_back(run.trainer.config().name);
        const std::string file = folder + '/' + names.back() + ".safetensors";
        gathered ? gathered->save(file) : run.trainer.save(file);
      }
      write_run_order(folder, names);
    });
    if (!saved && !failed_before)
      say(checkpoints_->error() + (last ? "" : "; training goes on and will try the next one"));
    unwritten_ |= !saved;
    for (const LockStep::Run& run : lock_step_.runs())
      sink_->publish(
          Marker{run.number, step, "event", saved ? "checkpoint " + checkpoints_->newest() : checkpoints_->error()});
  }

  // Reports outputs that failed at once, since hours of training may be left.
  void look_after_outputs() {
    if (!writes()) return;
    const auto say_once = [&](const std::string& error, bool& said) {
      if (error.empty() || said) return;
      said = unwritten_ = true;
      say(error + "; training goes on without it");
    };
    say_once(sink_->error(), recording_said_);
    if (lines_->reader_is_gone())
      failure_ = lines_->error();
    else
      say_once(lines_->error(), lines_said_);
    if (const std::string removed = checkpoints_->removed(); !removed.empty()) say(removed);
  }

  void say(const std::string& warning) {
    progress_.finish();
    std::fflush(text_);
    std::fprintf(stderr, "moescope-cli: warning: %s\n", printable_lines(warning).c_str());
  }

  void summarize() {
    const std::int64_t taken = lock_step_.next_step();
    if (stop_signal() != 0) std::fprintf(text_, "Stopped by %s.\n", signal_text(stop_signal()));
    if (lost_)
      std::fprintf(text_, "Stopped: the loss is NaN or infinite at step %lld.\n", static_cast<long long>(taken - 1));
    std::fprintf(text_, "steps       %lld\n", static_cast<long long>(taken));
    if (!tail_.losses.empty()) {
      std::fprintf(text_, "final loss  %.4f nats/token (mean of the last %zu steps: %.4f)\n", tail_.losses.back(),
                   tail_.losses.size(), tail_.mean_loss());
      std::fprintf(text_, "speed       %.0f tokens/s\n", progress_.tokens_per_s());
      std::fprintf(text_, "GEMMs       %s\n", multiplied_by(histories_.front()->info().kernels).c_str());
    }
    if (!is_missing(tail_.max_vio))
      std::fprintf(text_, "MaxVio      %.3f in the last batch, %.3f over %d steps (mean over MoE layers)\n",
                   tail_.max_vio, tail_.max_vio_window, config().telemetry.window);
    for (const auto& history : histories_) {
      FindingsScan scan(history);
      scan.advance(INT64_MAX);
      std::fprintf(text_, "health      %s%s\n", histories_.size() > 1 ? (history->info().name + ": ").c_str() : "",
                   printable(health_text(judge_health(scan))).c_str());
    }
    wire_.print(text_);
    const auto written = [](bool ended) { return ended ? ", not to the end (see above)" : ""; };
    if (!o_.out.empty()) std::fprintf(text_, "recording   %s%s\n", printable(o_.out).c_str(), written(recording_said_));
    if (!o_.jsonl.empty() && o_.jsonl != "-")
      std::fprintf(text_, "JSON lines  %s%s\n", printable(o_.jsonl).c_str(), written(lines_said_));
    const std::string checkpoint = printable(checkpoints_->newest());
    if (!checkpoints_->error().empty())
      std::fprintf(text_, "checkpoint  %s (see above)\n",
                   checkpoint.empty() ? "none could be written" : (checkpoint + ", no later one").c_str());
    else if (!checkpoint.empty())
      std::fprintf(text_, "checkpoint  %s\n", checkpoint.c_str());
    if (histories_.size() > 1 && !group_) compare();
    std::fflush(text_);
  }

  void compare() {
    std::vector<RunConfig> configs;
    std::vector<JudgedRun> runs;
    for (const LockStep::Run& run : lock_step_.runs()) {
      configs.push_back(run.trainer.config());
      runs.push_back({configs.back(), histories_[runs.size()]});
    }
    std::fprintf(text_, "\n%s", printable_lines(comparison_report(histories(), configs, o_.epsilon)).c_str());
    if (writes() && !o_.table.empty()) unwritten_ |= !write_table(o_.table, outcomes(runs), text_);
  }

  const TrainOptions& o_;
  Ranks* ranks_;  // nullptr: one process
  const QueuedGroup* group_;
  Baseline* baseline_;
  std::string kernels_;
  LockStep lock_step_;
  std::int64_t first_, end_;
  std::FILE* text_;  // progress and summary
  Progress progress_;
  std::unique_ptr<FrameSink> sink_;
  std::vector<std::shared_ptr<History>> histories_;
  std::unique_ptr<RunFeed> feed_;  // for attached windows
  Tail tail_;
  WireTotals wire_;
  bool lost_ = false;
  bool whole_ = true;               // the trainers are between two steps
  std::string failure_;             // what ended the training before its time
  std::optional<JsonLines> lines_;  // these three write on rank 0 alone
  std::optional<TrainCheckpoints> checkpoints_;
  bool recording_said_ = false, lines_said_ = false;  // that it ended
  bool unwritten_ = false;                            // an output is not what was asked for
};

// All ranks or none: a rank that leaves would make the others wait.
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

// Ranks on one machine share its cores: more threads than cores would wait for each other.
void share_cores(const Ranks& ranks) {
  const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  set_num_threads(std::min(num_threads(), std::max(1, cores / ranks.size_here())));
}

void use_matrix_units(const std::string& choice) {
  if (const std::string problem = choose_matrix_unit(choice); !problem.empty())
    throw std::runtime_error("--matrix-units: " + problem);
}

// Prints the outcomes of the groups that finished. Returns the exit status, `status` unless the table cannot be
// written.
int report(const TrainOptions& o, const TrainQueue& queue, int status) {
  const std::vector<Outcome> found = queue.outcomes();
  std::printf("\n%s", printable_lines(outcomes_report(found)).c_str());
  if (!queue.done())
    std::printf("Candidates that wait are trained by the same command%s.\n",
                o.out.empty() ? "" : " with --continue, which keeps the groups that are finished");
  if (!o.table.empty() && !write_table(o.table, found, stdout) && status == 0) status = 1;
  std::fflush(stdout);
  return status;
}

void train_groups(const TrainOptions& o, const std::vector<RunConfig>& runs) {
  TrainQueue queue(o, runs);
  for (const QueuedGroup& group : queue.groups())
    if (group.histories.empty()) check_outputs(group.options, group.runs);
  int status = 0;
  for (QueuedGroup& group : queue.groups()) {
    if (!group.histories.empty()) {
      std::printf("%s: finished before, %s\n", group.title.c_str(), printable(group.options.out).c_str());
      continue;
    }
    std::vector<Trainer> trainers(group.runs.begin(), group.runs.end());
    Training training(group.options, std::move(trainers), "", nullptr, &group, &queue.baseline());
    status = training.run();
    if (status != 0) break;
    group.histories = training.histories();
  }
  if (const int end = report(o, queue, status); end != 0) throw ExitStatus{end};
}

// All ranks have the same errors; one prints them.
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
    Training training(options, std::move(trainers), kernels, ranks.get());
    if (const int status = training.run(); status != 0) throw ExitStatus{status};
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
      "  moescope-cli train --preset nano --compare precision.experts=mxfp8_rceil --noise-twin\n"
      "  moescope-cli train --preset nano --compare precision.experts=mxfp4 \\\n"
      "    --compare precision.experts=mxfp4,router.replay=true   (what of its gap is routing, what arithmetic)\n"
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
      "Ctrl-C, SIGTERM and a closed terminal (SIGHUP) stop after the step in flight, with everything saved. A full "
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
