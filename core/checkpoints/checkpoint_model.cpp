#include "core/checkpoints/checkpoint_model.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "core/checkpoints/float_matrix.h"
#include "core/checkpoints/layer_reader.h"
#include "core/checkpoints/tensor_names.h"
#include "core/checkpoints/weight_reader.h"
#include "core/io/text_escape.h"
#include "core/model/layers/rms_norm.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/threads.h"
#include "core/tensors/open_tensors.h"

namespace moescope {
namespace {

constexpr Index kLogitRows = 256;  // of logits that are held at a time

void norm(ConstMatrix<float> x, const std::vector<float>& weight, double eps, Matrix<float> y) {
  std::vector<float> inv(static_cast<std::size_t>(x.rows));
  rms_norm_forward<float>(x, weight.data(), eps, y, inv.data());
}

void scale(double factor, const Matrix<float>& x) {
  if (factor == 1) return;
  for (Index i = 0; i < x.size(); ++i) x.data[i] *= static_cast<float>(factor);
}

// x += factor y
void add(double factor, const Matrix<float>& y, const Matrix<float>& x) {
  parallel_slices(static_cast<std::size_t>(x.rows), 32, [&](std::size_t first, std::size_t last) {
    for (auto r = static_cast<Index>(first); r < static_cast<Index>(last); ++r)
      add_scaled(static_cast<float>(factor), y.row(r), static_cast<std::size_t>(x.cols), x.row(r));
  });
}

// Where the sequences of a pass lie, and the positions of their tokens. `before`: of their first ones.
struct SequenceRows {
  SequenceRows(std::span<const Index> lengths, Index before) {
    for (const Index length : lengths) {
      begins.push_back(begins.back() + length);
      for (Index t = 0; t < length; ++t) positions.push_back(before + t);
    }
  }
  std::vector<Index> begins = {0}, positions;
};

int rotated_dim(const CheckpointConfig& config) {
  return config.latent ? config.latent->rope : config.grouped.head_dim;
}

}  // namespace

CheckpointModel::CheckpointModel(const std::string& folder, Arithmetic arithmetic)
    : config_(read_checkpoint_config((std::filesystem::path(folder) / "config.json").string())),
      file_(open_tensors(folder)),
      lost_(std::make_shared<std::atomic<bool>>(false)),
      roundings_(config_.layers.size() + 1) {
  for (const SkippedEntry& entry : file_.skipped())
    if (entry.name.ends_with(".safetensors"))
      throw std::runtime_error(file_.path() + ": '" + printable(entry.name) + "' " + entry.why);
  WeightReader weights(file_, lost_, arithmetic);
  embedding_ = weights.matrix(kEmbeddingName, config_.vocab, config_.dim);
  for (std::size_t i = 0; i < config_.layers.size(); ++i)
    layers_.push_back(read_layer(config_, i, weights, roundings_[i]));
  norm_ = weights.vector(kFinalNormName, config_.dim);
  const OperandRounding* of_head = &roundings_.back()[static_cast<std::size_t>(GemmClass::head)];
  weights.set_rounding(of_head);
  if (config_.tied_embedding)
    head_ = {.weight = embedding_, .arithmetic = arithmetic, .rounding = of_head};
  else
    head_ = weights.linear(kHeadName, config_.vocab, config_.dim, false, "architectures");
  parameters_ = weights.parameters();
  stored_bytes_ = weights.bytes();
}

std::vector<int> CheckpointModel::moe_layers() const {
  std::vector<int> layers;
  for (std::size_t i = 0; i < layers_.size(); ++i)
    if (layers_[i].has_experts()) layers.push_back(static_cast<int>(i));
  return layers;
}

std::size_t CheckpointModel::working_bytes(Index tokens) const {
  const Index top_k = std::max(1, config_.router.config.top_k);
  const Index attention = Index{config_.heads} * (2 * config_.query_dim() + 2 * config_.value_dim());
  const Index experts = 2 * top_k * (config_.dim + 3 * Index{config_.expert_width} / 2) + 2 * Index{config_.experts};
  const Index dense = 3 * Index{std::max(config_.dense_width, config_.shared_width)};
  const Index widest = std::max({attention, experts, dense});
  const Index floats = tokens * (3 * config_.dim + widest) + std::min(tokens, kLogitRows) * config_.vocab;
  return static_cast<std::size_t>(floats) * sizeof(float);
}

void CheckpointModel::set_rounding(int layer, GemmClass gemm_class, const OperandRounding& rounding) {
  Roundings& of_layer = layer < 0 ? roundings_.back() : roundings_.at(static_cast<std::size_t>(layer));
  of_layer[static_cast<std::size_t>(gemm_class)] = rounding;
}

void CheckpointModel::round_nothing() {
  std::ranges::fill(roundings_, Roundings{});
}

void CheckpointModel::remove_expert(int layer, int expert) {
  std::vector<std::uint8_t>& removed = layers_.at(static_cast<std::size_t>(layer)).moe.removed;
  removed.resize(static_cast<std::size_t>(config_.experts));
  removed.at(static_cast<std::size_t>(expert)) = 1;
}

void CheckpointModel::restore_experts() {
  for (Layer& layer : layers_) layer.moe.removed.clear();
}

void CheckpointModel::require_pages() const {
  if (lost_->load())
    throw std::runtime_error(file_.path() +
                             ": was truncated while it was open (another program wrote it); open it again");
}

void CheckpointModel::embed(std::span<const std::int32_t> ids, Matrix<float> x) const {
  for (std::size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] < 0 || ids[t] >= config_.vocab)
      throw std::runtime_error("token " + std::to_string(t) + " is " + std::to_string(ids[t]) + "; allowed: 0 to " +
                               std::to_string(config_.vocab - 1));
    embedding_.read_outputs(ids[t], 1, x.row(static_cast<Index>(t)));
  }
  scale(config_.embedding_multiplier, x);
}

