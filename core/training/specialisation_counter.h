// Counts who chooses which expert, batch by batch. Legend: T tokens, E experts, K top_k, D domains of the data.
#pragma once

#include <vector>

#include "core/data/dataset.h"
#include "core/model/learner.h"
#include "core/telemetry/frame/frame.h"

namespace moescope {

class SpecialisationCounter {
 public:
  // The routing of the learner's last forward pass, which was on `batch`. Nothing is counted while
  // telemetry.specialisation_every is 0.
  void add(const Batch& batch, const Learner<float>& learner);
  // What was counted since the last call, per MoE layer, by all `ranks` together.
  std::vector<SpecialisationFrame> take(Ranks* ranks);

  // For a checkpoint: what was counted since then, which goes on counting, by all `ranks` together, and back again,
  // where rank 0 takes it all. Empty: nothing was counted.
  std::vector<SpecialisationFrame> snapshot(Ranks* ranks) const;
  void restore(std::vector<SpecialisationFrame> counts, Ranks* ranks);

 private:
  std::vector<SpecialisationFrame> counts_;  // together_EE: its upper triangle only
};

}  // namespace moescope
