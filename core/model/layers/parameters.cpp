#include "core/model/layers/parameters.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "core/numerics/rng.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr std::size_t kAlign = 16;  // elements: a cache line of float

// Lays out the tensors, in TorchTitan's order, and makes the views of an arena, which is empty if there is no memory
// yet.
template <class T>
class Layout {
 public:
  Layout(const ModelConfig& config, std::span<T> arena) : c_(config), arena_(arena) {
    view.embedding = add_matrix("tok_embeddings.weight", c_.vocab, c_.dim, 1.0);
    for (int layer = 0; layer < c_.n_layers; ++layer) add_layer(layer);
    view.norm = add_gains("norm.weight", c_.dim);
    view.output = add_matrix("output.weight", c_.vocab, c_.dim, std_of_inputs(c_.dim));
    tensors.back().init_cut = 3;  // draws of the head are limited to three standard deviations
  }

  ModelView<T> view;
  std::vector<ParameterTensor> tensors;
  std::size_t elements = 0;  // of the arena

 private:
  static double std_of_inputs(int inputs) { return 1.0 / std::sqrt(inputs); }
  static std::size_t round_up(std::size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }
  T* at(std::size_t offset) const { return arena_.empty() ? nullptr : arena_.data() + offset; }

  // Returns the offset.
  std::size_t add(std::string name, std::vector<std::size_t> shape, double std) {
    ParameterTensor& tensor =
        tensors.emplace_back(ParameterTensor{std::move(name), std::move(shape), elements, 0, std});
    tensor.outer_stride = tensor.block_elements();
    elements += round_up(tensor.elements());
    return tensor.offset;
  }
  std::span<T> add_gains(std::string name, int count) {
    const std::size_t offset = add(std::move(name), {size(count)}, 0);
    return arena_.empty() ? arena_ : arena_.subspan(offset, size(count));
  }
  Matrix<T> add_matrix(std::string name, int rows, int cols, double std) {
    return {at(add(std::move(name), {size(rows), size(cols)}, std)), rows, cols};
  }

  void add_layer(int layer) {
    // The standard deviation is 0.02 for most linear layers. As in TorchTitan, it decreases with depth for wo, w2, w3
    // and the gate.
    const double depth_std = 0.02 / std::sqrt(2.0 * (layer + 1));
    const std::string prefix = fmt::format("layers.{}.", layer);
    LayerView<T>& v = view.layers.emplace_back();
    v.attention_norm = add_gains(prefix + "attention_norm.weight", c_.dim);
    add_attention(prefix + "attention.", depth_std, v);
    v.ffn_norm = add_gains(prefix + "ffn_norm.weight", c_.dim);
    if (layer < c_.n_dense_layers) {
      v.dense = add_feed_forward(prefix + "feed_forward.", 0, c_.dim, c_.dense_inter, depth_std);
      return;
    }
    v.gate = add_matrix(prefix + "moe.router.gate.weight", c_.n_experts, c_.dim, depth_std);
    add_experts(prefix + "moe.", depth_std, v);
    if (c_.n_shared > 0)
      v.shared = add_feed_forward(prefix + "moe.shared_experts.", 0, c_.dim, c_.n_shared * c_.moe_inter, depth_std);
    if (c_.shared_expert_gate) v.shared_gate = add_matrix(prefix + "moe.shared_expert_gate.weight", 1, c_.dim, 0.02);
  }

  // Initially, the projections of latent experts preserve the RMS of their input, so that a latent row is as large as
  // its token. After a norm, the projection back has the standard deviation of the other layers that write to the
  // residual stream.
  void add_experts(const std::string& prefix, double depth_std, LayerView<T>& v) {
    const int row = c_.row_dim();
    if (c_.latent_dim > 0)
      v.latent_down = add_matrix(prefix + "latent_down.weight", row, c_.dim, std_of_inputs(c_.dim));
    v.experts = add_feed_forward(prefix + "experts.", c_.n_experts, row, c_.moe_inter, depth_std);
    if (c_.latent_dim == 0) return;
    if (c_.latent_norm) v.latent_norm = add_gains(prefix + "latent_norm.weight", row);
    v.latent_up =
        add_matrix(prefix + "latent_up.weight", c_.dim, row, c_.latent_norm ? depth_std : std_of_inputs(c_.latent_dim));
  }

  void add_attention(const std::string& prefix, double depth_std, LayerView<T>& v) {
    const int heads = c_.n_heads, latent = c_.kv_lora_rank,
              queries = heads * (c_.qk_nope_head_dim + c_.qk_rope_head_dim);
    if (c_.q_lora_rank > 0) {
      v.wq_a = add_matrix(prefix + "wq_a.weight", c_.q_lora_rank, c_.dim, 0.02);
      v.q_norm = add_gains(prefix + "q_norm.weight", c_.q_lora_rank);
      v.wq_b = add_matrix(prefix + "wq_b.weight", queries, c_.q_lora_rank, 0.02);
    } else {
      v.wq = add_matrix(prefix + "wq.weight", queries, c_.dim, 0.02);
    }
    v.wkv_a = add_matrix(prefix + "wkv_a.weight", latent + c_.qk_rope_head_dim, c_.dim, 0.02);
    v.kv_norm = add_gains(prefix + "kv_norm.weight", latent);
    v.wkv_b = add_matrix(prefix + "wkv_b.weight", heads * (c_.qk_nope_head_dim + c_.v_head_dim), latent, 0.02);
    v.wo = add_matrix(prefix + "wo.weight", c_.dim, heads * c_.v_head_dim, depth_std);
  }

