#include "core/training/engine/sweep.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "core/comparison/comparison.h"
#include "core/comparison/operand_sqnr.h"
#include "core/comparison/verdict.h"
#include "core/config/config_check.h"
#include "core/config/config_difference.h"
#include "core/config/config_field.h"
#include "core/numerics/threads.h"
#include "core/recording/frame_sink.h"
#include "core/training/engine/candidate_groups.h"
#include "core/training/engine/lock_step.h"
#include "core/training/engine/outcomes.h"

namespace moescope {
namespace {

std::size_t grid_size(std::span<const SweepAxis> axes) {
  std::size_t points = 1;
  for (const SweepAxis& axis : axes) points = std::min(points * axis.values.size(), kMostSweepRuns + 1);
  return points;
}

// The place on each axis of a point of the grid; the last axis changes fastest.
std::vector<std::size_t> places_of(std::size_t point, std::span<const SweepAxis> axes) {
  std::vector<std::size_t> places(axes.size());
  for (std::size_t a = axes.size(); a-- > 0; point /= axes[a].values.size()) places[a] = point % axes[a].values.size();
  return places;
}

RunConfig config_of(const RunConfig& base, std::size_t point, std::span<const SweepAxis> axes) {
  RunConfig config = base;
  const std::vector<std::size_t> places = places_of(point, axes);
  for (std::size_t a = 0; a < axes.size(); ++a) axes[a].field->set(config, axes[a].values[places[a]]);
  return config;
}

bool has_lost_its_loss(const History& history) {
  const StepRange taken = history.steps();
  return !taken.empty() && !std::isfinite(history.value_at(Metric::ce_loss, kWholeRun, taken.last));
}

class Sweep {
 public:
  Sweep(std::vector<SweepRun>& runs, std::int64_t steps, const std::function<bool(const SweepProgress&)>& go_on)
      : runs_(runs), steps_(steps), go_on_(go_on) {
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (!runs[i].history) waiting_.push_back(i);
    progress_.runs = static_cast<int>(runs.size());
    progress_.ended = static_cast<int>(runs.size() - waiting_.size());
  }

  bool train() {
    int workers = std::min<int>(static_cast<int>(waiting_.size()), kMaxRuns);
    while (workers > 1 && threads_per_job(workers) == 0) --workers;
    if (workers > 0) side_by_side(workers, [this](int) { work(); });
    if (error_) std::rethrow_exception(error_);
    return !ended_;
  }

 private:
  void work() {
    while (const std::optional<std::size_t> next = take()) {
      SweepRun& run = runs_[*next];
      try {
        run.history = train(run);
      } catch (const std::exception& problem) {
        const std::lock_guard lock(mutex_);
        ended_ = true;
        if (!error_) error_ = std::make_exception_ptr(std::runtime_error(run.config.name + ": " + problem.what()));
        return;
      }
    }
  }

  std::optional<std::size_t> take() {
    const std::lock_guard lock(mutex_);
    if (ended_ || next_ == waiting_.size()) return std::nullopt;
    return waiting_[next_++];
  }

  // nullptr: it was ended before its time.
  HistoryPtr train(const SweepRun& run) {
    std::vector<Trainer> trainers;
    trainers.emplace_back(run.config);
    LockStep lock_step(std::move(trainers));
    FrameSink sink(run.recording, kQueueArrayBytes);
    const HistoryPtr history = sink.add_run(run_info(run.config, 0, lock_step.data().domains()));
    for (std::int64_t step = 0; step < steps_; ++step) {
      bool lost = false;
      lock_step.step([&](TelemetryFrame frame) {
        lost = loss_is_not_finite(frame);
        sink.publish(std::move(frame));
        return true;
      });
      if (lost) sink.publish(Marker{0, step, "event", "the loss is NaN or infinite"});
      if (std::string problem = sink.error(); !problem.empty()) throw std::runtime_error(problem);
      const bool last = lost || step + 1 == steps_;
      if (!tell(steps_ - step - 1, last) && !last) return nullptr;
      if (last) break;
    }
    sink.flush();
    return history;
  }

