#include "core/checkpoints/pair/checkpoint_pair.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/checkpoints/checkpoint_tokenizer.h"
#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"
#include "core/model/agreement.h"
#include "core/model/routing_flips.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxTokenizerBytes = std::uint64_t{64} << 20;

// Returns the value for a message, at most 40 bytes of it.
std::string brief(const json& value) {
  constexpr std::size_t kLongest = 40;
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return printable(text.size() > kLongest ? text.substr(0, kLongest) + "..." : text);
}

// Returns the first key whose values differ and the values, as text; empty if all are equal.
std::string first_divergence_step(const json& a, const json& b, const std::string& at) {
  if (a == b) return {};
  const std::string dot = at.empty() ? "" : at + ".";
  if (a.is_object() && b.is_object()) {
    for (const auto& [key, value] : a.items()) {
      if (!b.contains(key)) return dot + printable(key) + " is in A alone";
      if (std::string found = first_divergence_step(value, b[key], dot + printable(key)); !found.empty()) return found;
    }
    for (const auto& [key, value] : b.items())
      if (!a.contains(key)) return dot + printable(key) + " is in B alone";
  }
  if (a.is_array() && b.is_array()) {
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      if (std::string found = first_divergence_step(a[i], b[i], at + '[' + std::to_string(i) + ']'); !found.empty())
        return found;
    return at + " has " + std::to_string(a.size()) + " entries in A and " + std::to_string(b.size()) + " in B";
  }
  return at + " is " + brief(a) + " in A and " + brief(b) + " in B";
}

json tokenizer_json(const std::string& path) {
  json read = parse_json(read_file(path, kMaxTokenizerBytes, "tokenizer"), path);
  if (read.is_object())
    for (const char* unread : {"truncation", "padding", "version"}) read.erase(unread);
  return read;
}

// Keeps the routing and the predictions of a pass.
class KeptPass : public PassWatch {
 public:
  explicit KeptPass(const std::vector<std::int32_t>& ids) : ids_(ids) {}

  void routed(int layer, const RoutedTokens& tokens) override {
    KeptRouting& routing = routing_.emplace_back();
    routing.layer = layer;
    routing.n_experts = tokens.experts;
    routing.top_k = tokens.top_k;
    routing.ids_TK.assign(tokens.ids.begin(), tokens.ids.end());
    routing.margin_T = tokens.margin;
  }
  void logits(Index first, ConstMatrix<float> logits) override {
    vocabulary_ = logits.cols;
    std::vector<float> p(logits.cols);
    for (Index r = 0; r < logits.rows; ++r) {
      const std::size_t t = first + r;
      if (t + 1 == ids_.size()) continue;  // no token follows
      logits_.insert(logits_.end(), logits.row(r), logits.row(r) + logits.cols);
      const float lse = softmax_row(logits.row(r), p.size(), 1.0f, p.data());
      loss_.push_back(lse - logits.at(r, ids_[t + 1]));
    }
  }

  const std::vector<KeptRouting>& routing() const { return routing_; }
  PredictedTokens predicted() const {
    return {{logits_.data(), std::ssize(loss_), vocabulary_, vocabulary_}, loss_.data()};
  }

 private:
  const std::vector<std::int32_t>& ids_;
  std::vector<KeptRouting> routing_;
  std::vector<float> logits_, loss_;
  Index vocabulary_ = 0;
};

// Fills in the figures that compare B with A.
void compare(const KeptPass& a, const KeptPass& b, TelemetryFrame& frame) {
  frame.flips = routing_flips(a.routing(), b.routing());
  frame.fp32_any_layer_flipped = flipped_in_any_layer(a.routing(), b.routing());
  const Agreement found = agreement(b.predicted(), a.predicted());
  frame.fp32_kl = std::isnan(found.kl) ? kNoValue : static_cast<float>(found.kl);
  frame.fp32_k1 = static_cast<float>(found.ratios.k1());
  frame.fp32_k3 = static_cast<float>(found.ratios.k3());
  frame.fp32_ratio_beyond_2 = static_cast<float>(found.ratios.ratio_beyond_2());
}

std::string name_of(const std::string& folder) {
  return std::filesystem::weakly_canonical(folder).filename().string();
}

// Returns the name of a folder, with the name of the folder above if `other` has the same name.
std::string name_beside(const std::string& folder, const std::string& other) {
  if (name_of(folder) != name_of(other)) return name_of(folder);
  const std::filesystem::path above = std::filesystem::weakly_canonical(folder).parent_path().filename();
  return (above / name_of(folder)).string();
}

TextBatches batches_of(int run, const std::string& folder, const std::string& other, const TextSources& sources,
                       const Tokenizer* tokenizer) {
  return {.run = run,
          .source = folder,
          .texts = sources,
          .sequences = 1,
          .run_name = name_beside(folder, other),
          .tokenizer = tokenizer};
}

}  // namespace

void require_same_tokenizer(const std::string& folder_a, const std::string& folder_b) {
  const std::filesystem::path a = std::filesystem::path(folder_a) / "tokenizer.json",
                              b = std::filesystem::path(folder_b) / "tokenizer.json";
  if (!std::filesystem::exists(a) || !std::filesystem::exists(b)) return;
  require_inside(folder_a, a);
  require_inside(folder_b, b);
  const std::string difference = first_divergence_step(tokenizer_json(a.string()), tokenizer_json(b.string()), "");
  if (!difference.empty()) throw std::runtime_error("the tokenizers differ: " + difference);
  const auto has_config = [](const std::string& folder) {
    return std::filesystem::exists(std::filesystem::path(folder) / "tokenizer_config.json");
  };
  if (!has_config(folder_a) && !has_config(folder_b)) return;
  if (open_checkpoint_tokenizer(folder_a).tokenizer.special_tokens() !=
      open_checkpoint_tokenizer(folder_b).tokenizer.special_tokens())
    throw std::runtime_error("the tokenizers differ: the files tokenizer_config.json add other tokens around a text");
}

CheckpointPair::CheckpointPair(const Source& a, const Source& b, const std::vector<LabelledText>& texts,
                               const TextSources& sources, const Tokenizer* tokenizer)
    : a_(a.model, texts, batches_of(0, a.folder, b.folder, sources, tokenizer)),
      b_(b.model, texts, batches_of(1, b.folder, a.folder, sources, tokenizer)) {}

CheckpointPair::Frames CheckpointPair::step() {
  const std::vector<std::int32_t> ids = a_.next_ids();
  KeptPass of_a(ids), of_b(ids);
  Frames frames;
  frames.a = a_.step(&of_a);
  frames.b = b_.step(&of_b);
  compare(of_a, of_b, frames.b);
  show_weights(frames.b);
  return frames;
}

void CheckpointPair::show_specialisation(Frames& frames) {
  a_.show_specialisation(frames.a);
  b_.show_specialisation(frames.b);
  show_weights(frames.b);
}

// Adds the weights to frames of B that show the specialisation.
void CheckpointPair::show_weights(TelemetryFrame& frame) const {
  for (SpecialisationFrame& layer : frame.specialisation) {
    const auto found = std::ranges::find(weights_.layers, layer.layer, &LayerWeightDifference::layer);
    if (found == weights_.layers.end()) continue;
    layer.weight_norm_E = found->norm_E;
    layer.weight_sqnr_E.clear();
    for (const float share : found->difference_E) layer.weight_sqnr_E.push_back(-20 * std::log10(share));
  }
}

}  // namespace moescope
