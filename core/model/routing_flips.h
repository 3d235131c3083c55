// Finds tokens that two runs route to different experts: keeps the routing of a step in compact form and compares it
// token by token.
//
// Legend: T tokens, K top_k, E experts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/frame/frame.h"

namespace moescope {

template <class T>
class Transformer;

// Routing of the last step by one MoE layer.
struct LayerRouting {
  int layer = 0;  // among all layers
  int n_experts = 0, top_k = 0;
  std::span<const std::int32_t> ids_TK;
  std::span<const float> margin_T;  // K-th minus (K+1)-th biased score; NaN if no other expert could be chosen
};

// Returns views into the model's last forward pass, valid until the next one.
std::vector<LayerRouting> routing_of(const Transformer<float>& model);

struct KeptRouting {
  int layer = 0;
  int n_experts = 0, top_k = 0;
  std::vector<std::uint16_t> ids_TK;  // experts of each token, ascending
  std::vector<float> margin_T;
};

std::vector<KeptRouting> keep_routing(const std::vector<LayerRouting>& routing);
// Returns the flips of the layers that can be compared (see FlipFrame), with the margins of the reference.
std::vector<FlipFrame> routing_flips(const std::vector<KeptRouting>& reference, const std::vector<KeptRouting>& other);
// Returns the share of the tokens whose experts differ in at least one layer; kNoValue if no layer can be compared.
float flipped_in_any_layer(const std::vector<KeptRouting>& reference, const std::vector<KeptRouting>& other);

// Run A's routing of past steps, for runs that join later. Beyond the budget every second entry of the older half is
// dropped.
class RoutingArchive {
 public:
  explicit RoutingArchive(std::size_t budget_bytes = std::size_t{64} << 20) : budget_(budget_bytes) {}
  void put(std::int64_t step, std::vector<KeptRouting> routing);  // forgets `step` and later steps first
  const std::vector<KeptRouting>* find(std::int64_t step) const;  // nullptr: not kept
  std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::int64_t step;
    std::uint64_t ordinal;
    std::vector<KeptRouting> routing;
  };
  void thin();

  std::size_t budget_;
  std::size_t bytes_ = 0;
  std::uint64_t next_ordinal_ = 0;
  std::vector<Entry> entries_;  // in the order of their steps
};

}  // namespace moescope