  // `left`: steps that a run which has ended need not take any more.
  bool tell(std::int64_t left, bool last) {
    using Clock = std::chrono::steady_clock;
    const std::lock_guard lock(mutex_);
    ++taken_;
    if (taken_ == 1) begin_ = Clock::now();  // the first step fetches memory and code
    if (last) ++progress_.ended, spared_ += left;
    const double all = static_cast<double>(waiting_.size()) * static_cast<double>(steps_);
    const double done = static_cast<double>(taken_ + spared_);
    progress_.share = done / all;
    if (taken_ > 1) {
      const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
      progress_.seconds_left = (all - done) * seconds / static_cast<double>(taken_ - 1);
    }
    if (!go_on_(progress_)) ended_ = true;
    return !ended_;
  }

  std::vector<SweepRun>& runs_;
  const std::int64_t steps_;
  const std::function<bool(const SweepProgress&)>& go_on_;
  std::vector<std::size_t> waiting_;  // runs to train

  std::mutex mutex_;  // of all below
  std::size_t next_ = 0;
  std::int64_t taken_ = 0, spared_ = 0;  // steps
  std::chrono::steady_clock::time_point begin_;
  SweepProgress progress_;
  bool ended_ = false;  // before its time
  std::exception_ptr error_;
};

// `inside`: of the interval.
SeedMean mean_of(std::vector<double> values, double inside = 0.95) {
  SeedMean found;
  std::erase_if(values, [](double value) { return std::isnan(value); });
  const auto n = static_cast<double>(values.size());
  if (values.empty()) return found;
  found.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (values.size() < 2) return found;
  double squares = 0;
  for (const double value : values) squares += (value - found.mean) * (value - found.mean);
  found.half = student_quantile(n - 1, inside) * std::sqrt(squares / (n - 1) / n);
  return found;
}

// What is compared of one run; NaN: not known.
struct Measured {
  double loss = kNoValue, val_loss = kNoValue, max_vio = kNoValue, tokens_per_s = kNoValue;
  double worst_sqnr = kNoValue, mean_sqnr = kNoValue;
};

Measured measured(const SweepRun& run, std::int64_t steps) {
  if (!run.history || has_lost_its_loss(*run.history)) return {};
  const StepRange last{std::max<std::int64_t>(0, steps - kOutcomeSteps), steps - 1};
  const RunFigures figures = run_figures(*run.history, last);
  return {static_cast<double>(figures.mean_loss),
          static_cast<double>(run.history->value_at(Metric::val_loss, kWholeRun, last.last)),
          static_cast<double>(figures.max_vio), static_cast<double>(figures.tokens_per_s)};
}

// Of the runs of one seed, the first of them `first`, beside each other: `points` of them.
void add_sqnr(std::span<const SweepRun> runs, std::int64_t steps, std::span<Measured> found) {
  std::vector<HistoryPtr> histories;
  std::vector<Measured*> of;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (runs[i].history) histories.push_back(runs[i].history), of.push_back(&found[i]);
  if (histories.empty() || !runs.front().history) return;
  const std::vector<OperandSqnr> sqnr = operand_sqnr(histories, steps - 1);
  for (std::size_t i = 0; i < of.size(); ++i)
    of[i]->worst_sqnr = static_cast<double>(sqnr[i].worst_db), of[i]->mean_sqnr = static_cast<double>(sqnr[i].mean_db);
}

// Decided by the settings of all runs, so that every gap is of the same loss.
bool all_validate(std::span<const SweepRun> runs, std::int64_t steps) {
  return std::ranges::all_of(runs, [=](const SweepRun& run) {
    const int every = run.config.telemetry.validation_every;
    return every > 0 && every < steps;
  });
}

}  // namespace

SweepAxis parse_sweep_axis(const std::string& text) {
  const auto refuse = [&](const std::string& why) { throw std::runtime_error(text + ": " + why); };
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) refuse("expected KEY=VALUE,VALUE,..., such as router.top_k=1,2,4");
  const std::string key = text.substr(0, equals);
  SweepAxis axis{find_field(key), {}};
  if (!axis.field) refuse("no such key, did you mean " + nearest_key(key) + "?");
  if (key == "seed") refuse("seeds are no axis: say how many of them each point gets");
  std::istringstream list(text.substr(equals + 1));
  for (std::string value; std::getline(list, value, ',');) {
    try {
      axis.values.push_back(parse_value(*axis.field, value));
    } catch (const std::invalid_argument& problem) {
      refuse(key + ' ' + problem.what());
    }
    if (const std::string problem = check_field(*axis.field, axis.values.back()); !problem.empty())
      refuse(key + ' ' + problem);
    if (std::ranges::count(axis.values, axis.values.back()) > 1) refuse(value + " is there twice");
  }
  if (axis.values.empty()) refuse("no value of " + key);
  return axis;
}

