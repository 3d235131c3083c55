#include "core/lessons/claim_runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>

#include "core/config/config_check.h"
#include "core/config/config_toml.h"
#include "core/files/text/words.h"
#include "core/lessons/lesson_figures.h"
#include "core/numerics/processor.h"
#include "core/numerics/threads.h"
#include "core/training/engine/engine.h"

namespace moescope {
namespace {

constexpr std::size_t kClaimArrayBytes = std::size_t{1} << 20;  // no comparison reads arrays

// A run to train, and its history after the training; nullptr: the run was lost.
struct ClaimRun {
  RunConfig config;
  std::int64_t steps = 0;
  HistoryPtr history = {};
};

RunConfig with_seed(RunConfig config, int seed) {
  config.seed += seed;
  return config;
}

// The runs of all claims, each once.
class ClaimRuns {
 public:
  explicit ClaimRuns(std::span<const Claim> claims) {
    for (const Claim& claim : claims)
      for (int seed = 0; seed < claim.seeds; ++seed)
        for (const RunConfig& config : claim.runs) {
          const RunConfig seeded = with_seed(config, seed);
          runs_.try_emplace(key(seeded, claim.steps), ClaimRun{seeded, claim.steps});
        }
    // The longest trainings come first, so that none of them runs alone at the end.
    for (auto& [key, run] : runs_) order_.push_back(&run);
    std::ranges::stable_sort(order_, std::greater(),
                             [](const ClaimRun* run) { return parameter_count(run->config) * run->steps; });
  }

  std::size_t size() const { return runs_.size(); }
  ClaimRun& to_train(std::size_t place) { return *order_[place]; }
  const ClaimRun& finished_run(const RunConfig& config, std::int64_t steps) const {
    return runs_.at(key(config, steps));
  }

 private:
  static std::string key(RunConfig config, std::int64_t steps) {
    config.name = "run";
    return std::to_string(steps) + '\n' + to_toml(config);
  }

  std::map<std::string, ClaimRun> runs_;  // by steps and settings
  std::vector<ClaimRun*> order_;
};

void train(ClaimRun& run) {
  std::vector<Trainer> trainer;
  trainer.emplace_back(run.config);
  Engine engine(std::move(trainer), {.array_bytes = kClaimArrayBytes});
  engine.train_until(run.steps);
  const std::optional<Trouble>& trouble = engine.trouble();
  if (trouble && trouble->within_step) throw std::runtime_error(run.config.name + ": " + trouble->reason);
  if (!trouble) run.history = engine.histories().front();
}

// The parallel loops of a run use only its thread, since they are nested in the loop over the runs.
void train_all(ClaimRuns& runs, const std::function<void(int, int)>& progress) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  int ended = 0;
  const int all = runs.size();
  parallel_for(all, [&](int) {
    const std::size_t place = next++;
    if (place >= runs.size()) return;
    try {
      train(runs.to_train(place));
      const std::lock_guard lock(mutex);
      if (progress) progress(++ended, all);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      next = runs.size();
    }
  });
  if (error) std::rethrow_exception(error);
}

double figure_of(const ClaimRun& run, const ClaimComparison& comparison) {
  if (!run.history) return NAN;
  ModelledGains none;
  RunFigure figure;
  figure.last = comparison.last;
  return run_figure(metric_info(comparison.metric).key, figure, *run.history, none).value_or(NAN);
}

ClaimResult measure(const Claim& claim, std::size_t index, const ClaimRuns& runs) {
  const ClaimComparison& comparison = claim.comparisons[index];
  ClaimResult result{claim.name, static_cast<int>(index), settings_digest(claim), claim.steps, {}, {}};
  const auto value = [&](int run, int seed) {
    const RunConfig& config = claim.runs[run];
    return figure_of(runs.finished_run(with_seed(config, seed), claim.steps), comparison);
  };
  for (int seed = 0; seed < claim.seeds; ++seed) {
    result.values.push_back(value(comparison.against, seed));
    result.gaps.push_back(value(comparison.run, seed) - result.values.back());
  }
  return result;
}

std::string today() {
  const std::chrono::year_month_day date(std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
  return formatted("%04d-%02u-%02u", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                   static_cast<unsigned>(date.day()));
}

}  // namespace

ClaimResults try_claims(std::span<const Claim> claims, const std::function<void(int, int)>& progress) {
  ClaimRuns runs(claims);
  train_all(runs, progress);
  ClaimResults results{today(), counted(num_threads(), "thread", "threads") + ", " + kernels_here().text(), {}};
  for (const Claim& claim : claims)
    for (std::size_t i = 0; i < claim.comparisons.size(); ++i) results.results.push_back(measure(claim, i, runs));
  return results;
}

}  // namespace moescope
