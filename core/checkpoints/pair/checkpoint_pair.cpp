#include "core/checkpoints/pair/checkpoint_pair.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <stdexcept>

#include "core/checkpoints/checkpoint_tokenizer.h"
#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/model/routing_flips.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/statistics.h"

namespace moescope {
namespace {

constexpr std::size_t kNamedTensors = 3;  // experts, and tensors, that text() names

// Squared norms of the weights of A and B and of their difference.
struct SquaredNorms {
  double squares_a = 0, squares_b = 0, squares_difference = 0;
  void add(std::span<const float> a, std::span<const float> b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double x = a[i], y = b[i];
      squares_a += x * x;
      squares_b += y * y;
      squares_difference += (y - x) * (y - x);
    }
  }
  double relative() const { return squares_difference == 0 ? 0 : std::sqrt(squares_difference / squares_a); }
};

// Returns the weights of the outputs [first, first + count) as [count, inputs], also if the matrix is transposed().
std::vector<float> outputs_of(const StoredMatrix& matrix, Index first, Index count) {
  std::vector<float> read(count * matrix.inputs());
  matrix.read_outputs(first, count, read.data());
  if (!matrix.transposed()) return read;
  std::vector<float> turned(read.size());
  for (Index row = 0; row < count; ++row)
    for (Index col = 0; col < matrix.inputs(); ++col) turned[row * matrix.inputs() + col] = read[col * count + row];
  return turned;
}

bool same_shape(const StoredLinear& a, const StoredLinear& b) {
  return a.empty() == b.empty() && (a.empty() || (a.outputs() == b.outputs() && a.inputs() == b.inputs())) &&
         a.bias.size() == b.bias.size();
}

constexpr std::array<StoredLinear StoredFeedForward::*, 3> kParts = {&StoredFeedForward::gate, &StoredFeedForward::up,
                                                                     &StoredFeedForward::down};

bool same_shape(const StoredFeedForward& a, const StoredFeedForward& b) {
  return std::ranges::all_of(kParts, [&](auto part) { return same_shape(a.*part, b.*part); });
}

SquaredNorms squared_norms_of(const StoredFeedForward& a, const StoredFeedForward& b) {
  constexpr Index kOutputs = 64;
  SquaredNorms lengths;
  for (const auto part : kParts) {
    if ((a.*part).empty()) continue;
    const StoredMatrix &weight_a = (a.*part).weight, &weight_b = (b.*part).weight;
    for (Index first = 0; first < weight_a.outputs(); first += kOutputs) {
      const Index count = std::min(kOutputs, weight_a.outputs() - first);
      lengths.add(outputs_of(weight_a, first, count), outputs_of(weight_b, first, count));
    }
    lengths.add((a.*part).bias, (b.*part).bias);
  }
  return lengths;
}

// Names of the tensors that hold routed experts.
std::set<std::string> expert_tensors(const CheckpointModel& model) {
  std::set<std::string> names;
  for (const CheckpointModel::Layer& layer : model.layers())
    for (const StoredFeedForward& expert : layer.moe.experts)
      for (const auto part : kParts)
        if (!(expert.*part).empty()) names.insert((expert.*part).weight.tensor().name);
  return names;
}

// Returns the tensor of B with the same name and shape; nullptr if B has none, or if one of them holds no values.
const TensorView* same_tensor(const TensorView& original, const CheckpointModel& b) {
  const TensorView* match = b.file().find(original.name);
  const auto has_values = [](const TensorView& tensor) {
    return tensor.floating() && tensor.holds == TensorView::Holds::values;
  };
  return match && has_values(original) && has_values(*match) && original.shape == match->shape ? match : nullptr;
}

double difference_of(const TensorView& a, const TensorView& b) {
  constexpr std::size_t kPartElements = 1 << 16;
  SquaredNorms lengths;
  const std::size_t all = a.elements();
  for (std::size_t first = 0; first < all; first += kPartElements) {
    const std::size_t count = std::min(kPartElements, all - first);
    lengths.add(a.floats(first, count), b.floats(first, count));
  }
  return lengths.relative();
}

std::string share_text(double difference) {
  return std::isinf(difference) ? "from 0" : "by " + percent(difference);
}

// Compares the experts of a layer.
LayerWeightDifference experts_of(const CheckpointModel& a, const CheckpointModel& b, int layer) {
  const auto &experts_a = a.layers()[size(layer)].moe.experts, &experts_b = b.layers()[size(layer)].moe.experts;
  LayerWeightDifference found{layer, {}, {}};
  for (std::size_t e = 0; e < experts_a.size(); ++e) {
    const SquaredNorms lengths = squared_norms_of(experts_a[e], experts_b[e]);
    found.norm_E.push_back(static_cast<float>(std::sqrt(lengths.squares_b)));
    found.difference_E.push_back(static_cast<float>(lengths.relative()));
  }
  return found;
}

std::vector<int> common_layers(const CheckpointModel& a, const CheckpointModel& b) {
  std::vector<int> layers;
  for (std::size_t i = 0; i < std::min(a.layers().size(), b.layers().size()); ++i) {
    const auto &experts_a = a.layers()[i].moe.experts, &experts_b = b.layers()[i].moe.experts;
    if (!experts_a.empty() && experts_a.size() == experts_b.size() && same_shape(experts_a.front(), experts_b.front()))
      layers.push_back(to_int(i));
  }
  return layers;
}

}  // namespace

