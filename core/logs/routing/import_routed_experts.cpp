// Reads the experts of every token, as inference engines and trainers of reinforcement learning write them;
// docs/logs.md, "Routed experts", lists the forms. routed_shape.h finds the shape of a flat array and the slots without
// experts.

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/files/input_file.h"
#include "core/files/tensors/npy.h"
#include "core/files/tensors/open_tensors.h"
#include "core/files/tensors/torch_file.h"
#include "core/files/text/json_line.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/logs/dumps/dump_readers.h"
#include "core/logs/log_readers.h"
#include "core/logs/routing/routed_shape.h"
#include "core/logs/routing/routed_tokens.h"

namespace moescope {

namespace {

constexpr std::string_view kRoutedExperts = "routed_experts";
constexpr std::uint64_t kLargestResponses = std::uint64_t{4} << 30;
constexpr std::size_t kMaxIds = std::size_t{1} << 30, kMaxChosen = 1024;
constexpr int kDeepest = 16;

// Other names of arrays of chosen experts, whose axes have no agreed order.
constexpr std::string_view kOtherNames[] = {"topk_ids",   "topk_indices",   "topk_experts",   "selected_experts",
                                            "expert_ids", "expert_indices", "chosen_experts", "topk_idx"};

bool is_named_routing(std::string_view name) {
  return name.find(kRoutedExperts) != std::string_view::npos ||
         std::ranges::any_of(kOtherNames, [&](std::string_view other) { return name.find(other) != name.npos; });
}

// "expert_ids" may be a list of all experts.
bool is_of_token(std::string_view name) {
  return std::ranges::find(kOtherNames, name) != std::end(kOtherNames) && !name.starts_with("expert");
}

bool is_integer(DType dtype) {
  return dtype >= DType::i64 && dtype <= DType::u8;
}

std::vector<int> ids_of(const TensorView& tensor) {
  if (!is_integer(tensor.dtype))
    throw Unreadable(std::string("numbers of type ") + dtype_name(tensor.dtype) + ", expected integers");
  std::vector<int> ids;
  ids.reserve(tensor.elements());
  for (const std::int64_t id : tensor.integers()) {
    const bool filling = id == std::numeric_limits<int>::max();  // may fill empty slots (routed_shape.h)
    if (!filling && (!std::in_range<int>(id) || std::cmp_greater_equal(id, kMaxImportedExperts)))
      throw Unreadable(fmt::format("the number of an expert is {}, which is out of range", id));
    ids.push_back(to_int(id));
  }
  return ids;
}

class Responses {
 public:
  void take_response(const JsonFields& response) { take_object(response, 0); }  // throws Unreadable
  // `shape`: [tokens, layers, K] or [sequences, tokens, layers, K]. Also [tokens, layers * K] or one dimension, if
  // shape_of_rows() finds the rest.
  void take(const std::vector<std::size_t>& shape, std::vector<int> ids);
  // Takes arrays [tokens, K] by layer as one array [tokens, layers, K], in which layers without an array are zeros.
  void take_layers(const std::map<int, std::vector<int>>& layers, std::size_t top_k);
  void end_lines() {  // of lines that have the experts of a token in one layer
    if (!by_layer_.empty()) take_layers(by_layer_, top_k_);
  }
  bool empty() const { return sequences_.empty(); }
  std::shared_ptr<History> build(RunInfo info, const ImportOptions& options, std::shared_ptr<const RoutedRows>& rows);
  std::string padding_text() const;  // after build(); empty: no sequence begins with tokens without experts

 private:
  void take_json(JsonValue value, int depth);
  void take_object(const JsonFields& fields, int depth);
  void take_value(JsonValue value);
  void take_bytes(const std::string& bytes);
  void take_lists(JsonValue value, int layer = -1);
  // Returns the number of tokens that have experts: all except the last one; 0: not known.
  std::size_t tokens_of_response() const {
    return tokens_ && *tokens_ > 1 ? static_cast<std::size_t>(*tokens_ - 1) : 0;
  }

