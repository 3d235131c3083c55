#include "core/logs/lines/frame_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/frame/describe.h"
#include "core/frame/specialisation.h"
#include "core/io/text_escape.h"
#include "core/logs/import.h"

namespace moescope {

namespace {

constexpr int kMaxLayers = static_cast<int>(kMaxImportedLayers);
constexpr double kMaxRanks = 4096;
// Limit of the memory for the values of a line: kBytesOfAnyLine plus kBytesAByte per byte of the line, at most
// kMostStepBytes. Rows of quantization take the most, 30 bytes of memory per byte of the line. Counts by byte take 500
// if the line has few bytes, but they are small.
constexpr std::size_t kMostStepBytes = std::size_t{256} << 20, kBytesOfAnyLine = std::size_t{4} << 20, kBytesAByte = 64;
constexpr std::size_t kMaxRows = 65535;  // rows of one kind in a frame; the recording's id has 16 bits for their index

template <class Frame, std::size_t N>
void get_figures(const JsonFields& json, Frame& frame, const std::array<FrameFigure<Frame>, N>& table) {
  for (const auto& figure : table) {
    if (const JsonValue* found = json.find(figure.column)) frame.*figure.member = to_float(*found, figure.column);
  }
}

// Reads the figures of the step. In a line of one layer, "aux_loss" and "z_loss" are figures of the layer.
void get_step_figures(const JsonFields& json, TelemetryFrame& frame) {
  const bool of_layer = json.find("layer") != nullptr;
  for (const auto& figure : kFrameFigures) {
    const std::string_view name = figure.column;
    if (of_layer && std::ranges::any_of(kRouterFigures, [&](const auto& each) { return name == each.column; }))
      continue;
    if (const JsonValue* found = json.find(name)) frame.*figure.member = to_float(*found, figure.column);
  }
}

// Reads a list of objects, if the line has one: each object by read(fields).
template <class Row, class Read>
void get_rows(const JsonFields& json, const char* key, std::vector<Row>& rows, LineBudget& budget, Read read) {
  const JsonValue* found = member(json, {key});
  if (!found) return;
  const JsonList list = list_of(*found, key, 0, "");
  if (list.size() > kMaxRows) throw Unreadable(std::string(key) + ": too many entries");
  for (const JsonValue row : list)
    if (!row.is_object()) throw Unreadable(std::string(key) + ": not a list of objects");
  budget.take(list.size() * sizeof(Row));
  rows.reserve(list.size());
  for (const JsonValue row : list) rows.push_back(read(fields_of(row, key)));
}

int layer_of(const JsonFields& json, int lowest) {
  const JsonValue* found = json.find("layer");
  if (!found) throw Unreadable("no layer");
  return found->is_null() ? -1 : to_index(*found, "layer", lowest, kLastImportedLayer);
}

std::string text_of(const JsonFields& json, const char* key) {
  const JsonValue* text = member(json, {key});
  return text ? to_text(*text, key) : std::string();
}

template <class Enum>
Enum named(const std::string& name, Names<Enum> names, const char* key) {
  if (const auto found = find_named(name, names)) return *found;
  throw Unreadable(std::string(key) + ": \"" + name + "\" is not known");
}

// Parses the name of a field that is the number of a byte. Throws Unreadable "KEY: "NAME" WHY".
std::size_t byte_of(std::string_view name, const char* key, const char* why) {
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), byte);
  if (error != std::errc{} || end != name.data() + name.size() || name.size() > 3 || byte > 255)
    throw Unreadable(std::string(key) + ": \"" + std::string(name) + "\" " + why);
  return byte;
}

// Reads [rows][columns] into one array; n_rows == 0: any number of rows.
template <class Count>
std::vector<Count> matrix(const JsonFields& json, const char* key, std::size_t n_rows, std::size_t columns) {
  constexpr double limit = sizeof(Count) == 8 ? 9e15 : sizeof(Count) == 4 ? 4294967295.0 : 65535.0;
  const JsonValue* list = member(json, {key});
  if (!list) return {};
  std::vector<Count> out;
  for (const JsonValue row : list_of(*list, key, n_rows, "rows")) {
    for (const JsonValue value : list_of(row, key, columns, "columns")) {
      out.push_back(static_cast<Count>(to_count(value, key, limit)));
    }
  }
  return out;
}

