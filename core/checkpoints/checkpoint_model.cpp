#include "core/checkpoints/checkpoint_model.h"

#include <fmt/core.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "core/checkpoints/rope_angles.h"
#include "core/checkpoints/stored_matrix.h"
#include "core/checkpoints/weight_reader.h"
#include "core/files/folder_walk.h"
#include "core/files/tensors/open_tensors.h"
#include "core/files/text/text_escape.h"
#include "core/model/decoder.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Index kLogitRows = 256;  // rows of logits that are held at a time

void scale(double factor, const Matrix<float>& x) {
  if (factor == 1) return;
  for (Index i = 0; i < x.size(); ++i) x.data[i] *= static_cast<float>(factor);
}

// First row of each sequence of a pass, and the position of each token. `before`: position of a sequence's first token.
struct SequenceRows {
  SequenceRows(std::span<const Index> lengths, Index before) {
    for (const Index length : lengths) {
      begins.push_back(begins.back() + length);
      for (Index t = 0; t < length; ++t) positions.push_back(before + t);
    }
  }
  std::vector<Index> begins = {0}, positions;
};

// Returns model.safetensors if there is no index, so that files of other programs beside it are not read, else the
// folder. Throws std::runtime_error if both exist and the index does not name model.safetensors: programs differ in
// which they read.
std::string weights_in(const std::string& folder) {
  const std::filesystem::path single = std::filesystem::path(folder) / "model.safetensors";
  const std::filesystem::path index = std::filesystem::path(folder) / "model.safetensors.index.json";
  if (!std::filesystem::exists(single)) return folder;
  if (!std::filesystem::exists(index)) return single.string();
  if (!index_names(index.string(), "model.safetensors"))
    refuse(folder,
           "holds model.safetensors and an index of other files; remove the one that does "
           "not belong to the model");
  return folder;
}

bool same_values(const TensorView& a, const TensorView& b) {
  constexpr std::size_t kPart = std::size_t{1} << 16;
  if (a.shape != b.shape) return false;
  std::vector<float> part_a(kPart), part_b(kPart);
  for (std::size_t done = 0; done < a.elements(); done += kPart) {
    const std::size_t part_count = std::min(kPart, a.elements() - done);
    a.read_floats(done, std::span(part_a).first(part_count));
    b.read_floats(done, std::span(part_b).first(part_count));
    if (std::memcmp(part_a.data(), part_b.data(), part_count * sizeof(float)) != 0) return false;
  }
  return true;
}

int rotated_dim(const CheckpointConfig& config) {
  return config.latent ? config.latent->rope : config.grouped.head_dim;
}

