// The checkpoints to which runs can go back: a bounded number in memory, and the same in a folder, so that a crash
// leaves them.
//
// Near the newest step they lie close together, farther back wider apart; the first and those made by hand are the last
// to go. The folder is brought up to date by a thread of its own, kSyncSeconds apart at most, as
// FOLDER/<step>/<run name>.safetensors (checkpoint_folder.h). All methods may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/training/trainer_snapshot.h"

namespace moescope {

struct KeptCheckpoint {
  std::int64_t step = 0;  // next step to take from there
  std::size_t bytes = 0;  // in memory, of all runs; a file on disk is as large
  bool by_hand = false;   // asked for by a person
  std::vector<int> runs;  // RunInfo::run
};

class CheckpointRing {
 public:
  using Snapshot = std::shared_ptr<const TrainerSnapshot>;
  static constexpr std::size_t kMaxBytes = std::size_t{512} << 20;  // in memory; the newest is kept whatever its size
  static constexpr int kSyncSeconds = 5;

  explicit CheckpointRing(std::string folder);  // empty: memory only. What an earlier ring left there goes.
  ~CheckpointRing();                            // leaves the newest and those made by hand in the folder

  // Of a run at a step that has been kept for others, too, or not yet. `at_most` checkpoints stay.
  void keep(int run, Snapshot snapshot, bool by_hand, int at_most);
  bool holds(std::int64_t step) const;
  Snapshot find(std::int64_t step, int run) const;  // nullptr: not kept
  std::vector<KeptCheckpoint> list() const;         // steps rise
  void forget_after(std::int64_t step);
  void forget_run(int run);
  std::string error() const;  // of the folder: full, removed meanwhile; empty: none

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