VolumeFrame volume_from_json(const JsonFields& json, LineBudget& budget) {
  VolumeFrame volume;
  const JsonValue* ranks = member(json, {"ranks"});
  const JsonValue* per_node = member(json, {"ranks_per_node"});
  if (!ranks) throw Unreadable("volume: no ranks");
  volume.ranks = to_index(*ranks, "ranks", 1, static_cast<int>(kMaxRanks));
  volume.ranks_per_node =
      per_node ? to_index(*per_node, "ranks_per_node", 1, static_cast<int>(kMaxRanks)) : volume.ranks;
  const auto n = static_cast<std::size_t>(volume.ranks);
  const std::size_t nodes =
      (n + static_cast<std::size_t>(volume.ranks_per_node) - 1) / static_cast<std::size_t>(volume.ranks_per_node);
  volume.copies_RR = matrix<std::uint32_t>(json, "copies", n, n);
  volume.distinct_RR = matrix<std::uint32_t>(json, "distinct", n, n);
  volume.nodes_RN = matrix<std::uint32_t>(json, "nodes", n, nodes);
  if (volume.copies_RR.empty()) throw Unreadable("volume: no copies");
  budget.take(sizeof(std::uint32_t) * n * (n + nodes));
  // The counts of the standard all-to-all suffice for its panel; the recording needs all three arrays or none.
  if (volume.distinct_RR.empty()) volume.distinct_RR.resize(n * n);
  if (volume.nodes_RN.empty()) volume.nodes_RN.resize(n * nodes);
  return volume;
}

// Reads one row of a frame as a visitor of describe().
class RowFromJson {
 public:
  // `experts`: E; 0: not known, so that the first array by expert gives it.
  RowFromJson(const JsonFields& json, int experts) : json_(json), experts_(static_cast<std::size_t>(experts)) {}

  void layer(int& layer, LayerColumn column) { layer = layer_of(json_, column.lowest); }
  template <class Frame, std::size_t N>
  void figures(Frame& frame, const std::array<FrameFigure<Frame>, N>& table) {
    get_figures(json_, frame, table);
  }
  void by_expert(std::vector<std::uint32_t>& counts, Column column) {
    const JsonValue* list = member(json_, {column.name});
    if (!list || list_of(*list, column.name, 0, "").size() == 0) return;  // a dense layer
    counts = to_counts(*list, column.name, experts_);
    experts_ = counts.size();
  }
  void by_expert(std::vector<float>& values, Column column) {
    const JsonValue* list = member(json_, {column.name});
    if (!list) return;
    if (experts_ == 0) throw Unreadable(std::string(column.name) + ": the number of experts is not known");
    values = to_floats(*list, column.name, experts_);
  }
  void bins(std::vector<std::uint32_t>& counts, Column column) {
    const JsonValue* list = member(json_, {column.name});
    if (!list) return;
    JsonList array;
    const bool wide = list->get(array) == simdjson::SUCCESS && array.size() == kWideHalfOctaves;
    counts = to_counts(*list, column.name, wide ? kWideHalfOctaves : kHalfOctaves, "bins");
  }
  void bins(HalfOctaves& bins, Column column) {
    std::vector<std::uint32_t> counts;
    if (const JsonValue* list = member(json_, {column.name}))
      counts = to_counts(*list, column.name, kHalfOctaves, "bins");
    std::copy(counts.begin(), counts.end(), bins.begin());
  }
  template <class Enum>
  void name(Enum& value, Column column, Names<Enum> names) {
    value = named(text_of(json_, column.name), names, column.name);
  }
  void text(std::string& text, Column column) { text = text_of(json_, column.name); }
  void gemm(Gemm& gemm) {
    GemmClass gemm_class = GemmClass::experts;
    if (const std::string name = text_of(json_, "gemm_class"); !name.empty())
      gemm_class = named(name, Names{gemm_class_name, kNumQuantClasses}, "gemm_class");
    const std::string weight = text_of(json_, "weight");
    const auto found = find_gemm(gemm_class, weight);
    if (!found) throw Unreadable("weight: \"" + weight + "\" is not known");
    gemm = *found;
  }
  void scales(std::array<std::uint32_t, 256>& e8m0_blocks) {
    const JsonValue* blocks = member(json_, {"e8m0_blocks"});
    if (!blocks) return;
    for (const auto& [name, count] : fields_of(*blocks, "e8m0_blocks")) {
      e8m0_blocks[byte_of(name, "e8m0_blocks", "is not a scale byte")] =
          static_cast<std::uint32_t>(to_count(count, "e8m0_blocks", 4294967295.0));
    }
  }