void CheckpointModel::feed_forward(std::size_t layer, ConstMatrix<float> h, Matrix<float> y, PassWatch& watch) const {
  const Layer& l = layers_[layer];
  if (!l.has_experts()) return feed_forward_forward(l.dense, {}, h, y);
  watch.expert_input(static_cast<int>(layer), h);
  const RoutedTokens routed = route(config_.router, l.moe, h);
  watch.routed(static_cast<int>(layer), routed);
  std::vector<float> norms;
  experts_forward(l.moe, routed, h, y, watch.wants_outputs() ? &norms : nullptr);
  if (watch.wants_outputs()) watch.outputs(static_cast<int>(layer), routed, norms);
}

void CheckpointModel::layer_pass(std::size_t layer, const AttentionCall& call, const Rows& rows,
                                 PassWatch& watch) const {
  const Layer& l = layers_[layer];
  norm(rows.x, l.attention_norm, config_.norm_eps, rows.h);
  l.attention->forward(call, rows.h, rows.y);
  add(config_.residual_multiplier, rows.y, rows.x);
  norm(rows.x, l.ffn_norm, config_.norm_eps, rows.h);
  feed_forward(layer, rows.h, rows.y, watch);
  add(config_.residual_multiplier, rows.y, rows.x);
  require_pages();
}

void CheckpointModel::head_pass(const Rows& rows, PassWatch& watch) const {
  norm(rows.x, norm_, config_.norm_eps, rows.h);
  watch.hidden(static_cast<int>(layers_.size()), rows.h);
  const Index tokens = rows.x.rows;
  const FloatMatrix logits(std::min(tokens, kLogitRows), config_.vocab);
  for (Index first = 0; first < tokens; first += kLogitRows) {
    const Matrix<float> part = logits->row_block(0, std::min(kLogitRows, tokens - first));
    linear_forward(rows.h.row_block(first, part.rows), head_, part);
    scale(1 / config_.logits_divisor, part);
    require_pages();
    watch.logits(first, part);
  }
}

void CheckpointModel::pass(std::span<const std::int32_t> ids, std::span<const Index> lengths, PassWatch& watch,
                           KeyValueCache* cache) const {
  const Index tokens = std::ssize(ids), before = cache ? cache->tokens : 0;
  const SequenceRows sequences(lengths, before);
  const FloatMatrix x(tokens, config_.dim), h(tokens, config_.dim), y(tokens, config_.dim);
  const Rows rows{*x, *h, *y};
  const Index longest = std::ranges::max(lengths);
  const Rope<float> ropes[] = {rope_of(config_.rope[0], rotated_dim(config_), before, longest),
                               rope_of(config_.rope[1], rotated_dim(config_), before, longest)};
  embed(ids, *x);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    watch.hidden(static_cast<int>(i), *x);
    layer_pass(i,
               {.begins = sequences.begins,
                .positions = sequences.positions,
                .rope = ropes[config_.layers[i].sliding ? 1 : 0],
                .cache = cache ? &cache->layers[i] : nullptr},
               rows, watch);
  }
  head_pass(rows, watch);
  if (cache) cache->tokens += tokens;
}

double CheckpointModel::measured_seconds_per_token() const {
  static constexpr Index kTokens = 256;
  const FloatMatrix x(kTokens, config_.dim), h(kTokens, config_.dim), y(kTokens, config_.dim);
  const Rows rows{*x, *h, *y};
  const Rope<float> rope = rope_of(config_.rope[0], rotated_dim(config_), 0, kTokens);
  const SequenceRows sequences(std::span(&kTokens, 1), 0);
  std::vector<std::int32_t> ids;
  for (Index t = 0; t < kTokens; ++t) ids.push_back(static_cast<std::int32_t>(t * 7919 % config_.vocab));
  embed(ids, *x);
  PassWatch nobody;
  // Twice: the first time pages come from the disk.
  const auto timed = [](const auto& work) {
    work();
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double seconds = 0;
  for (const bool experts : {false, true}) {
    const auto of_kind = [&](const Layer& layer) { return layer.has_experts() == experts; };
    const auto one = std::ranges::find_if(layers_, of_kind);
    if (one == layers_.end()) continue;
    const auto index = static_cast<std::size_t>(one - layers_.begin());
    const AttentionCall call{.begins = sequences.begins, .positions = sequences.positions, .rope = rope};
    with_team([&] {
      seconds += timed([&] { layer_pass(index, call, rows, nobody); }) *
                 static_cast<double>(std::ranges::count_if(layers_, of_kind));
    });
  }
  with_team([&] { seconds += timed([&] { head_pass(rows, nobody); }); });
  return seconds / static_cast<double>(kTokens);
}

void CheckpointModel::forward(std::span<const std::int32_t> ids, std::span<const Index> lengths, PassWatch& watch,
                              KeyValueCache* cache) const {
  if (cache) cache->layers.resize(layers_.size());
  with_team([&] { pass(ids, lengths, watch, cache); });
}

void CheckpointModel::forward(std::span<const std::int32_t> ids, Index sequences, Index length, PassWatch& watch,
                              KeyValueCache* cache) const {
  forward(ids, std::vector<Index>(static_cast<std::size_t>(sequences), length), watch, cache);
}

}  // namespace moescope
