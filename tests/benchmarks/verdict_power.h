// The power of a verdict: how large a difference it finds, after how many steps and beside how many noise twins.
//
// Each seed trains run A, three noise twins and a candidate in each recipe, and judges every candidate after several
// numbers of steps beside one, two and three twins. A difference counts as found in a seed if half the interval is
// smaller. The table has the steps from which on this holds, and those from which on the run is called worse, better or
// good enough, in 80 % of the seeds; the mean and the standard deviation of the gap over the seeds, and the median of
// half the interval, in per cent of the loss after the last step; and the verdicts there beside one twin. Before the
// last step, a verdict must have held as while a training goes on.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/findings/comparison/verdict.h"
#include "core/numerics/recipes.h"
#include "core/numerics/threads.h"
#include "core/training/engine/engine.h"
#include "tests/benchmarks/bench_measures.h"
#include "tests/support/engine_frames.h"

namespace moescope {

inline constexpr int kPowerTwins = 3;
inline constexpr std::array<double, 3> kPowerDifferences = {0.001, 0.0025, 0.01};  // shares of the loss
inline constexpr double kFoundShare = 0.8;  // share of the seeds in which a difference must be found

// learned: the router learns, the twins' weights are perturbed. seed: the same beside twins with other seeds.
// replayed: the candidates run the experts that run A chose. forced: all runs have forced balance.
enum class PowerKind { learned, seed, replayed, forced };
inline constexpr std::array<const char*, 4> kPowerKinds = {"learned", "seed", "replayed", "forced"};

struct PowerRequest {
  RunConfig config;
  std::vector<PowerKind> kinds = {PowerKind::learned, PowerKind::seed, PowerKind::replayed, PowerKind::forced};
  std::vector<Recipe> recipes = {
      Recipe::bf16, Recipe::fp8_deepseek_128, Recipe::mxfp8_rceil, Recipe::mxfp8_floor, Recipe::nvfp4, Recipe::mxfp4};
  std::vector<std::int64_t> steps = {150, 300, 600};
  bool experts_only = false;  // else all linear layers except the head have the recipe
  int seeds = 1000, candidates = 3;
  double seconds = 480;  // seeds that are in training at the end count with the steps that they have reached
};

struct PowerPlace {
  PowerKind kind;
  Recipe recipe;
  std::int64_t steps;
  int twins;
  auto operator<=>(const PowerPlace&) const = default;
};

struct PowerOutcome {
  double gap, half_width;  // shares of the loss; NaN: no interval
  Verdict verdict;
};
using PowerOutcomes = std::map<PowerPlace, std::vector<PowerOutcome>>;

struct PowerCandidate {
  PowerKind kind;
  Recipe recipe;
  std::size_t run;
};

// Runs that train on the same batches as the first, in as many engines as they need.
class PowerRuns {
 public:
  explicit PowerRuns(const std::vector<RunConfig>& configs) {
    constexpr std::size_t kBeside = kMaxRuns - 1;
    for (std::size_t next = 1; next < configs.size(); next += kBeside) {
      std::vector<Trainer> trainers;
      trainers.emplace_back(configs.front());
      for (std::size_t run = next; run < std::min(next + kBeside, configs.size()); ++run)
        trainers.emplace_back(configs[run]);
      engines_.push_back(std::make_unique<Engine>(std::move(trainers), EngineOptions{.array_bytes = 1 << 20}));
      const auto& histories = engines_.back()->histories();
      histories_.insert(histories_.end(), histories.begin() + (next > 1), histories.end());
    }
  }
  // Returns false if `is_late` became true before all runs had reached the step.
  bool train_until(std::int64_t step, const std::function<bool()>& is_late) {
    for (const auto& engine : engines_) {
      if (is_late()) return false;
      moescope::train_until(*engine, step);
    }
    return true;
  }
  const HistoryPtr& operator[](std::size_t run) const { return histories_[run]; }

 private:
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<HistoryPtr> histories_;
};

class VerdictPower {
 public:
  explicit VerdictPower(PowerRequest request) : request_(std::move(request)) {}

  // Trains seeds side by side, each on one thread.
  void measure() {
    const int workers = num_threads();
    set_num_threads(1);
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < workers; ++worker) threads.emplace_back([this] { work(); });
  }