std::vector<SweepRun> sweep_runs(const RunConfig& base, std::span<const SweepAxis> axes, int seeds,
                                 const std::string& recording) {
  for (std::size_t a = 0; a < axes.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (axes[a].field == axes[b].field) throw std::runtime_error(axes[a].field->key + " is given twice");
  const std::size_t points = grid_size(axes);
  if (points * static_cast<std::size_t>(seeds) > kMostSweepRuns)
    throw std::runtime_error("the grid has more than " + std::to_string(kMostSweepRuns) + " runs");
  std::vector<SweepRun> runs;
  std::vector<RunConfig> named;
  for (int seed = 0; seed < seeds; ++seed) {
    for (std::size_t point = 0; point < points; ++point) {
      RunConfig config = config_of(base, point, axes);
      config.seed = base.seed + seed;
      if (!difference(base, config).empty()) config.name = free_name(twin_name(base, config), named);
      std::string problems;
      for (const ConfigProblem& problem : validate(config)) problems += (problems.empty() ? "" : "\n") + problem.text();
      if (!problems.empty()) throw std::runtime_error(config.name + ": " + problems);
      named.push_back(config);
      runs.push_back(
          {static_cast<int>(point), std::move(config), path_of_group(recording, static_cast<int>(runs.size()) + 1)});
    }
  }
  return runs;
}

bool train_sweep(std::vector<SweepRun>& runs, std::int64_t steps,
                 const std::function<bool(const SweepProgress&)>& go_on) {
  return Sweep(runs, steps, go_on).train();
}

std::vector<SweepPoint> sweep_points(std::span<const SweepRun> runs, std::span<const SweepAxis> axes,
                                     std::int64_t steps) {
  const std::size_t n = grid_size(axes);
  std::vector<Measured> of_runs;
  for (const SweepRun& run : runs) of_runs.push_back(measured(run, steps));
  for (std::size_t seed = 0; seed + n <= runs.size(); seed += n)
    add_sqnr(runs.subspan(seed, n), steps, std::span(of_runs).subspan(seed, n));
  const bool by_validation = all_validate(runs, steps);
  double Measured::*const compared = by_validation ? &Measured::val_loss : &Measured::loss;
  const double inside = 1 - 0.05 / static_cast<double>(std::max<std::size_t>(1, n - 1));
  std::vector<SweepPoint> points(n);
  for (std::size_t point = 0; point < n; ++point) {
    SweepPoint& found = points[point];
    const std::vector<std::size_t> places = places_of(point, axes);
    for (std::size_t a = 0; a < axes.size(); ++a) found.values.push_back(to_string(axes[a].values[places[a]]));
    std::vector<double> gaps;
    for (std::size_t i = point; i < runs.size(); i += n) {
      found.ended += runs[i].history != nullptr;
      found.lost += runs[i].history && has_lost_its_loss(*runs[i].history);
      found.losses.push_back(of_runs[i].loss);
      if (point > 0) gaps.push_back(of_runs[i].*compared - of_runs[i - point].*compared);
    }
    const auto over_seeds = [&](double Measured::*figure) {
      std::vector<double> values;
      for (std::size_t i = point; i < runs.size(); i += n) values.push_back(of_runs[i].*figure);
      return mean_of(std::move(values));
    };
    found.loss = over_seeds(&Measured::loss);
    found.val_loss = over_seeds(&Measured::val_loss);
    found.max_vio = over_seeds(&Measured::max_vio);
    found.tokens_per_s = over_seeds(&Measured::tokens_per_s);
    found.worst_sqnr = over_seeds(&Measured::worst_sqnr);
    found.mean_sqnr = over_seeds(&Measured::mean_sqnr);
    found.gap = mean_of(std::move(gaps), inside);
    found.by_validation = by_validation;
  }
  return points;
}

}  // namespace moescope
