// The accepted live changes in their order, each with the step before which it took effect. A run that joins later
// inherits those of another run; going back to a checkpoint undoes later ones. Not thread-safe: LiveRuns locks it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/frame/frame.h"

namespace moescope {

// A live change and the step before which it takes effect.
struct PinnedChange {
  std::uint64_t id = 0;  // from 1, rises in the order of acceptance
  std::int64_t step = kNotYet;
  LiveChange change;
  Marker marker;  // without run and step

  static constexpr std::int64_t kNotYet = -1;  // accepted during a step; takes effect after it
};

// Selects the changes that a run inherits when it joins later.
struct Inheritance {
  int run = 0;               // inherits the changes of this run
  std::uint64_t after = 0;   // id of the last change that its first settings contain
  std::set<Setting> except;  // settings in which it differs on purpose
};

class ChangeLog {
 public:
  const PinnedChange& add(LiveChange change, Marker marker);
  void set_step(std::uint64_t id, std::int64_t step);  // does nothing if the change was undone
  std::vector<PinnedChange> inherited(const Inheritance& inheritance) const;

  // The checkpoint of `step` contains the changes up to the id `last`; 0: no changes.
  void note_checkpoint(std::int64_t step, std::uint64_t last) { last_before_[step] = last; }
  void forget_checkpoints_after(std::int64_t step) {
    last_before_.erase(last_before_.upper_bound(step), last_before_.end());
  }
  std::uint64_t last_before(std::int64_t step) const;
  void undo_after(std::int64_t step);  // undoes changes after that checkpoint, and forgets later checkpoints

 private:
  std::vector<PinnedChange> changes_;
  std::uint64_t last_id_ = 0;
  std::map<std::int64_t, std::uint64_t> last_before_;  // by step of the checkpoint
};

}  // namespace moescope