 private:
  const JsonFields& json_;
  std::size_t experts_;
};

template <class Row>
Row row_from_json(const JsonFields& json, const RunInfo& info) {
  Row row;
  RowFromJson visitor(json, info.n_experts);
  describe(row, visitor);
  return row;
}

SpecialisationFrame specialisation_from_json(const JsonFields& json, const RunInfo& info, LineBudget& budget) {
  SpecialisationFrame special;
  special.layer = layer_of(json, 0);
  special.experts = info.n_experts;
  const auto experts = static_cast<std::size_t>(info.n_experts);
  if (experts == 0) throw Unreadable("specialisation: the number of experts is not known");
  special.domain_DE = matrix<std::uint32_t>(json, "domain", info.domains.size(), experts);
  special.together_EE = matrix<std::uint32_t>(json, "together", experts, experts);
  if (const JsonValue* bytes = member(json, {"byte"})) {
    const JsonFields by_name = fields_of(*bytes, "byte");
    if (256 * experts > kMaxImportedLoads) throw Unreadable("byte: too many experts");
    const std::size_t counts_of_bytes = by_name.begin() == by_name.end() ? 0 : 256 * experts;
    budget.take(sizeof(std::uint32_t) * counts_of_bytes);
    special.byte_256E.resize(counts_of_bytes);
    for (const auto& [name, list] : by_name) {
      const std::size_t byte = byte_of(name, "byte", "is not a byte");
      const auto counts = to_counts(list, "byte", experts);
      std::copy(counts.begin(), counts.end(), special.byte_256E.begin() + static_cast<std::ptrdiff_t>(byte * experts));
    }
  }
  const auto by_expert = [&](std::vector<float>& values, const char* key) {
    if (const JsonValue* list = member(json, {key})) values = to_floats(*list, key, experts);
  };
  by_expert(special.weight_norm_E, "weight_norm");
  by_expert(special.weight_sqnr_E, "weight_sqnr");
  by_expert(special.gradient_norm_E, "gradient_norm");
  by_expert(special.update_norm_E, "update_norm");
  if (const JsonValue* list = member(json, {"bias_for_share"}))
    special.bias_for_share_EQ = to_floats(*list, "bias_for_share", experts * kBiasShares);
  return special;
}

// Returns the number of experts of the first token; 0 if it has no experts.
std::size_t top_k_of(JsonList tokens) {
  const JsonValue first = *tokens.begin();
  if (first.is_null()) return 0;
  if (simdjson::dom::object object; first.get(object) == simdjson::SUCCESS && object.size() == 0) return 0;
  return list_of(first, "experts", 0, "").size();
}

TokenLayer token_layer_from_json(const JsonFields& json, std::size_t tokens, const RunInfo& info) {
  TokenLayer layer;
  layer.layer = layer_of(json, 0);
  const JsonValue* list = member(json, {"experts"});
  const std::size_t top_k = list && tokens > 0 ? top_k_of(list_of(*list, "experts", tokens, "tokens")) : 0;
  if (top_k == 0) throw Unreadable("layers: no experts");
  if (top_k > static_cast<std::size_t>(info.n_experts)) throw Unreadable("experts: more than there are");
  layer.top_k = static_cast<int>(top_k);
  layer.experts_TK = matrix<std::uint16_t>(json, "experts", tokens, top_k);
  for (const std::uint16_t expert : layer.experts_TK) {
    if (expert >= info.n_experts) throw Unreadable("experts: there is no expert " + std::to_string(expert));
  }
  layer.scores_TK.assign(tokens * top_k, kNoValue);
  if (const JsonValue* scores = member(json, {"scores"}))
    layer.scores_TK = to_floats(*scores, "scores", tokens * top_k);
  layer.margin_T.assign(tokens, kNoValue);
  if (const JsonValue* margin = member(json, {"margin"}))
    layer.margin_T = to_floats(*margin, "margin", tokens, "tokens");
  return layer;
}