  std::vector<RoutedSequence> sequences_;
  std::map<int, std::vector<int>> by_layer_;
  std::size_t ids_ = 0, top_k_ = 0;
  std::size_t padded_sequences_ = 0, longest_padding_ = 0;
  std::optional<std::int64_t> tokens_;  // tokens of prompt and completion of the current response
};

void Responses::take(const std::vector<std::size_t>& shape, std::vector<int> ids) {
  if (shape.size() == 1 || shape.size() == 2) {  // one response, whose layers and K are not known
    if (ids.empty()) throw Unreadable("an empty array");
    const bool has_tokens = shape.size() == 2;
    sequences_.push_back(
        {std::move(ids), 0, 0, has_tokens ? shape[0] : tokens_of_response(), has_tokens ? shape[1] : 0});
    return;
  }
  if (shape.size() < 3 || shape.size() > 4)
    throw Unreadable(fmt::format("an array of {} dimensions, expected tokens, layers and K", shape.size()));
  const std::size_t sequences = shape.size() == 4 ? shape[0] : 1;
  const std::size_t tokens = shape[shape.size() - 3], layers = shape[shape.size() - 2], top_k = shape.back();
  if (layers > kMaxImportedLayers || top_k > kMaxChosen) throw Unreadable("more layers or experts than models have");
  const std::size_t value_count = tokens * layers * top_k;
  if (value_count == 0) throw Unreadable("an empty array");
  for (std::size_t s = 0; s < sequences; ++s) {
    const auto first = ids.begin() + s * value_count;
    sequences_.push_back({{first, first + value_count}, layers, top_k});
  }
}

void Responses::take_layers(const std::map<int, std::vector<int>>& layers, std::size_t top_k) {
  const std::size_t size = layers.begin()->second.size(), layer_count = layers.rbegin()->first + 1;
  if (size == 0) throw Unreadable("an empty array");
  if (size * layer_count > kMaxIds) throw Unreadable("more than a billion values");
  std::vector<int> by_token(size * layer_count);
  for (const auto& [layer, ids] : layers) {
    if (ids.size() != size) throw Unreadable("the layers have different numbers of tokens");
    for (std::size_t i = 0; i < size; ++i) by_token[(i / top_k * layer_count + layer) * top_k + i % top_k] = ids[i];
  }
  take({size / top_k, layer_count, top_k}, std::move(by_token));
}

void Responses::take_bytes(const std::string& bytes) {
  if (begins_like_npy(bytes)) {
    try {
      const NpyHeader header = npy_header(bytes);
      const TensorView tensor =
          npy_tensor(header, std::string(kRoutedExperts), std::as_bytes(std::span(bytes)).subspan(header.data_at));
      return take(header.shape, ids_of(tensor));
    } catch (const Unreadable&) {
      throw;
    } catch (const std::runtime_error& problem) {
      throw Unreadable(std::string("an .npy file that ") + problem.what());
    }
  }
  const std::size_t count = bytes.size() / sizeof(std::int32_t);
  if (bytes.size() % sizeof(std::int32_t) != 0 || count == 0)
    throw Unreadable(fmt::format("{} bytes are not an array of int32", bytes.size()));
  const TensorView tensor{std::string(kRoutedExperts), DType::i32, {count}, std::as_bytes(std::span(bytes))};
  sequences_.push_back({ids_of(tensor), 0, 0, tokens_of_response()});
}

void Responses::take_lists(JsonValue value, int layer) {
  std::vector<std::size_t> shape;
  for (JsonValue inner = value; inner.is_array();) {
    const JsonList list = list_of(inner, "routed_experts", 0, "");
    shape.push_back(list.size());
    if (list.size() == 0 || shape.size() > 4) throw Unreadable("empty lists, or lists too deep");
    inner = *list.begin();
  }
  std::vector<int> ids;
  const auto add = [&](const auto& self, JsonValue at, std::size_t depth) -> void {
    if (depth == shape.size())
      return ids.push_back(to_index(at, "routed_experts", -1, to_int(kMaxImportedExperts) - 1));
    for (const JsonValue item : list_of(at, "routed_experts", shape[depth], "values")) self(self, item, depth + 1);
  };
  add(add, value, 0);
  if (layer < 0) return take(shape, std::move(ids));
  if (std::exchange(top_k_, shape.back()) != shape.back() && !by_layer_.empty())
    throw Unreadable("tokens have different numbers of experts");
  std::ranges::copy(ids, std::back_inserter(by_layer_[layer]));
}

void Responses::take_value(JsonValue value) {
  if (value.is_array()) return take_lists(value);
  std::string text = to_text(value, "routed_experts");
  ids_ += text.size();
  if (ids_ > kMaxIds) throw Unreadable("more than a billion bytes of routing");
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  const std::optional<std::string> bytes = from_base64url(text);
  if (!bytes) throw Unreadable("not base64");
  take_bytes(*bytes);
}

void Responses::take_object(const JsonFields& fields, int depth) {
  const std::optional<std::int64_t> outer = tokens_;
  const JsonFields* counts = &fields;
  std::optional<JsonFields> usage;
  if (const JsonValue* found = member(fields, {"usage"}); found && found->is_object())
    counts = &usage.emplace(fields_of(*found, "usage"));
  const JsonValue* prompt = member(*counts, {"prompt_tokens"});
  const JsonValue* completion = member(*counts, {"completion_tokens"});
  if (prompt && completion)
    tokens_ = to_count(*prompt, "prompt_tokens", 1e9) + to_count(*completion, "completion_tokens", 1e9);
  const JsonValue* const layer = member(fields, {"layer", "layer_idx", "layer_id"});
  for (const auto& field : fields)
    if (field.key == kRoutedExperts && !field.value.is_null())
      take_value(field.value);
    else if (layer && field.value.is_array() && is_of_token(field.key))
      take_lists(field.value, to_index(*layer, "layer", 0, kLastImportedLayer));
    else
      take_json(field.value, depth + 1);
  tokens_ = outer;
}

void Responses::take_json(JsonValue value, int depth) {
  if (depth > kDeepest) return;
  if (value.is_object()) return take_object(fields_of(value, "response"), depth);
  if (!value.is_array()) return;
  for (const JsonValue item : list_of(value, "response", 0, "")) take_json(item, depth + 1);
}

// Reads the experts of a row and counts its empty slots.
class RoutedRowReader {
 public:
  RoutedRowReader(EmptySlots empty, std::size_t top_k) : empty_(empty), top_k_(top_k) {}
  // Returns the largest number of experts in a row.
  std::size_t most_experts(std::span<const RoutedSequence> sequences) const {
    std::size_t max_distinct = 1;
    for (const RoutedSequence& sequence : sequences)
      for (std::size_t first = 0; first < sequence.ids.size() && max_distinct < top_k_; first += top_k_) {
        const auto is_expert = [&](int id) { return !empty_.is_empty(id); };
        const auto row = std::span(sequence.ids).subspan(first, top_k_);
        max_distinct = std::max<std::size_t>(max_distinct, std::ranges::count_if(row, is_expert));
      }
    return max_distinct;
  }
  // Returns the experts; empty for a dense layer, padding, or a row without experts.
  std::vector<int>& read(std::span<const int> ids_K) {
    const auto [lowest, highest] = std::ranges::minmax(ids_K);
    row_.clear();
    if (top_k_ > 1 && lowest == highest && !empty_.is_empty(lowest)) return row_;
    for (const int id : ids_K)
      if (!empty_.is_empty(id)) row_.push_back(id);
    empty_slots_.add(top_k_, top_k_ - row_.size());
    return row_;
  }
  const EmptySlotCount& empty_slots() const { return empty_slots_; }

