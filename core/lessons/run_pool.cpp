#include "core/lessons/run_pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "core/config/config_toml.h"
#include "core/numerics/threads.h"
#include "core/training/engine/engine.h"

namespace moescope {
namespace {

std::string pool_key(RunConfig config, std::int64_t steps) {
  config.name = "run";
  return fmt::format("{}\n{}", steps, to_toml(config));
}

void train_pooled(PooledRun& run, std::size_t array_bytes, const std::function<bool()>& is_wanted) {
  try {
    std::vector<Trainer> trainer;
    trainer.emplace_back(run.config);
    Engine engine(std::move(trainer), {.array_bytes = array_bytes});
    EngineObserver nobody;
    engine.train([&] { return engine.next_step() < run.steps && !engine.trouble() && is_wanted(); }, nobody);
    engine.sink().flush();
    if (const std::optional<Trouble>& trouble = engine.trouble()) {
      run.trouble = trouble->text();
      run.failed = trouble->within_step;
    } else if (engine.next_step() < run.steps) {
      run.trouble = "run " + run.config.name + ": stopped";
    } else {
      run.history = engine.histories().front();
    }
  } catch (const std::exception& error) {
    run.trouble = "run " + run.config.name + ": " + error.what();
    run.failed = true;
  }
}

}  // namespace

void RunPool::add(const RunConfig& config, std::int64_t steps) {
  runs_.try_emplace(pool_key(config, steps), PooledRun{config, steps});
}

const PooledRun& RunPool::find(const RunConfig& config, std::int64_t steps) const {
  return runs_.at(pool_key(config, steps));
}

void RunPool::train(const std::function<void(int, int)>& progress, const std::function<bool()>& is_wanted) {
  std::vector<PooledRun*> order;
  for (auto& [key, run] : runs_) order.push_back(&run);
  // The longest trainings come first, so that none of them runs alone at the end.
  std::ranges::stable_sort(order, std::greater(),
                           [](const PooledRun* run) { return parameter_count(run->config) * run->steps; });
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  int ended = 0;
  const int all = to_int(order.size());
  parallel_for(all, [&](int) {
    train_pooled(*order[next++], array_bytes_, is_wanted);
    const std::lock_guard lock(mutex);
    if (progress) progress(++ended, all);
  });
}

void RunPool::require_no_failure() const {
  for (const auto& [key, run] : runs_)
    if (run.failed) throw std::runtime_error(run.trouble);
}

}  // namespace moescope