TokenFrame text_from_json(const JsonFields& json, const RunInfo& info, LineBudget& budget) {
  TokenFrame text;
  text.kind = named(text_of(json, "kind"), Names{text_kind_name, kNumTextKinds}, "kind");
  const auto bytes = unescape_bytes(text_of(json, "text"));
  if (!bytes) throw Unreadable("text: a backslash that starts no escape");
  text.text = *bytes;
  if (const JsonValue* prompt = member(json, {"prompt"}))
    text.prompt = to_index(*prompt, "prompt", 0, static_cast<int>(text.text.size()));
  text.domain = text_of(json, "domain");
  text.loss_T.assign(text.text.size(), kNoValue);
  if (const JsonValue* loss = member(json, {"loss"}))
    text.loss_T = to_floats(*loss, "loss", text.text.size(), "tokens");
  get_rows(json, "layers", text.layers, budget,
           [&](const JsonFields& layer) { return token_layer_from_json(layer, text.text.size(), info); });
  return text;
}

WireFrame wire_from_json(const JsonFields& json) {
  WireFrame wire;
  const JsonValue* ranks = member(json, {"ranks"});
  if (!ranks) throw Unreadable("wire: no ranks");
  wire.ranks = to_index(*ranks, "ranks", 1, static_cast<int>(kMaxRanks));
  const auto n = static_cast<std::size_t>(wire.ranks);
  if (const JsonValue* over_nodes = member(json, {"over_nodes"}); over_nodes && over_nodes->is_bool())
    wire.over_nodes = over_nodes->get_bool().value_unsafe();
  wire.sent_RR = matrix<std::uint64_t>(json, "sent_bytes", n, n);
  if (wire.sent_RR.empty()) throw Unreadable("wire: no sent_bytes");
  const JsonValue* ms = member(json, {"all_to_all_ms"});
  wire.all_to_all_ms_R = ms ? to_floats(*ms, "all_to_all_ms", n, "ranks") : std::vector<float>(n, kNoValue);
  return wire;
}

void read_phases(const JsonFields& json, TelemetryFrame& frame) {
  const JsonValue* phases = member(json, {"phase_ms"});
  if (!phases) return;
  const JsonFields by_name = fields_of(*phases, "phase_ms");
  for (int p = 0; p < kNumPhases; ++p) {
    if (const JsonValue* found = by_name.find(phase_key(static_cast<Phase>(p))))
      frame.phase_ms[static_cast<std::size_t>(p)] = to_float(*found, "phase_ms");
  }
}

int setting(const JsonFields& json, std::initializer_list<const char*> keys, int limit) {
  const JsonValue* value = member(json, keys);
  return value ? to_index(*value, *keys.begin(), 0, limit) : 0;
}

}  // namespace

LineBudget::LineBudget(std::size_t line_bytes)
    : left_(std::min(kMostStepBytes, kBytesOfAnyLine + kBytesAByte * line_bytes)) {}

void LineBudget::take(std::size_t bytes) {
  if (bytes > left_) throw Unreadable("claims far more memory than the line is long");
  left_ -= bytes;
}

RouterFrame router_from_json(const JsonFields& json, const RunInfo& info, LineBudget& budget) {
  auto router = row_from_json<RouterFrame>(json, info);
  if (router.layer < 0) throw Unreadable("layer: not a number");
  if (const JsonValue* volume = member(json, {"volume"}))
    router.volume = volume_from_json(fields_of(*volume, "volume"), budget);
  return router;
}

