// What all ranks know together about a step, for the telemetry of the one that writes it. Without ranks, what this
// process knows. All collective.
#pragma once

#include <vector>

#include "core/model/transformer.h"

namespace moescope {

// A router's arrays over the tokens of the whole batch, on every rank.
class WholeRouter {
 public:
  WholeRouter(const RouterActivations<float>& here, const BatchPart& part, int n_experts, int top_k);
  const RouterActivations<float>& get() const { return part_.ranks ? whole_ : here_; }

 private:
  void gather(const float* here, std::size_t width, std::vector<float>& all, float*& view) const;

  const RouterActivations<float>& here_;
  const BatchPart& part_;
  RouterActivations<float> whole_;
  std::vector<float> logits_, scores_, lse_, mix_, margin_;
};

// Quantization statistics of each layer, then the head's, over all ranks: of what each has a part of the sum, of what
// all have alike rank 0's.
std::vector<LayerSums> gather_quant_sums(const Transformer<float>& model);

// What the all-to-alls of all ranks moved since this was asked last; ranks = 0 without.
WireFrame gather_wire(Ranks* ranks);

}  // namespace moescope
