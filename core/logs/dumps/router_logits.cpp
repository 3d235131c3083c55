#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>

#include "core/files/text/text_escape.h"
#include "core/logs/dumps/dump_readers.h"
#include "core/logs/routing/routed_tokens.h"

namespace moescope {

namespace {

constexpr std::size_t kLogitsAtOnce = std::size_t{1} << 20;

// Returns the layer of a tensor of one layer: the number in its name, or its index in a list.
int layer_of_logits(const TensorView& tensor, const CountName& name, std::size_t tensors) {
  if (name.layer >= 0) return name.layer;
  if (!name.unnamed_numbers.empty())
    return to_int(std::min<std::int64_t>(name.unnamed_numbers.back(), std::int64_t{1} + kLastImportedLayer));
  if (tensors == 1) return 0;
  throw std::runtime_error("'" + printable(tensor.name) + "' does not say of which layer it is");
}

// True for a map [tokens, experts] that marks the experts of each token with 1 or true.
bool is_mask(const TensorView& tensor, const TensorFile& file) {
  if (is_floating(tensor.dtype) || tensor.shape.size() != 2 || tensor.elements() == 0 ||
      !count_name(tensor.name, file.path()).is_mask)
    return false;
  return std::ranges::all_of(tensor.floats(0, std::min(kLogitsAtOnce, tensor.elements())),
                             [](float value) { return value == 0 || value == 1; });
}

// Returns the most experts of a token.
std::size_t top_k_of_mask(const TensorView& tensor) {
  const std::vector<float> marks = tensor.floats();
  std::size_t top_k = 1;
  for (std::size_t first = 0; first < marks.size(); first += tensor.shape[1])
    top_k = std::max<std::size_t>(top_k, std::ranges::count(std::span(marks).subspan(first, tensor.shape[1]), 1.0f));
  return top_k;
}

class LogitReader {
 public:
  LogitReader(const TensorFile& file, std::size_t top_k) : file_(file), top_k_(top_k), tokens_(file.path()) {
    tokens_.expect_top_k(top_k);
  }
  // Adds the rows [first, first + count) of a tensor as tokens of a layer.
  void add(const TensorView& tensor, std::size_t first, std::size_t count, int layer);
  RoutedTokenStatistics& tokens() { return tokens_; }

 private:
  const TensorFile& file_;
  std::size_t top_k_;
  RoutedTokenStatistics tokens_;
};

void LogitReader::add(const TensorView& tensor, std::size_t first, std::size_t count, int layer) {
  const auto fail = [&](const std::string& what) {
    refuse(file_.path(), "'" + printable(tensor.name) + "' has " + what);
  };
  const std::size_t experts = tensor.shape.back();
  if (experts < top_k_) fail(fmt::format("{} experts, but --top-k is {}", experts, top_k_));
  if (experts > kMaxImportedExperts || layer > kLastImportedLayer) fail("more experts or layers than can be shown");
  tokens_.expect_experts(to_int(experts));
  const bool marks = is_mask(tensor, file_);
  const std::size_t at_once = std::max<std::size_t>(1, kLogitsAtOnce / experts);
  std::vector<float> logits;  // of `at_once` tokens
  std::vector<int> order(experts), chosen;
  for (std::size_t token = 0; token < count; ++token) {
    if (token % at_once == 0)
      logits = tensor.floats((first + token) * experts, std::min(at_once, count - token) * experts);
    const auto logits_E = std::span(logits).subspan(token % at_once * experts, experts);
    if (std::ranges::any_of(logits_E, [](float logit) { return std::isnan(logit); }))
      fail(fmt::format("a NaN at token {}", token));
    std::iota(order.begin(), order.end(), 0);
    const auto last_chosen = order.begin() + top_k_;
    std::ranges::partial_sort(order, last_chosen,
                              [&](int a, int b) { return std::pair(-logits_E[a], a) < std::pair(-logits_E[b], b); });
    chosen.assign(order.begin(), last_chosen);
    if (marks) std::erase_if(chosen, [&](int expert) { return logits_E[expert] == 0; });
    tokens_.add(0, {false, layer}, chosen);
  }
}

// Returns the number of layers in a single tensor of three dimensions; 1: its first axis is that of the sequences.
std::size_t layers_of_single(const TensorFile& file, const TensorView& tensor, const RoutedShape& stated) {
  if (tensor.shape.size() < 3 || tensor.shape[0] == 1) return 1;
  if (stated.layers > 0 && (stated.layers == 1 || static_cast<std::size_t>(stated.layers) == tensor.shape[0]))
    return stated.layers;
  const std::string rows = std::to_string(tensor.shape[0]);
  throw AmbiguousRouting(file.path() + ": '" + printable(tensor.name) + "' " + shape_text(tensor.shape) + " may have " +
                         rows + " layers (--layers " + rows + ") or " + rows +
                         " sequences of one layer (--layers 1); the number of layers decides");
}

}  // namespace

bool is_router_logits(const TensorView& tensor, const TensorFile& file) {
  const bool has_axes = tensor.shape.size() == 2 || tensor.shape.size() == 3;
  return is_mask(tensor, file) || (is_floating(tensor.dtype) && has_axes && tensor.elements() > 0 &&
                                   count_name(tensor.name, file.path()).is_logits);
}

Imported import_router_logits(const TensorFile& file, const ImportOptions& options) {
  std::vector<const TensorView*> tensors;
  Imported imported;
  std::set<std::string> other_names;
  for (const TensorView& tensor : file.tensors())
    if (is_router_logits(tensor, file))
      tensors.push_back(&tensor);
    else
      other_names.insert(tensor.name);
  const bool are_marks = is_mask(*tensors.front(), file);
  if (!are_marks && options.routed.top_k == 0)
    throw AmbiguousRouting(file.path() + ": '" + printable(tensors.front()->name) + "' " +
                           shape_text(tensors.front()->shape) +
                           " holds logits of a router, which do not say how many experts a token gets: --top-k states "
                           "it");
  std::size_t top_k = options.routed.top_k;
  for (const TensorView* tensor : tensors)
    if (are_marks && is_mask(*tensor, file)) top_k = std::max(top_k, top_k_of_mask(*tensor));
  LogitReader reader(file, top_k);
  for (const TensorView* tensor : tensors) {
    const CountName name = count_name(tensor->name, file.path());
    const bool single = tensors.size() == 1 && name.layer < 0;
    const std::size_t layers = single ? layers_of_single(file, *tensor, options.routed) : 1;
    const std::size_t rows = tensor->elements() / tensor->shape.back() / layers;
    const int first = single ? 0 : layer_of_logits(*tensor, name, tensors.size());
    for (std::size_t layer = 0; layer < layers; ++layer) reader.add(*tensor, layer * rows, rows, first + to_int(layer));
  }
  if (options.routed.experts > 0) reader.tokens().expect_experts(options.routed.experts);
  imported.runs.push_back(reader.tokens().build(info_of_run(file.path(), options), options));
  imported.routes = reader.tokens().rows();
  if (are_marks)
    imported.remarks.push_back(fmt::format("the experts of each token are marked; a token has up to {}", top_k));
  else
    imported.remarks.push_back(
        fmt::format("each token is taken to get the {} experts with the largest logits; a router with expert_bias or "
                    "groups of experts chooses otherwise",
                    options.routed.top_k));
  if (!other_names.empty()) imported.remarks.push_back(not_shown_text(other_names));
  return imported;
}

}  // namespace moescope