  void print() const {
    std::printf("\n%d seeds, %d candidates, %s; intervals after %lld steps\n\n", done_.load(), request_.candidates,
                request_.experts_only ? "recipe in the routed experts" : "recipe in all linear layers except the head",
                static_cast<long long>(request_.steps.back()));
    std::printf(
        "| routing, twins | recipe | gap | interval | 0.1 %% | 0.25 %% | 1 %% | verdict | "
        "worse / better / good enough |\n|---|---|---|---|---|---|---|---|---|\n");
    for (const PowerKind kind : request_.kinds)
      for (const Recipe recipe : request_.recipes) print_row(kind, recipe);
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool is_late() const { return std::chrono::duration<double>(Clock::now() - start_).count() > request_.seconds; }

  void work() {
    for (int seed = next_++; seed < request_.seeds && !is_late(); seed = next_++) {
      for (const bool forced : {false, true}) measure_seed(request_.config.seed + seed, forced);
      done_ += !is_late();
    }
  }

  void measure_seed(std::int64_t seed, bool forced) {
    RunConfig first = request_.config;
    first.seed = seed;
    first.router.force_balance = forced;
    std::vector<RunConfig> configs{first};
    const auto add = [&configs](RunConfig config) {
      config.name = "run-" + std::to_string(configs.size());
      configs.push_back(std::move(config));
      return configs.size() - 1;
    };
    std::map<PowerKind, std::vector<std::size_t>> twins;
    std::vector<PowerCandidate> candidates;
    for (const PowerKind kind : request_.kinds) {
      if ((kind == PowerKind::forced) != forced) continue;
      const bool other_seed = kind == PowerKind::seed, replays = kind == PowerKind::replayed;
      for (int twin = 1; twin <= kPowerTwins; ++twin) {
        RunConfig config = first;
        (other_seed ? config.seed : config.perturbation) += other_seed ? 100'000 * twin : twin;
        twins[kind].push_back(replays && !twins[PowerKind::learned].empty()
                                  ? twins[PowerKind::learned][static_cast<std::size_t>(twin - 1)]
                                  : add(config));
      }
      for (const Recipe recipe : request_.recipes) {
        RunConfig config = first;
        config.perturbation = kPowerTwins + 1;  // without it, the recipe of run A would give run A
        config.router.replay = replays;
        config.precision.experts = recipe;
        if (!request_.experts_only)
          config.precision.shared_experts = config.precision.dense_ffn = config.precision.attention = recipe;
        candidates.push_back({kind, recipe, add(config)});
      }
    }
    if (candidates.empty()) return;
    PowerRuns runs(configs);
    for (const std::int64_t steps : request_.steps) {
      if (!runs.train_until(steps, [this] { return is_late(); })) return;
      for (const PowerCandidate& candidate : candidates) judge(runs, candidate, twins[candidate.kind], steps);
    }
  }

  void judge(const PowerRuns& runs, const PowerCandidate& candidate, const std::vector<std::size_t>& twins,
             std::int64_t steps) {
    std::vector<PairedRun> judging_twins;
    for (const std::size_t twin : twins) {
      judging_twins.push_back({runs[twin], candidate.kind != PowerKind::seed});
      const Judging judging{.candidates = request_.candidates, .goes_on = steps < request_.steps.back()};
      const Conclusion c = conclude(runs[0], {runs[candidate.run]}, judging_twins, judging, Metric::ce_loss);
      const double loss = static_cast<double>(c.matters) / kRelevantGap;
      const std::lock_guard guard(lock_);
      outcomes_[{candidate.kind, candidate.recipe, steps, static_cast<int>(judging_twins.size())}].push_back(
          {static_cast<double>(c.gap) / loss, static_cast<double>(c.half_width) / loss, c.verdict});
    }
  }

  const std::vector<PowerOutcome>& at(const PowerPlace& place) const {
    static const std::vector<PowerOutcome> kNone;
    const auto found = outcomes_.find(place);
    return found == outcomes_.end() ? kNone : found->second;
  }

  static double share_of(const std::vector<PowerOutcome>& outcomes,
                         const std::function<bool(const PowerOutcome&)>& counts) {
    if (outcomes.empty()) return 0;
    return static_cast<double>(std::ranges::count_if(outcomes, counts)) / static_cast<double>(outcomes.size());
  }

  // Returns the least numbers of steps from which on the share of the seeds is kFoundShare, beside one, two and three
  // twins: "600 / 300 / 300".
  std::string steps_for(PowerKind kind, Recipe recipe, const std::function<bool(const PowerOutcome&)>& counts) const {
    std::string text;
    for (int twins = 1; twins <= kPowerTwins; ++twins) {
      std::string steps = "–";
      for (auto step = request_.steps.rbegin(); step != request_.steps.rend(); ++step) {
        if (share_of(at({kind, recipe, *step, twins}), counts) < kFoundShare) break;
        steps = std::to_string(*step);
      }
      text += (twins > 1 ? " / " : "") + steps;
    }
    return text;
  }

  void print_row(PowerKind kind, Recipe recipe) const {
    const auto& outcomes = at({kind, recipe, request_.steps.back(), 1});
    if (outcomes.size() < 2) return;
    const double n = static_cast<double>(outcomes.size());
    double sum = 0, squares = 0;
    for (const PowerOutcome& outcome : outcomes) sum += outcome.gap;
    for (const PowerOutcome& outcome : outcomes) squares += std::pow(outcome.gap - sum / n, 2);
    std::printf("| %s | %s | %+.2f, %.2f |", kPowerKinds[static_cast<std::size_t>(kind)], recipe_info(recipe).name,
                100 * sum / n, 100 * std::sqrt(squares / (n - 1)));
    for (int twins = 1; twins <= kPowerTwins; ++twins) {
      std::vector<double> halves;
      for (const PowerOutcome& outcome : at({kind, recipe, request_.steps.back(), twins}))
        halves.push_back(std::isfinite(outcome.half_width) ? 100 * outcome.half_width : INFINITY);
      std::printf(twins > 1 ? " / %.2f" : " ±%.2f", median(halves));
    }
    for (const double difference : kPowerDifferences)
      std::printf(" | %s", steps_for(kind, recipe, [difference](const PowerOutcome& outcome) {
                             return outcome.half_width < difference;
                           }).c_str());
    const auto is_decided = [](const PowerOutcome& outcome) {
      return outcome.verdict == Verdict::worse || outcome.verdict == Verdict::better ||
             outcome.verdict == Verdict::equal;
    };
    std::printf(" | %s |", steps_for(kind, recipe, is_decided).c_str());
    const auto count = [&outcomes](Verdict verdict) {
      return static_cast<int>(std::ranges::count(outcomes, verdict, &PowerOutcome::verdict));
    };
    std::printf(" %d / %d / %d of %zu |\n", count(Verdict::worse), count(Verdict::better), count(Verdict::equal),
                outcomes.size());
  }

  const PowerRequest request_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<int> next_{0}, done_{0};
  std::mutex lock_;
  PowerOutcomes outcomes_;
};

}  // namespace moescope
