// Counts expert choices by domain, byte and pair of experts, batch by batch. Legend: T tokens, E experts, K top_k, D
// domains of the data.
#pragma once

#include <vector>

#include "core/data/dataset.h"
#include "core/frame/frame.h"
#include "core/model/learner.h"

namespace moescope {

class SpecialisationCounter {
 public:
  // Adds the routing of the learner's last forward pass, which was on `batch`. Counts nothing while
  // telemetry.specialisation_every is 0.
  void add(const Batch& batch, const Learner<float>& learner);
  // Counts since the last call, per MoE layer, summed over `ranks`.
  std::vector<SpecialisationFrame> take(Ranks* ranks);

  // For checkpoints: the counts so far, summed over `ranks`, without resetting them; and the reverse, where rank 0
  // takes them all. Empty: nothing was counted.
  std::vector<SpecialisationFrame> snapshot(Ranks* ranks) const;
  void restore(std::vector<SpecialisationFrame> counts, Ranks* ranks);

 private:
  std::vector<SpecialisationFrame> counts_;  // together_EE: its upper triangle only
};

}  // namespace moescope