// Keeps the most probable token after the last token of a pass.
class Likeliest : public PassWatch {
 public:
  void logits(Index, ConstMatrix<float> logits) override {
    const float* row = logits.row(logits.rows - 1);
    id = to_int(std::max_element(row, row + logits.cols) - row);
  }
  std::int32_t id = 0;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

CheckpointModel::CheckpointModel(const std::string& folder, Arithmetic arithmetic)
    : config_(read_checkpoint_config((std::filesystem::path(folder) / "config.json").string())),
      file_(open_tensors(weights_in(folder))),
      failure_(std::make_shared<ReadFailure>()),
      notes_(config_.notes),
      roundings_(config_.layers.size() + 1) {
  for (const std::string& file : file_.files()) require_inside(folder, file);
  if (!file_.skipped().empty()) {
    const SkippedEntry& entry = file_.skipped().front();
    refuse(file_.path(), "'" + printable(entry.name) + "' " + entry.reason);
  }
  WeightReader weights(file_, config_.quantization, failure_, arithmetic);
  embedding_ = weights.matrix("model.embed_tokens.weight", config_.vocab, config_.dim);
  for (std::size_t i = 0; i < config_.layers.size(); ++i) read_layer(i, weights);
  norm_ = weights.vector("model.norm.weight", config_.dim);
  read_head(weights, arithmetic);
  weights.require_all_read();
  if (weights.read_bare_codes())
    notes_.push_back(folder +
                     ": FP8 tensors have no scales, and config.json no 'quantization_config': their codes are "
                     "taken as weights");
  if (weights.read_codes() && !config_.quantization.exists)
    notes_.push_back(folder +
                     ": config.json has no 'quantization_config'; codes are multiplied by the scales beside "
                     "them");
  parameters_ = weights.parameters();
  stored_bytes_ = weights.bytes();
}

// A stored head that differs from the embedding is used, as in transformers 5.
void CheckpointModel::read_head(WeightReader& weights, Arithmetic arithmetic) {
  constexpr const char* kHead = "lm_head";
  const std::string name = std::string(kHead) + ".weight";
  roundings_.back().resize(kNumGemmClasses);
  const OperandRounding* rounding = &roundings_.back()[static_cast<std::size_t>(GemmClass::head)];
  weights.set_rounding(rounding);
  if (config_.tied_embedding && !weights.has(name)) {
    head_ = StoredLinear(embedding_, arithmetic, rounding);
    return;
  }
  head_ = weights.linear(kHead, config_.vocab, config_.dim, false, "model_type");
  if (config_.tied_embedding && !same_values(embedding_.tensor(), head_.weight.tensor()))
    notes_.push_back(config_.path + ": 'tie_word_embeddings' is true, but '" + name +
                     "' differs from the embedding; it is used as the head, as in transformers 5");
}

std::vector<int> CheckpointModel::moe_layers() const {
  std::vector<int> layers;
  for (std::size_t i = 0; i < layers_.size(); ++i)
    if (layers_[i].has_experts()) layers.push_back(to_int(i));
  return layers;
}

std::size_t CheckpointModel::working_bytes(Index tokens) const {
  const Index top_k = std::max(1, config_.router.config.top_k);
  const Index attention = Index{config_.heads} * (2 * config_.query_dim() + 2 * config_.value_dim());
  const Index expert_rows = 2 * top_k * config_.dim + 2 * Index{config_.experts};
  const Index feed_forward = 3 * (std::max(config_.dense_width, config_.shared_width) + top_k * config_.expert_width);
  const Index floats = tokens * (2 * config_.dim + std::max(attention, expert_rows) + feed_forward) +
                       std::min(tokens, kLogitRows) * config_.vocab;
  return floats * sizeof(float);
}

void CheckpointModel::set_rounding(int layer, GemmClass gemm_class, const OperandRounding& rounding) {
  Roundings& layer_roundings = layer < 0 ? roundings_.back() : roundings_.at(layer);
  layer_roundings[static_cast<std::size_t>(gemm_class)] = rounding;
  if (gemm_class == GemmClass::experts)
    std::fill(layer_roundings.begin() + kNumGemmClasses, layer_roundings.end(), rounding);
}

void CheckpointModel::set_expert_rounding(int layer, int expert, const OperandRounding& rounding) {
  roundings_.at(layer).at(kNumGemmClasses + size(expert)) = rounding;
}

void CheckpointModel::remove_expert(int layer, int expert) {
  std::vector<std::uint8_t>& removed = layers_.at(layer).moe.removed;
  removed.resize(config_.experts);
  removed.at(expert) = 1;
}

// A forward pass over the tokens of several sequences.
class CheckpointModel::Pass final : public Decoder<float> {
 public:
  Pass(const CheckpointModel& model, std::span<const std::int32_t> ids, std::span<const Index> lengths,
       PassWatch& watch, KeyValueCache* cache)
      : Decoder(to_int(model.layers_.size()), model.config_.norm_eps),
        model_(model),
        ids_(ids),
        watch_(watch),
        cache_(cache),
        sequences_(lengths, cache ? cache->tokens : 0),
        ropes_{rope(0, lengths), rope(1, lengths)},
        x_(std::ssize(ids), model.config_.dim),
        h_(std::ssize(ids), model.config_.dim),
        h_inv_(ids.size()) {}
  using Decoder::forward_pass;
  using Decoder::head_pass;
  using Decoder::layer_pass;

  void embed() override {
    const CheckpointConfig& config = model_.config_;
    for (std::size_t t = 0; t < ids_.size(); ++t) {
      if (ids_[t] < 0 || ids_[t] >= config.vocab)
        throw std::runtime_error(fmt::format("token {} is {}; allowed: 0 to {}", t, ids_[t], config.vocab - 1));
      model_.embedding_.read_outputs(ids_[t], 1, x_->row(t));
    }
    scale(config.embedding_multiplier, *x_);
  }

 private:
  Rope<float> rope(std::size_t kind, std::span<const Index> lengths) const {
    const CheckpointConfig& config = model_.config_;
    return rope_of(config.rope[kind], rotated_dim(config), cache_ ? cache_->tokens : 0, std::ranges::max(lengths));
  }
  const Layer& layer(int index) const { return model_.layers_[index]; }

