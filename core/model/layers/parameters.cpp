#include "core/model/layers/parameters.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "core/numerics/rng.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr std::size_t kAlign = 16;  // elements: a cache line of float

class LayoutBuilder {
 public:
  explicit LayoutBuilder(const ModelConfig& config) : c_(config), dim_(size(config.dim)) {}

  std::vector<ParameterTensor> build(std::size_t& arena_size) {
    add("tok_embeddings.weight", {size(c_.vocab), dim_}, 1.0);
    for (int layer = 0; layer < c_.n_layers; ++layer) add_layer(layer);
    add("norm.weight", {dim_}, 0);
    // The head's draws are limited to three standard deviations.
    add("output.weight", {size(c_.vocab), dim_}, 1.0 / std::sqrt(static_cast<double>(c_.dim)), 3.0);
    arena_size = next_;
    return std::move(tensors_);
  }

 private:
  static std::size_t size(int n) { return static_cast<std::size_t>(n); }

  void add(std::string name, std::vector<std::size_t> shape, double std, double cut = 0) {
    ParameterTensor tensor{std::move(name), std::move(shape), next_, 0, std, cut};
    tensor.outer_stride = tensor.block_elements();
    next_ += round_up(tensor.elements());
    tensors_.push_back(std::move(tensor));
  }

  static std::size_t round_up(std::size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

  void add_layer(int layer) {
    // The standard deviation of linear layers is 0.02; that of layers that write to the residual stream decreases with
    // depth.
    const double depth_std = 0.02 / std::sqrt(2.0 * (layer + 1));
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    add(prefix + "attention_norm.weight", {dim_}, 0);
    add_attention(prefix + "attention.", depth_std);
    add(prefix + "ffn_norm.weight", {dim_}, 0);
    if (layer < c_.n_dense_layers) {
      add_feed_forward(prefix + "feed_forward.", ".weight", {}, dim_, size(c_.dense_inter), depth_std);
      return;
    }
    add(prefix + "moe.router.gate.weight", {size(c_.n_experts), dim_}, depth_std);
    add_experts(prefix + "moe.", depth_std);
    if (c_.n_shared > 0)
      add_feed_forward(prefix + "moe.shared_experts.", ".weight", {}, dim_, size(c_.n_shared * c_.moe_inter),
                       depth_std);
    if (c_.shared_expert_gate) add(prefix + "moe.shared_expert_gate.weight", {1, dim_}, 0.02);
  }

  // The projections of latent experts preserve the size of their input, so that a row is initially as large as its
  // token. After the norm, the projection back writes to the residual stream like any other layer.
  void add_experts(const std::string& prefix, double depth_std) {
    const std::size_t row = size(c_.row_dim());
    if (c_.latent_dim > 0)
      add(prefix + "latent_down.weight", {row, dim_}, 1.0 / std::sqrt(static_cast<double>(c_.dim)));
    add_feed_forward(prefix + "experts.", "", {size(c_.n_experts)}, row, size(c_.moe_inter), depth_std);
    if (c_.latent_dim == 0) return;
    if (c_.latent_norm) add(prefix + "latent_norm.weight", {row}, 0);
    add(prefix + "latent_up.weight", {dim_, row},
        c_.latent_norm ? depth_std : 1.0 / std::sqrt(static_cast<double>(c_.latent_dim)));
  }

  void add_attention(const std::string& prefix, double depth_std) {
    const std::size_t heads = c_.n_heads, latent = c_.kv_lora_rank;
    const std::size_t head_dim = c_.qk_nope_head_dim + c_.qk_rope_head_dim;
    if (c_.q_lora_rank > 0) {
      add(prefix + "wq_a.weight", {size(c_.q_lora_rank), dim_}, 0.02);
      add(prefix + "q_norm.weight", {size(c_.q_lora_rank)}, 0);
      add(prefix + "wq_b.weight", {heads * head_dim, size(c_.q_lora_rank)}, 0.02);
    } else {
      add(prefix + "wq.weight", {heads * head_dim, dim_}, 0.02);
    }
    add(prefix + "wkv_a.weight", {latent + size(c_.qk_rope_head_dim), dim_}, 0.02);
    add(prefix + "kv_norm.weight", {latent}, 0);
    add(prefix + "wkv_b.weight", {heads * size(c_.qk_nope_head_dim + c_.v_head_dim), latent}, 0.02);
    add(prefix + "wo.weight", {dim_, heads * size(c_.v_head_dim)}, depth_std);
  }

  // `experts` is empty for a plain feed-forward, else {E}. Listed as w1, w2, w3; in memory as (w1 w3)(w1 w3)... w2
  // w2...
  void add_feed_forward(const std::string& prefix, const char* suffix, std::vector<std::size_t> experts,
                        std::size_t dim, std::size_t inter, double depth_std) {
    const std::size_t copies = experts.empty() ? 1 : experts[0];
    const std::size_t matrix = inter * dim;
    auto shape = [&](std::size_t out, std::size_t in) {
      std::vector<std::size_t> s = experts;
      s.insert(s.end(), {out, in});
      return s;
    };
    const std::size_t w13 = next_, w2 = w13 + round_up(copies * 2 * matrix);
    tensors_.push_back({prefix + "w1" + suffix, shape(inter, dim), w13, 2 * matrix, 0.02, 0});
    tensors_.push_back({prefix + "w2" + suffix, shape(dim, inter), w2, matrix, depth_std, 0});
    tensors_.push_back({prefix + "w3" + suffix, shape(inter, dim), w13 + matrix, 2 * matrix, depth_std, 0});
    next_ = w2 + round_up(copies * matrix);
  }

  const ModelConfig& c_;
  std::size_t dim_;
  std::size_t next_ = 0;
  std::vector<ParameterTensor> tensors_;
};

template <class T>
void move_by_last_place(const RandomStream& choice, std::vector<T>& values) {
  constexpr float kFar = std::numeric_limits<float>::infinity();
  for (std::size_t n = 0; n < values.size(); ++n)
    values[n] = static_cast<T>(std::nextafter(static_cast<float>(values[n]), choice.bits(n) & 1 ? kFar : -kFar));
}

}  // namespace

