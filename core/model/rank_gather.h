// Collects the values for the telemetry of a step from all ranks, for the rank that writes it. Without ranks these are
// the values of this process. All calls are collective.
#pragma once

#include <vector>

#include "core/model/transformer.h"

namespace moescope {

// A router's arrays for the tokens of the whole batch, on every rank.
class WholeRouter {
 public:
  WholeRouter(const RouterActivations<float>& own_routing, const BatchPart& part);
  const RouterActivations<float>& get() const { return part_.ranks ? whole_ : own_routing_; }

 private:
  const RouterActivations<float>& own_routing_;
  const BatchPart& part_;
  RouterActivations<float> whole_;
  std::vector<float> logits_, scores_, lse_, mix_, margin_, cutoff_;
};

// Returns the quantization statistics of each layer, then the head's, over all ranks: the sum if each rank has a part
// of the operand, rank 0's statistics if all ranks have the same operand.
std::vector<LayerSums> gather_quant_sums(const Transformer<float>& model);

// Returns bytes and time of all ranks' all-to-alls since the last call. WireFrame::ranks is 0 if `ranks` is nullptr.
WireFrame gather_wire(Ranks* ranks);

}  // namespace moescope
