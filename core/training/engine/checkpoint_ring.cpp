#include "core/training/engine/checkpoint_ring.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "core/training/checkpoint_folder.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

struct Entry {
  bool by_hand = false;
  std::map<int, CheckpointRing::Snapshot> runs;
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const auto& [run, snapshot] : runs) sum += snapshot->bytes();
    return sum;
  }
};
using Entries = std::map<std::int64_t, Entry>;

std::size_t bytes_of(const Entries& entries) {
  std::size_t sum = 0;
  for (const auto& [step, entry] : entries) sum += entry.bytes();
  return sum;
}

// Returns the checkpoint whose removal leaves the smallest gap relative to its age. Chooses the first or the newest
// only if there are no others, and one made by hand only if all others between these two were made by hand.
Entries::iterator least_missed(Entries& entries) {
  const double newest = entries.rbegin()->first;
  auto lowest = entries.end();
  std::pair<bool, double> least_loss;
  for (auto entry = std::next(entries.begin()); std::next(entry) != entries.end(); ++entry) {
    const double before = std::prev(entry)->first, after = std::next(entry)->first;
    const std::pair<bool, double> loss{entry->second.by_hand, (after - before) / (newest - before)};
    if (lowest != entries.end() && loss >= least_loss) continue;
    lowest = entry;
    least_loss = loss;
  }
  return lowest == entries.end() ? entries.begin() : lowest;
}

}  // namespace

struct CheckpointRing::State {
  std::string folder;
  mutable std::mutex mutex;
  std::condition_variable wake;
  Entries entries;
  bool changed = false, stop = false;
  std::string error;
  std::map<std::int64_t, Entry> written;  // checkpoints in the folder; used by the thread only
  std::thread thread;

  void sync_until_stopped();
  void sync(const Entries& wanted_entries);
  void write(std::int64_t step, const Entry& entry);
};

// A failed write is repeated with the next change; training continues.
void CheckpointRing::State::sync_until_stopped() {
  std::unique_lock lock(mutex);
  while (!stop) {
    wake.wait(lock, [this] { return changed || stop; });
    if (stop) return;
    const Entries wanted_entries = entries;
    changed = false;
    lock.unlock();
    std::string failure;
    try {
      sync(wanted_entries);
    } catch (const std::exception& failed) {
      failure = failed.what();
    }
    lock.lock();
    error = failure;
    wake.wait_for(lock, std::chrono::seconds(kSyncSeconds), [this] { return stop; });
  }
}

// Deletes checkpoints that are no longer wanted and writes missing ones. Then throws std::runtime_error if checkpoints
// had been removed from the folder.
void CheckpointRing::State::sync(const Entries& wanted_entries) {
  const std::size_t removed = std::erase_if(
      written, [this](const auto& saved) { return !fs::exists(fs::path(folder) / std::to_string(saved.first)); });
  for (auto [step, entry] : Entries(written)) {
    const auto wanted_entry = wanted_entries.find(step);
    if (wanted_entry != wanted_entries.end() && wanted_entry->second.runs == entry.runs) continue;
    remove_checkpoint(folder, step);
    written.erase(step);
  }
  for (const auto& [step, entry] : wanted_entries)
    if (!written.count(step)) write(step, entry);
  if (removed > 0)
    throw std::runtime_error(fmt::format("{}: {}{} removed while training; what is still in memory was written again",
                                         folder, removed, removed == 1 ? " checkpoint was" : " checkpoints were"));
}

void CheckpointRing::State::write(std::int64_t step, const Entry& entry) {
  fs::create_directories(folder);
  std::vector<RunToSave> runs;
  for (const auto& [run, snapshot] : entry.runs)
    runs.push_back(
        {snapshot->config.name, [&run_snapshot = *snapshot](const std::string& file) { run_snapshot.save(file); }});
  write_checkpoint(folder, step, runs);
  written[step] = entry;
}

CheckpointRing::CheckpointRing(std::string folder) : state_(std::make_unique<State>()) {
  state_->folder = std::move(folder);
  if (state_->folder.empty()) return;
  for (const std::int64_t step : checkpoint_steps(state_->folder)) remove_checkpoint(state_->folder, step);
  state_->thread = std::thread([state = state_.get()] { state->sync_until_stopped(); });
}

CheckpointRing::~CheckpointRing() {
  if (!state_->thread.joinable()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->wake.notify_one();
  }
  state_->thread.join();
  try {
    Entries remaining;
    for (const auto& [step, entry] : state_->entries)
      if (entry.by_hand) remaining.emplace(step, entry);
    // If there is only one checkpoint, nothing was trained.
    if (state_->entries.size() > 1) remaining.insert(*state_->entries.rbegin());
    state_->sync(remaining);
    fs::remove(state_->folder);  // if empty
  } catch (const std::exception&) {
    // The destructor cannot report an error.
  }
}

void CheckpointRing::keep(int run, Snapshot snapshot, bool by_hand, int at_most) {
  const std::lock_guard lock(state_->mutex);
  Entry& entry = state_->entries[snapshot->steps_taken];
  entry.by_hand = entry.by_hand || by_hand;
  entry.runs[run] = std::move(snapshot);
  while (state_->entries.size() > static_cast<std::size_t>(std::max(1, at_most)) ||
         (state_->entries.size() > 1 && bytes_of(state_->entries) > kMaxBytes))
    state_->entries.erase(least_missed(state_->entries));
  state_->changed = true;
  state_->wake.notify_one();
}

bool CheckpointRing::holds(std::int64_t step) const {
  const std::lock_guard lock(state_->mutex);
  return state_->entries.count(step) > 0;
}

CheckpointRing::Snapshot CheckpointRing::find(std::int64_t step, int run) const {
  const std::lock_guard lock(state_->mutex);
  const auto entry = state_->entries.find(step);
  if (entry == state_->entries.end()) return nullptr;
  const auto found = entry->second.runs.find(run);
  return found == entry->second.runs.end() ? nullptr : found->second;
}

std::vector<KeptCheckpoint> CheckpointRing::list() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<KeptCheckpoint> all;
  for (const auto& [step, entry] : state_->entries) {
    all.push_back({step, entry.bytes(), entry.by_hand, {}});
    for (const auto& [run, snapshot] : entry.runs) all.back().runs.push_back(run);
  }
  return all;
}

void CheckpointRing::forget_after(std::int64_t step) {
  const std::lock_guard lock(state_->mutex);
  state_->entries.erase(state_->entries.upper_bound(step), state_->entries.end());
  state_->changed = true;
  state_->wake.notify_one();
}

void CheckpointRing::forget_run(int run) {
  const std::lock_guard lock(state_->mutex);
  for (auto& [step, entry] : state_->entries) entry.runs.erase(run);
  std::erase_if(state_->entries, [](const auto& saved) { return saved.second.runs.empty(); });
  state_->changed = true;
  state_->wake.notify_one();
}

std::string CheckpointRing::error() const {
  const std::lock_guard lock(state_->mutex);
  return state_->error;
}

}  // namespace moescope