std::size_t ParameterTensor::elements() const {
  std::size_t n = 1;
  for (const std::size_t extent : shape) n *= extent;
  return n;
}

std::vector<ParameterTensor> parameter_layout(const ModelConfig& config, std::size_t& arena_size) {
  return LayoutBuilder(config).build(arena_size);
}

template <class T>
Parameters<T>::Parameters(const ModelConfig& config) : tensors_(parameter_layout(config, size_)) {
  memory_.plan(weights, size_);
  memory_.plan(gradients, size_);
  memory_.plan(moment1, size_);
  memory_.plan(moment2, size_);
  memory_.commit();
  weight_view = view(config, weights);
  gradient_view = view(config, gradients);
}

template <class T>
void Parameters<T>::initialise(std::int64_t seed, std::int64_t perturbation) {
  parallel_for(static_cast<int>(tensors_.size()), [&](int i) {
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
  perturb(perturbation);
}

template <class T>
void Parameters<T>::perturb(std::int64_t perturbation) {
  if (perturbation == 0) return;
  parallel_for(static_cast<int>(tensors_.size()), [&](int i) {
    const ParameterTensor& tensor = tensors_[static_cast<std::size_t>(i)];
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
    const bool of_experts = tensor.shape.size() == 3;
    for (std::size_t b = 0; b < tensor.blocks(); ++b)
      runs.push_back(
          {tensor.offset + b * tensor.outer_stride, tensor.block_elements(), of_experts ? static_cast<int>(b) : -1});
  }
  return runs;
}

template <class T>
std::vector<T> Parameters<T>::gather(const ParameterTensor& tensor, const T* arena) const {
  return gather_tensor(tensor, arena);
}

template <class T>
void Parameters<T>::scatter(const ParameterTensor& tensor, std::span<const T> values, T* arena) {
  assert(values.size() == tensor.elements());
  const std::size_t block = tensor.block_elements();
  for (std::size_t b = 0; b < tensor.blocks(); ++b)
    std::copy_n(values.data() + b * block, block, arena + tensor.offset + b * tensor.outer_stride);
}

template <class T>
ModelView<T> Parameters<T>::view(const ModelConfig& config, T* base) const {
  const auto vector = [&](const std::string& name) { return base + tensor(name).offset; };
  // Returns the rows of all experts one below the other, from one expert's first to the next one's.
  const auto matrix = [&](const std::string& name) {
    const ParameterTensor& t = tensor(name);
    const std::size_t cols = t.shape.back(), of_experts = t.blocks() * t.outer_stride / cols;
    return Matrix<T>(base + t.offset, t.shape.size() == 3 ? of_experts : t.shape[0], cols);
  };
  const auto feed_forward = [&](const std::string& prefix, const char* suffix) {
    FeedForwardView<T> view{matrix(prefix + "w1" + suffix), matrix(prefix + "w2" + suffix)};
    if (tensor(prefix + "w1" + suffix).shape.size() == 2) view.w13.rows *= 2;
    return view;
  };
  ModelView<T> view{matrix("tok_embeddings.weight"), matrix("output.weight"), vector("norm.weight"), {}};
  for (int i = 0; i < config.n_layers; ++i) {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    const std::string attention = prefix + "attention.";
    LayerView<T> layer;
    layer.attention_norm = vector(prefix + "attention_norm.weight");
    layer.ffn_norm = vector(prefix + "ffn_norm.weight");
    if (config.q_lora_rank > 0) {
      layer.wq_a = matrix(attention + "wq_a.weight");
      layer.q_norm = vector(attention + "q_norm.weight");
      layer.wq_b = matrix(attention + "wq_b.weight");
    } else {
      layer.wq = matrix(attention + "wq.weight");
    }
    layer.wkv_a = matrix(attention + "wkv_a.weight");
    layer.kv_norm = vector(attention + "kv_norm.weight");
    layer.wkv_b = matrix(attention + "wkv_b.weight");
    layer.wo = matrix(attention + "wo.weight");
    if (i < config.n_dense_layers) {
      layer.dense = feed_forward(prefix + "feed_forward.", ".weight");
    } else {
      layer.gate = matrix(prefix + "moe.router.gate.weight");
      layer.experts = feed_forward(prefix + "moe.experts.", "");
      if (config.n_shared > 0) layer.shared = feed_forward(prefix + "moe.shared_experts.", ".weight");
      if (config.shared_expert_gate) layer.shared_gate = matrix(prefix + "moe.shared_expert_gate.weight");
      if (config.latent_dim > 0) {
        layer.latent_down = matrix(prefix + "moe.latent_down.weight");
        layer.latent_up = matrix(prefix + "moe.latent_up.weight");
        if (config.latent_norm) layer.latent_norm = vector(prefix + "moe.latent_norm.weight");
      }
    }
    view.layers.push_back(layer);
  }
  return view;
}

template class Parameters<float>;
template class Parameters<double>;

}  // namespace moescope