WeightDifference weight_difference(const CheckpointModel& a, const CheckpointModel& b,
                                   const std::function<bool(double)>& progress) {
  WeightDifference found;
  const std::vector<int> layers = common_layers(a, b);
  const std::set<std::string> expert_names = expert_tensors(a);
  const auto& tensors = a.file().tensors();
  const double all = layers.size() + 1;
  for (const int layer : layers) {
    found.layers.push_back(experts_of(a, b, layer));
    if (!progress(found.layers.size() / all)) return found;
  }
  for (const TensorView& tensor : tensors) {
    const TensorView* other = expert_names.contains(tensor.name) ? nullptr : same_tensor(tensor, b);
    if (!other) continue;
    ++found.compared_tensors;
    if (const double difference = difference_of(tensor, *other); difference > 0)
      found.tensors.push_back({tensor.name, difference});
    if (!progress((all - 1) / all)) return found;
  }
  std::ranges::stable_sort(found.tensors, std::ranges::greater{}, &TensorDifference::difference);
  return found;
}

std::string WeightDifference::text() const {
  struct Expert {
    int layer;
    std::size_t expert;
    float difference;
  };
  std::vector<Expert> differ;
  std::size_t experts = 0;
  for (const LayerWeightDifference& layer : layers)
    for (std::size_t e = 0; e < layer.difference_E.size(); ++e, ++experts)
      if (layer.difference_E[e] > 0) differ.push_back({layer.layer, e, layer.difference_E[e]});
  std::ranges::stable_sort(differ, std::ranges::greater{}, &Expert::difference);
  std::string text = fmt::format("weights differ in {} of {} experts", differ.size(), experts);
  for (std::size_t i = 0; i < std::min(kNamedTensors, differ.size()); ++i)
    text += fmt::format("{}layer {} expert {} {}", i == 0 ? ": " : ", ", differ[i].layer, differ[i].expert,
                        share_text(differ[i].difference));
  if (differ.size() > kNamedTensors) text += ", ...";
  text += fmt::format("; and in {} of {} other tensors", tensors.size(), compared_tensors);
  for (std::size_t i = 0; i < std::min(kNamedTensors, tensors.size()); ++i)
    text += (i == 0 ? ": " : ", ") + printable(tensors[i].name) + ' ' + share_text(tensors[i].difference);
  if (tensors.size() > kNamedTensors) text += ", ...";
  return text;
}

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
      if (std::string found = first_divergence_step(a[i], b[i], fmt::format("{}[{}]", at, i)); !found.empty())
        return found;
    return fmt::format("{} has {} entries in A and {} in B", at, a.size(), b.size());
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
  PredictedTokens predicted() const { return {{logits_.data(), std::ssize(loss_), vocabulary_, vocabulary_}, loss_}; }

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
  KeptPass pass_a(ids), pass_b(ids);
  Frames frames;
  frames.a = a_.step(&pass_a);
  frames.b = b_.step(&pass_b);
  compare(pass_a, pass_b, frames.b);
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