TelemetryFrame frame_from_json(const JsonFields& json, const RunInfo& info, LineBudget& budget,
                               const RouterNames& names) {
  TelemetryFrame frame;
  const JsonValue* step = member(json, {"step"});
  if (!step) throw Unreadable("no step");
  frame.step = to_step(*step, 1e15);
  // Values that the log does not have are missing, not 0.
  frame.aux_loss = kNoValue;
  frame.z_loss = kNoValue;
  get_step_figures(json, frame);
  if (const JsonValue* wall = member(json, {"wall_s"}); wall && wall->is_number())
    frame.wall_s = wall->get_double().value_unsafe();
  if (const JsonValue* tokens = member(json, {"tokens"})) frame.tokens = to_count(*tokens, "tokens", 9e15);
  read_phases(json, frame);
  const auto get_all = [&]<class Row>(const char* key, std::vector<Row>& out) {
    get_rows(json, key, out, budget, [&](const JsonFields& row) { return row_from_json<Row>(row, info); });
  };
  get_rows(json, "routers", frame.routers, budget,
           [&](const JsonFields& row) { return router_from_json(names ? names(row) : row, info, budget); });
  get_all("quants", frame.quants);
  get_all("flips", frame.flips);
  get_all("rounding_flips", frame.rounding_flips);
  get_all("router_roundings", frame.router_roundings);
  get_all("gradients", frame.gradients);
  get_rows(json, "specialisation", frame.specialisation, budget,
           [&](const JsonFields& row) { return specialisation_from_json(row, info, budget); });
  get_rows(json, "texts", frame.texts, budget,
           [&](const JsonFields& row) { return text_from_json(row, info, budget); });
  if (const JsonValue* wire = member(json, {"wire"})) frame.wire = wire_from_json(fields_of(*wire, "wire"));
  return frame;
}

RunInfo run_info_from_json(const JsonFields& json) {
  RunInfo info;
  if (const JsonValue* run = member(json, {"run"}); run && run->is_number())
    info.run = to_index(*run, "run", 0, 1 << 20);
  if (const JsonValue* name = member(json, {"name", "run", "run_name"}); name && name->is_string())
    info.name = printable(to_text(*name, "name"));  // so that it takes one line
  if (info.name.size() > kLongestImportedName) throw Unreadable("name: longer than 4096 bytes");
  // In this program's lines `config` is TOML; in other logs a key of this name is an ordinary setting.
  if (const JsonValue* config = member(json, {"config"}); config && config->is_string())
    info.config_toml = to_text(*config, "config");
  info.kernels = text_of(json, "kernels");
  info.n_layers = setting(json, {"layers", "n_layers", "num_layers", "num_hidden_layers"}, kMaxLayers);
  if (const JsonValue* layers = member(json, {"moe_layers"})) {
    const JsonList list = list_of(*layers, "moe_layers", 0, "");
    if (list.size() > kMaxImportedLayers) throw Unreadable("moe_layers: too many");
    for (const JsonValue layer : list) info.moe_layers.push_back(to_index(layer, "moe_layers", 0, kLastImportedLayer));
  }
  const int most_experts = static_cast<int>(kMaxImportedExperts);
  info.n_experts =
      setting(json, {"experts", "n_experts", "num_experts", "n_routed_experts", "num_local_experts"}, most_experts);
  info.top_k = setting(json, {"top_k", "topk", "num_experts_per_tok", "moe_router_topk"}, most_experts);
  info.dim = setting(json, {"dim", "hidden_size", "d_model"}, 1 << 24);
  info.ranks = setting(json, {"ranks"}, static_cast<int>(kMaxRanks));
  info.ranks_per_node = setting(json, {"ranks_per_node"}, static_cast<int>(kMaxRanks));
  info.window = setting(json, {"window"}, 100000);
  const int seq = setting(json, {"seq", "seq_len", "seq_length"}, 100'000'000);
  const int batch = setting(json, {"batch", "batch_size", "global_batch_size"}, 100'000'000);
  info.tokens_per_step = std::int64_t{seq} * batch;
  if (const JsonValue* tokens = member(json, {"tokens_per_step"}))
    info.tokens_per_step = to_count(*tokens, "tokens", 1e12);
  if (const JsonValue* domains = member(json, {"domains"}); domains && domains->is_array()) {
    const JsonList list = list_of(*domains, "domains", 0, "");
    if (list.size() > kMaxImportedLayers) throw Unreadable("domains: too many");
    for (const JsonValue domain : list) {
      if (domain.is_string()) info.domains.push_back(to_text(domain, "domains"));
    }
  }
  return info;
}

}  // namespace moescope
