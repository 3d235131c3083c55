// The live changes that a lab has accepted, in their order, and the step before which each took effect: a run that
// joins later gets those of another run, and going back to a checkpoint undoes those made after it. Not locked: the lab
// does that.
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
  std::uint64_t id = 0;  // from 1 on, rises in the order in which they were accepted
  std::int64_t step = kNotYet;
  LiveChange change;
  Marker marker;  // but for its run and step

  static constexpr std::int64_t kNotYet = -1;  // accepted during a step, takes effect after it
};

// Which changes a run gets that joins later.
struct Inheritance {
  int run = 0;               // those of this run,
  std::uint64_t after = 0;   // after the one of this id, the last that its first settings contain,
  std::set<Setting> except;  // but for these, in which it differs on purpose
};

class ChangeLog {
 public:
  const PinnedChange& add(LiveChange change, Marker marker);
  void set_step(std::uint64_t id, std::int64_t step);  // nothing if the change has been undone
  std::vector<PinnedChange> inherited(const Inheritance& inheritance) const;

  // The checkpoint of `step` contains the changes up to the one of id `last`, 0: none.
  void note_checkpoint(std::int64_t step, std::uint64_t last) { last_before_[step] = last; }
  void forget_checkpoints_after(std::int64_t step) {
    last_before_.erase(last_before_.upper_bound(step), last_before_.end());
  }
  std::uint64_t last_before(std::int64_t step) const;
  void undo_after(std::int64_t step);  // what the checkpoint of `step` does not contain, and later checkpoints

 private:
  std::vector<PinnedChange> changes_;
  std::uint64_t last_id_ = 0;
  std::map<std::int64_t, std::uint64_t> last_before_;  // by checkpoint
};

}  // namespace moescope