 private:
  EmptySlots empty_;
  std::size_t top_k_;
  EmptySlotCount empty_slots_;
  std::vector<int> row_;
};

// Returns the dense layers: if K is 1, the zeros of a dense layer look like a router that sends every token to expert
// 0, so layers with zeros only are taken to be dense, unless all layers have zeros only.
std::set<int> dense_layers(std::span<const RoutedSequence> sequences, const RowShape& shape) {
  std::set<int> dense;
  for (std::size_t layer = 0; layer < shape.layers && shape.top_k == 1; ++layer) dense.insert(to_int(layer));
  for (const RoutedSequence& sequence : sequences)
    for (std::size_t i = 0; i < sequence.ids.size() && !dense.empty(); ++i)
      if (sequence.ids[i] != 0) dense.erase(to_int(i % shape.layers));
  return dense.size() < shape.layers ? dense : std::set<int>();
}

std::shared_ptr<History> Responses::build(RunInfo info, const ImportOptions& options,
                                          std::shared_ptr<const RoutedRows>& rows) {
  const RowShape shape = shape_of_rows(sequences_, options.routed, info.source);
  RoutedRowReader reader(EmptySlots(sequences_, shape, options.routed.experts, info.source), shape.top_k);
  RoutedTokenStatistics tokens(info.source);
  tokens.expect_top_k(reader.most_experts(sequences_));
  const std::set<int> dense = dense_layers(sequences_, shape);
  if (options.routed.experts > 0) tokens.expect_experts(options.routed.experts);
  for (std::size_t s = 0; s < sequences_.size(); ++s) {
    const std::span<const int> ids = sequences_[s].ids;
    std::optional<std::size_t> first_token;  // that has experts
    for (std::size_t first = 0; first < ids.size(); first += shape.top_k) {
      std::vector<int>& row = reader.read(ids.subspan(first, shape.top_k));
      const int layer = to_int(first % shape.ids() / shape.top_k);
      if (dense.contains(layer)) continue;
      std::ranges::sort(row);
      if (const auto expert = std::ranges::adjacent_find(row); expert != row.end())  // which no router chooses
        refuse(info.source,
               fmt::format("sequence {}, token {}, layer {} has expert {} twice: these are not experts of tokens, or "
                           "their shape is different (--layers, --top-k)",
                           s, first / shape.ids(), layer, *expert));
      if (row.empty()) continue;
      if (!first_token) first_token = first / shape.ids();
      tokens.add(s, {false, layer}, row);
    }
    padded_sequences_ += first_token.value_or(0) > 0;
    longest_padding_ = std::max(longest_padding_, first_token.value_or(0));
  }
  if (tokens.empty())
    refuse(info.source, "contains no routing: no token has an expert, or all experts of a token are the same");
  const int run = info.run;
  ImportOptions token_options = options;
  token_options.routed.top_k = 0;  // a stated K counts the slots of a row, which may hold fewer experts
  const auto history = tokens.build(std::move(info), token_options);
  rows = tokens.rows();
  append_marker(*history, options, {run, 0, "event", "Each step is a sequence: a response, or a row of the batch"});
  if (!dense.empty())
    append_marker(*history, options,
                  {run, 0, "event",
                   "Layers where every token has expert 0 are left out, because dense layers are stored as zeros: " +
                       joined(dense, ", ", [](int layer) { return std::to_string(layer); })});
  reader.empty_slots().mark(*history, options);
  return history;
}

std::string Responses::padding_text() const {
  if (padded_sequences_ == 0) return {};
  return fmt::format(
      "{} of {} sequences begin with tokens without experts, at most {}: padded on the left, or not computed because "
      "the prompt was cached. A program that counts rows from the first token must leave these out",
      padded_sequences_, sequences_.size(), longest_padding_);
}

// Takes a tensor of another name if its axes are [layers, tokens, K], as the stated number of layers says. Returns
// false if they are in the other order. Throws AmbiguousRouting if the number is needed.
bool take_by_layer(const std::string& path, const TensorView& tensor, std::size_t layers, const std::vector<int>& ids,
                   Responses& responses) {
  const std::vector<std::size_t>& shape = tensor.shape;
  const std::size_t rows = shape[shape.size() - 3], cols = shape[shape.size() - 2], top_k = shape.back();
  if (tensor.name.ends_with("_of_layer")) layers = rows;  // SGLang's recorder
  if (layers == 0 && rows > 1)
    throw AmbiguousRouting(
        fmt::format("{}: the axes of '{}' {} may be tokens, layers and experts of a token (--layers {}) or layers, "
                    "tokens and experts of a token (--layers {}); the number of layers decides",
                    path, printable(tensor.name), shape_text(shape), cols, rows));
  if (layers == 0 || layers == cols || layers != rows || shape.size() != 3 || ids.empty()) return false;
  std::map<int, std::vector<int>> by_layer;
  for (auto first = ids.begin(); first != ids.end(); first += cols * top_k)
    by_layer.emplace(by_layer.size(), std::vector(first, first + cols * top_k));
  responses.take_layers(by_layer, top_k);
  return true;
}

// Takes arrays [tokens, K] whose names have the layer. Returns false if they are none.
bool take_layers(const std::vector<const TensorView*>& tensors, Responses& responses) {
  std::map<int, std::vector<int>> layers;
  for (const TensorView* tensor : tensors) {
    const int layer = count_name(tensor->name).layer;
    if (layer < 0 || layer > kLastImportedLayer || tensor->shape.size() != 2 ||
        tensor->shape != tensors.front()->shape || !layers.emplace(layer, ids_of(*tensor)).second)
      return false;
  }
  if (layers.size() < 2) return false;
  responses.take_layers(layers, tensors.front()->shape[1]);
  return true;
}

bool is_routing(const TensorView& tensor) {
  return is_named_routing(tensor.name) && is_integer(tensor.dtype);
}

void take_tensors(const std::string& path, const ImportOptions& options, Responses& responses, Imported& imported) {
  const TensorFile file = open_tensors(path);
  const bool has_order = std::filesystem::path(path).filename().string().find(kRoutedExperts) != std::string::npos;
  const auto is_named = [](const TensorView& tensor) { return is_named_routing(tensor.name); };
  const bool by_name = std::ranges::any_of(file.tensors(), is_named);  // other tensors are positions, masks, ...
  std::vector<const TensorView*> named;
  for (const TensorView& tensor : file.tensors())
    if (is_routing(tensor)) named.push_back(&tensor);
  try {
    if (take_layers(named, responses)) return void(imported.lines += std::ssize(named));
  } catch (const Unreadable& unreadable) {
    return imported.bad.add(1, unreadable.what());
  }
  for (const TensorView& tensor : file.tensors()) {
    ++imported.lines;
    const std::size_t min_dimensions = is_named(tensor) ? 1 : 3;
    if (!is_integer(tensor.dtype) || tensor.shape.size() < min_dimensions || (by_name && !is_named(tensor))) continue;
    try {
      if (tensor.elements() > tensor.bytes.size()) throw Unreadable(tensor.name + ": repeats its stored values");
      if (tensor.elements() > kMaxIds) throw Unreadable(tensor.name + ": more than a billion values");
      std::vector<int> ids = ids_of(tensor);
      const bool is_ordered = has_order || tensor.name.find(kRoutedExperts) != std::string::npos;
      if (is_ordered || tensor.shape.size() < 3 || !take_by_layer(path, tensor, options.routed.layers, ids, responses))
        responses.take(tensor.shape, std::move(ids));
    } catch (const Unreadable& unreadable) {
      imported.bad.add(imported.lines, tensor.name + ": " + unreadable.what());
    }
  }
}

}  // namespace

Imported import_routed_experts(const std::string& path, const ImportOptions& options) {
  Imported imported;
  Responses responses;
  if (begins_like_json(beginning_of(path, 64))) {
    imported.lines = read_objects(
        read_file(path, kLargestResponses, "file of responses"),
        [&](const JsonFields& response) { responses.take_response(response); },
        [&](std::int64_t line, const std::string& reason) { imported.bad.add(line, reason); });
    try {
      responses.end_lines();
    } catch (const Unreadable& unreadable) {
      refuse(path, unreadable.what());
    }
  } else {
    imported.bad = BadLines("tensor");
    take_tensors(path, options, responses, imported);
  }
  if (options.progress && !options.progress(0.5)) return {};
  if (responses.empty()) refuse(path, "holds no routed_experts" + imported.bad.also());
  imported.runs.push_back(responses.build(info_of_run(path, options), options, imported.routes));
  remark_shift(options, imported);
  if (const std::string padding = responses.padding_text(); !padding.empty()) imported.remarks.push_back(padding);
  if (options.progress) options.progress(1);
  return imported;
}

bool is_routed_experts(const std::string& path, std::string_view bytes) {
  constexpr std::size_t kMaxDimensions = 4, kLookedAt = 4096, kLongResponse = std::size_t{4} << 20;
  const std::string name = std::filesystem::path(path).filename().string();
  const bool is_named = is_named_routing(name);
  const auto has_key = [](std::string_view json) {
    const bool is_token =  // {"layer": 3, "topk_ids": [5, 2]}
        has_any(json, {"\"layer"}) && !has_any(json, {"\"step\"", "loss\""}) &&
        std::ranges::any_of(kOtherNames,
                            [&](auto key) { return is_of_token(key) && has_any(json, {fmt::format("\"{}\"", key)}); });
    return is_token || has_any(json, {"\"routed_experts\""});
  };
  try {
    if (begins_like_zip(bytes) || begins_like_pickle(bytes) || path.ends_with(".safetensors"))
      return is_named || std::ranges::any_of(open_tensors(path).tensors(), [](const TensorView& tensor) {
               return is_routing(tensor) && tensor.shape.size() > 1 && tensor.shape.size() <= kMaxDimensions;
             });
    if (begins_like_npy(bytes)) {
      const NpyHeader header = npy_header(bytes);
      return is_integer(header.dtype) && header.shape.size() >= (is_named ? 1 : 3) &&
             header.shape.size() <= kMaxDimensions;
    }
  } catch (const std::runtime_error&) {  // its own reader says what is wrong
    return false;
  }
  if (!bytes.starts_with('{') && !bytes.starts_with('[')) return false;
  if (name.find(kRoutedExperts) != name.npos || has_key(bytes)) return true;
  // The text of a response may precede its routing.
  const bool is_longer = bytes.size() == kLookedAt && bytes.find("\"step\"") == bytes.npos;
  return is_longer && has_key(beginning_of(path, kLongResponse));
}

}  // namespace moescope
