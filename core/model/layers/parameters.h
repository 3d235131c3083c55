// All weights of the model in one arena; gradients and AdamW's moments are in three more arenas with an equal layout.
// The first moment of the matrices that Muon updates is their momentum; the second stays zero.
//
// Legend: D dim, Dl latent_dim, F hidden width of a feed-forward, E experts, H heads. Weights are [out, in]. Names are
// TorchTitan's ("layers.1.moe.experts.w1"), except for those of the shared experts' gate and of latent experts. w1 and
// w3 of a feed-forward (of each expert) are side by side, so that a GEMM reads both as one [2F, D] matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/config/run_config.h"
#include "core/model/layers/arena.h"

namespace moescope {

struct ParameterTensor {
  std::string name;
  std::vector<std::size_t> shape;  // [out, in], [D], or [E, out, in]
  std::size_t offset = 0;          // position of the first element in the arena
  std::size_t outer_stride = 0;    // from expert to expert if there are three dimensions
  double init_std = 0;             // 0: fill with ones
  double init_cut = 0;             // draw again beyond +-init_cut standard deviations; 0: no limit

  std::size_t elements() const;
  bool is_of_experts() const { return shape.size() == 3; }
  std::size_t blocks() const { return is_of_experts() ? shape[0] : 1; }  // number of contiguous runs of elements
  std::size_t block_elements() const { return elements() / blocks(); }
  // Returns the elements of a block in an arena.
  template <class T>
  std::span<T> block_in(std::span<T> arena, std::size_t block) const {
    return arena.subspan(offset + block * outer_stride, block_elements());
  }
  bool is_gate() const { return name.ends_with(".router.gate.weight"); }
};

// Contiguous elements: the part of one expert in a tensor, or the whole of any other tensor.
struct ParameterRun {
  std::size_t offset = 0, count = 0;
  int expert = -1;  // -1 if not of a routed expert
  const ParameterTensor* tensor = nullptr;

  // Returns the elements in an arena.
  template <class T>
  std::span<T> in(std::span<T> arena) const {
    return arena.subspan(offset, count);
  }
};

// Returns the tensors in TorchTitan's order and the number of elements of the whole arena in `arena_size`.
std::vector<ParameterTensor> parameter_layout(const ModelConfig& config, std::size_t& arena_size);

// Returns the elements of one tensor in row-major order, from an arena with the layout of parameter_layout().
template <class T>
std::vector<T> gather_tensor(const ParameterTensor& tensor, std::type_identity_t<std::span<const T>> arena) {
  std::vector<T> values;
  values.reserve(tensor.elements());
  for (std::size_t b = 0; b < tensor.blocks(); ++b) {
    const auto block = tensor.block_in(arena, b);
    values.insert(values.end(), block.begin(), block.end());
  }
  return values;
}

template <class T>
struct FeedForwardView {
  Matrix<T> w13;  // [2F, D]: w1, then w3; for E experts [E 2F, D]
  Matrix<T> w2;   // [D, F]; for E experts [E D, F]
};

template <class T>
struct LayerView {
  std::span<T> attention_norm, ffn_norm;      // [D]
  std::span<T> q_norm, kv_norm, latent_norm;  // [Q], [R], [Dl]
  Matrix<T> wq, wq_a, wq_b;                   // wq for a plain query, the others for low rank
  Matrix<T> wkv_a, wkv_b, wo;
  Matrix<T> gate;                    // [E, D]
  Matrix<T> shared_gate;             // [1, D]
  Matrix<T> latent_down, latent_up;  // [Dl, D], [D, Dl]
  FeedForwardView<T> dense, experts, shared;
};

template <class T>
struct ModelView {
  Matrix<T> embedding, output;  // [V, D]
  std::span<T> norm;            // [D]
  std::vector<LayerView<T>> layers;
};

template <class T>
class Parameters {
 public:
  explicit Parameters(const ModelConfig& config);

  // Initialises as TorchTitan does, with one random stream per tensor.
  void initialise(std::int64_t seed);
  // Moves every weight up or down by a unit in the last place of a float. `perturbation` selects the directions; 0: no
  // weight moves.
  void perturb(std::int64_t perturbation);

  const std::vector<ParameterTensor>& tensors() const { return tensors_; }
  const ParameterTensor& tensor(std::string_view name) const;
  std::size_t size() const { return size_; }  // elements of each arena, including padding (always zero)
  std::size_t count() const;                  // number of trained parameters
  std::vector<ParameterRun> runs() const;     // all runs, tensors in order

  std::span<T> weights, gradients, moment1, moment2;  // the arenas
  ModelView<T> weight_view, gradient_view;

  // Copy the elements of one tensor, in row-major order, from or to one of the four arenas.
  std::vector<T> gather(const ParameterTensor& tensor, std::span<const T> arena) const {
    return gather_tensor<T>(tensor, arena);
  }
  void scatter(const ParameterTensor& tensor, std::span<const T> values, std::span<T> arena);

 private:
  std::size_t size_ = 0;
  std::vector<ParameterTensor> tensors_;
  Arena<T> memory_;
};

}  // namespace moescope