  Rows begin(int index, Part part) override {
    if (part == Part::attention) watch_.hidden(index, *x_);
    const std::vector<float>* gain = &model_.norm_;
    if (part != Part::head) gain = part == Part::attention ? &layer(index).attention_norm : &layer(index).ffn_norm;
    return {*x_, *gain, *h_, h_inv_, *x_};
  }

  void attention(int index, const Rows& rows) override {
    const bool sliding = model_.config_.layers[index].sliding;
    layer(index).kind->forward({.begins = sequences_.begins,
                                .positions = sequences_.positions,
                                .rope = ropes_[sliding ? 1 : 0],
                                .cache = cache_ ? &cache_->layers[index] : nullptr},
                               rows.h, rows.y);
  }

  void feed_forward(int index, const Rows& rows) override {
    const Layer& l = layer(index);
    if (!l.has_experts()) return feed_forward_forward(l.dense, rows.h, rows.y, true);
    watch_.expert_input(index, rows.h);
    const RoutedTokens routed = route(model_.config_.router, l.moe, rows.h);
    watch_.routed(index, routed);
    std::vector<float> norms;
    experts_forward(l.moe, routed, rows.h, rows.y, watch_.wants_output_norms() ? &norms : nullptr);
    if (watch_.wants_output_norms()) watch_.outputs(index, routed, norms);
  }

  void head(const Rows& rows) override {
    watch_.hidden(to_int(model_.layers_.size()), rows.h);
    const Index tokens = rows.h.rows;
    const FloatMatrix logits(std::min(tokens, kLogitRows), model_.config_.vocab);
    for (Index first = 0; first < tokens; first += kLogitRows) {
      const Matrix<float> part = logits->row_block(0, std::min(kLogitRows, tokens - first));
      model_.head_.forward(rows.h.row_block(first, part.rows), part);
      scale(1 / model_.config_.logits_divisor, part);
      model_.require_pages();
      watch_.logits(first, part);
    }
  }

  void finish(const Matrix<float>&) override { model_.require_pages(); }

  const CheckpointModel& model_;
  std::span<const std::int32_t> ids_;
  PassWatch& watch_;
  KeyValueCache* cache_;
  SequenceRows sequences_;
  Rope<float> ropes_[2];  // for full and for sliding attention
  FloatMatrix x_, h_;
  std::vector<float> h_inv_;
};

double CheckpointModel::measured_seconds_per_token() const {
  static constexpr Index kTokens = 256;
  std::vector<std::int32_t> ids;
  for (Index t = 0; t < kTokens; ++t) ids.push_back(t * 7919 % config_.vocab);
  PassWatch nobody;
  Pass pass(*this, ids, std::span(&kTokens, 1), nobody, nullptr);
  pass.embed();
  // Times the second call, because the first one may read pages from the disk.
  const auto timed = [](const auto& work) {
    work();
    const auto start = Clock::now();
    work();
    return seconds_since(start);
  };
  double seconds = 0;
  for (const bool experts : {false, true}) {
    const auto is_of_kind = [&](const Layer& layer) { return layer.has_experts() == experts; };
    const auto one = std::ranges::find_if(layers_, is_of_kind);
    if (one == layers_.end()) continue;
    with_team([&] {
      seconds +=
          timed([&] { pass.layer_pass(to_int(one - layers_.begin())); }) * std::ranges::count_if(layers_, is_of_kind);
    });
  }
  with_team([&] { seconds += timed([&] { pass.head_pass(); }); });
  return seconds / kTokens;
}

void CheckpointModel::forward(std::span<const std::int32_t> ids, std::span<const Index> lengths, PassWatch& watch,
                              KeyValueCache* cache) const {
  if (cache) cache->layers.resize(layers_.size());
  with_team([&] { Pass(*this, ids, lengths, watch, cache).forward_pass(); });
  if (cache) cache->tokens += std::ssize(ids);
}

WrittenText continue_text(const CheckpointModel& model, std::span<const std::int32_t> ids, int count) {
  WrittenText text;
  KeyValueCache cache;
  Likeliest likeliest;
  const auto start = Clock::now();
  model.forward(ids, 1, std::ssize(ids), likeliest, &cache);
  text.prefill_s = seconds_since(start);
  const auto written = Clock::now();
  for (int i = 0; i < count; ++i) {
    text.ids.push_back(likeliest.id);
    if (i + 1 < count) model.forward(std::span(&text.ids.back(), 1), 1, 1, likeliest, &cache);
  }
  text.decode_s = seconds_since(written);
  return text;
}

}  // namespace moescope