  // `experts` is 0 for a plain feed-forward. The tensors are listed as w1, w2, w3; memory holds (w1 w3)(w1 w3)... w2
  // w2...
  FeedForwardView<T> add_feed_forward(const std::string& prefix, int experts, int dim, int inter, double depth_std) {
    const std::size_t copies = size(std::max(experts, 1)), matrix = size(inter) * size(dim);
    const std::size_t w13 = elements, w2 = w13 + round_up(copies * 2 * matrix);
    const auto list = [&](const char* name, int out, int in, std::size_t offset, std::size_t stride, double std) {
      std::vector<std::size_t> shape{size(out), size(in)};
      if (experts > 0) shape.insert(shape.begin(), copies);
      tensors.push_back({prefix + name + (experts > 0 ? "" : ".weight"), std::move(shape), offset, stride, std});
    };
    list("w1", inter, dim, w13, 2 * matrix, 0.02);
    list("w2", dim, inter, w2, matrix, depth_std);
    list("w3", inter, dim, w13 + matrix, 2 * matrix, depth_std);
    elements = w2 + round_up(copies * matrix);
    return {{at(w13), copies * 2 * size(inter), dim}, {at(w2), copies * size(dim), inter}};
  }

  const ModelConfig& c_;
  std::span<T> arena_;
};

template <class T>
void move_by_last_place(const RandomStream& choice, std::vector<T>& values) {
  constexpr float kUpperBound = std::numeric_limits<float>::infinity();
  for (std::size_t n = 0; n < values.size(); ++n)
    values[n] =
        static_cast<T>(std::nextafter(static_cast<float>(values[n]), choice.bits(n) & 1 ? kUpperBound : -kUpperBound));
}

}  // namespace

std::size_t ParameterTensor::elements() const {
  std::size_t n = 1;
  for (const std::size_t extent : shape) n *= extent;
  return n;
}

std::vector<ParameterTensor> parameter_layout(const ModelConfig& config, std::size_t& arena_size) {
  Layout<float> layout(config, {});
  arena_size = layout.elements;
  return std::move(layout.tensors);
}

template <class T>
Parameters<T>::Parameters(const ModelConfig& config) {
  tensors_ = parameter_layout(config, size_);
  memory_.plan(weights, size_);
  memory_.plan(gradients, size_);
  memory_.plan(moment1, size_);
  memory_.plan(moment2, size_);
  memory_.commit();
  weight_view = Layout<T>(config, weights).view;
  gradient_view = Layout<T>(config, gradients).view;
}

template <class T>
void Parameters<T>::initialise(std::int64_t seed) {
  parallel_for(to_int(tensors_.size()), [&](int i) {
    const ParameterTensor& tensor = tensors_[i];
    const RandomStream random(seed, tensor.name);
    std::vector<T> values(tensor.elements(), T{1});
    if (tensor.init_std > 0)
      for (std::size_t n = 0; n < values.size(); ++n) {
        const double draw = tensor.init_cut > 0 ? random.truncated_normal(n, tensor.init_cut) : random.normal(n);
        values[n] = static_cast<T>(static_cast<float>(tensor.init_std * draw));
      }
    scatter(tensor, values, weights);
  });
}

template <class T>
void Parameters<T>::perturb(std::int64_t perturbation) {
  if (perturbation == 0) return;
  parallel_for(to_int(tensors_.size()), [&](int i) {
    const ParameterTensor& tensor = tensors_[i];
    std::vector<T> values = gather(tensor, weights);
    move_by_last_place(RandomStream(perturbation, "perturbation." + tensor.name), values);
    scatter(tensor, values, weights);
  });
}

template <class T>
const ParameterTensor& Parameters<T>::tensor(std::string_view name) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const ParameterTensor& t) { return t.name == name; });
  assert(found != tensors_.end());
  return *found;
}

template <class T>
std::size_t Parameters<T>::count() const {
  std::size_t total = 0;
  for (const ParameterTensor& tensor : tensors_) total += tensor.elements();
  return total;
}

template <class T>
std::vector<ParameterRun> Parameters<T>::runs() const {
  std::vector<ParameterRun> runs;
  for (const ParameterTensor& tensor : tensors_) {
    for (std::size_t b = 0; b < tensor.blocks(); ++b)
      runs.push_back({tensor.offset + b * tensor.outer_stride, tensor.block_elements(),
                      tensor.is_of_experts() ? to_int(b) : -1, &tensor});
  }
  return runs;
}

template <class T>
void Parameters<T>::scatter(const ParameterTensor& tensor, std::span<const T> values, std::span<T> arena) {
  assert(values.size() == tensor.elements());
  const std::size_t block = tensor.block_elements();
  for (std::size_t b = 0; b < tensor.blocks(); ++b)
    std::ranges::copy(values.subspan(b * block, block), tensor.block_in(arena, b).begin());
}

template class Parameters<float>;
template class Parameters<double>;

}  // namespace moescope
