// The checkpoints that runs can be rewound to: a bounded number in memory, with a copy of each in a folder, so that
// they survive a crash.
//
// They are close together near the newest step and farther apart before. The first one and those made by hand are
// dropped last. A separate thread updates the folder at most every kSyncSeconds, as FOLDER/<step>/<run
// name>.safetensors (checkpoint_folder.h). All methods may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/training/trainer.h"

namespace moescope {

struct KeptCheckpoint {
  std::int64_t step = 0;  // next step to take from there
  std::size_t bytes = 0;  // in memory, all runs; about the size of the files
  bool by_hand = false;   // requested by the user
  std::vector<int> runs;  // RunInfo::run
};

class CheckpointRing {
 public:
  using Snapshot = std::shared_ptr<const TrainerSnapshot>;
  static constexpr std::size_t kMaxBytes = std::size_t{512} << 20;  // in memory; the newest is kept whatever its size
  static constexpr int kSyncSeconds = 5;

  explicit CheckpointRing(std::string folder);  // empty: memory only. Deletes checkpoints of an earlier ring.
  ~CheckpointRing();                            // keeps the newest and those made by hand in the folder

  // Adds a run's snapshot to the checkpoint of its step, which is created if necessary. Keeps at most `at_most`
  // checkpoints.
  void keep(int run, Snapshot snapshot, bool by_hand, int at_most);
  bool holds(std::int64_t step) const;
  Snapshot find(std::int64_t step, int run) const;  // nullptr: not kept
  std::vector<KeptCheckpoint> list() const;         // in the order of their steps
  void forget_after(std::int64_t step);
  void forget_run(int run);
  std::string error() const;  // error of the folder: disk full, folder removed; empty: no error

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
