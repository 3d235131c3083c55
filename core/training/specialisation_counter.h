// Counts over several batches how often each expert is chosen, by domain and by byte, and how often two experts are
// chosen for the same token. Legend: T tokens, E experts, K top_k, D domains of the data.
#pragma once

#include <vector>

#include "core/frame/frame.h"
#include "core/model/learner.h"
#include "core/model/text/dataset.h"

namespace moescope {

class SpecialisationCounter {
 public:
  // Adds the routing of the learner's last forward pass, which must have been on `batch`. Counts nothing if
  // telemetry.specialisation_every is 0.
  void add(const Batch& batch, const Learner<float>& learner);
  // Returns the counts since the last call, per MoE layer, summed over `ranks`.
  std::vector<SpecialisationFrame> take(Ranks* ranks);

  // For checkpoints: snapshot() returns the present counts, summed over `ranks`, without resetting them; empty if
  // nothing was counted. restore() gives all counts to rank 0.
  std::vector<SpecialisationFrame> snapshot(Ranks* ranks) const;
  void restore(std::vector<SpecialisationFrame> counts, Ranks* ranks);

 private:
  std::vector<SpecialisationFrame> counts_;  // together_EE: upper triangle only
};

}  // namespace moescope
