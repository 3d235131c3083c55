#include "core/checkpoints/pair/weight_difference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

constexpr std::size_t kNamedTensors = 3;  // experts, and tensors, that text() names

// Squared norms of the weights of A and B and of their difference.
struct SquaredNorms {
  double of_a = 0, of_b = 0, of_difference = 0;
  void add(std::span<const float> a, std::span<const float> b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double x = a[i], y = b[i];
      of_a += x * x, of_b += y * y, of_difference += (y - x) * (y - x);
    }
  }
  double relative() const { return of_difference == 0 ? 0 : std::sqrt(of_difference / of_a); }
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
    const StoredMatrix &of_a = (a.*part).weight, &of_b = (b.*part).weight;
    for (Index first = 0; first < of_a.outputs(); first += kOutputs) {
      const Index count = std::min(kOutputs, of_a.outputs() - first);
      lengths.add(outputs_of(of_a, first, count), outputs_of(of_b, first, count));
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
const TensorView* same_tensor(const TensorView& of_a, const CheckpointModel& b) {
  const TensorView* of_b = b.file().find(of_a.name);
  const auto has_values = [](const TensorView& tensor) {
    return tensor.floating() && tensor.holds == TensorView::Holds::values;
  };
  return of_b && has_values(of_a) && has_values(*of_b) && of_a.shape == of_b->shape ? of_b : nullptr;
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
  const auto &of_a = a.layers()[size(layer)].moe.experts, &of_b = b.layers()[size(layer)].moe.experts;
  LayerWeightDifference found{layer, {}, {}};
  for (std::size_t e = 0; e < of_a.size(); ++e) {
    const SquaredNorms lengths = squared_norms_of(of_a[e], of_b[e]);
    found.norm_E.push_back(static_cast<float>(std::sqrt(lengths.of_b)));
    found.difference_E.push_back(static_cast<float>(lengths.relative()));
  }
  return found;
}

std::vector<int> common_layers(const CheckpointModel& a, const CheckpointModel& b) {
  std::vector<int> layers;
  for (std::size_t i = 0; i < std::min(a.layers().size(), b.layers().size()); ++i) {
    const auto &of_a = a.layers()[i].moe.experts, &of_b = b.layers()[i].moe.experts;
    if (!of_a.empty() && of_a.size() == of_b.size() && same_shape(of_a.front(), of_b.front())) layers.push_back(i);
  }
  return layers;
}

}  // namespace

WeightDifference weight_difference(const CheckpointModel& a, const CheckpointModel& b,
                                   const std::function<bool(double)>& progress) {
  WeightDifference found;
  const std::vector<int> layers = common_layers(a, b);
  const std::set<std::string> of_experts = expert_tensors(a);
  const auto& tensors = a.file().tensors();
  const double all = layers.size() + 1;
  for (const int layer : layers) {
    found.layers.push_back(experts_of(a, b, layer));
    if (!progress(found.layers.size() / all)) return found;
  }
  for (const TensorView& tensor : tensors) {
    const TensorView* other = of_experts.contains(tensor.name) ? nullptr : same_tensor(tensor, b);
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
  std::string text =
      "weights differ in " + std::to_string(differ.size()) + " of " + std::to_string(experts) + " experts";
  for (std::size_t i = 0; i < std::min(kNamedTensors, differ.size()); ++i)
    text += (i == 0 ? ": " : ", ") + std::string("layer ") + std::to_string(differ[i].layer) + " expert " +
            std::to_string(differ[i].expert) + ' ' + share_text(differ[i].difference);
  if (differ.size() > kNamedTensors) text += ", ...";
  text += "; and in " + std::to_string(tensors.size()) + " of " + std::to_string(compared_tensors) + " other tensors";
  for (std::size_t i = 0; i < std::min(kNamedTensors, tensors.size()); ++i)
    text += (i == 0 ? ": " : ", ") + printable(tensors[i].name) + ' ' + share_text(tensors[i].difference);
  if (tensors.size() > kNamedTensors) text += ", ...";
  return text;
}

}  // namespace moescope
