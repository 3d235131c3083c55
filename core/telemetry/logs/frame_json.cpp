#include "core/telemetry/logs/frame_json.h"

#include <cctype>
#include <cmath>

#include "core/io/json_values.h"
#include "core/io/text_escape.h"
#include "core/telemetry/frame/describe.h"
#include "core/telemetry/logs/import.h"

namespace moescope {

namespace {

using Json = nlohmann::json;

constexpr int kMaxLayers = static_cast<int>(kMaxImportedLayers);
constexpr double kMaxRanks = 4096;
constexpr std::size_t kMaxRows = 65535;  // of one kind in a frame: their place is 16 bits of the recording's id

template <class Frame, std::size_t N>
void get_figures(const Json& json, Frame& frame, const std::array<FrameFigure<Frame>, N>& table) {
  for (const auto& figure : table) {
    const auto found = json.find(figure.column);
    if (found != json.end()) frame.*figure.member = to_float(*found, figure.column);
  }
}

const Json* rows(const Json& json, const char* key) {
  const Json* list = member(json, {key});
  if (!list) return nullptr;
  if (list_of(*list, key, 0, "").size() > kMaxRows) throw Unreadable(std::string(key) + ": too many entries");
  for (const Json& row : *list) {
    if (!row.is_object()) throw Unreadable(std::string(key) + ": not a list of objects");
  }
  return list;
}

int layer_of(const Json& json, int lowest) {
  const auto found = json.find("layer");
  if (found == json.end()) throw Unreadable("no layer");
  return found->is_null() ? -1 : to_index(*found, "layer", lowest, kMaxLayers);
}

std::string text_of(const Json& json, const char* key) {
  const Json* text = member(json, {key});
  if (!text) return {};
  if (!text->is_string()) throw Unreadable(std::string(key) + ": not a text");
  return *text;
}

template <class Enum>
Enum named(const std::string& name, const char* (*name_of)(Enum), int count, const char* key) {
  for (int i = 0; i < count; ++i) {
    if (name == name_of(static_cast<Enum>(i))) return static_cast<Enum>(i);
  }
  throw Unreadable(std::string(key) + ": \"" + name + "\" is not known");
}

// [rows][columns] into one array; rows 0: as many as there are.
template <class Count>
std::vector<Count> matrix(const Json& json, const char* key, std::size_t n_rows, std::size_t columns) {
  const Json* list = member(json, {key});
  if (!list) return {};
  std::vector<Count> out;
  for (const Json& row : list_of(*list, key, n_rows, "rows")) {
    for (const Json& value : list_of(row, key, columns, "columns")) {
      const double limit = sizeof(Count) == 8 ? 9e15 : sizeof(Count) == 4 ? 4294967295.0 : 65535.0;
      out.push_back(static_cast<Count>(to_count(value, key, limit)));
    }
  }
  return out;
}

VolumeFrame volume_from_json(const Json& json) {
  if (!json.is_object()) throw Unreadable("volume: not an object");
  VolumeFrame volume;
  const Json* ranks = member(json, {"ranks"});
  const Json* per_node = member(json, {"ranks_per_node"});
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
  // The counts of the standard all-to-all are enough for its panel; the recording needs all three or none.
  if (volume.distinct_RR.empty()) volume.distinct_RR.resize(n * n);
  if (volume.nodes_RN.empty()) volume.nodes_RN.resize(n * nodes);
  return volume;
}

// Of describe(): one row of a frame.
class RowFromJson {
 public:
  // experts: E; 0: not known, then as many as the first array by expert has.
  RowFromJson(const Json& json, int experts) : json_(json), experts_(static_cast<std::size_t>(experts)) {}

  void layer(int& layer, LayerColumn column) { layer = layer_of(json_, column.lowest); }
  template <class Frame, std::size_t N>
  void figures(Frame& frame, const std::array<FrameFigure<Frame>, N>& table) {
    get_figures(json_, frame, table);
  }
  void by_expert(std::vector<std::uint32_t>& counts, Column column) {
    const Json* list = member(json_, {column.name});
    if (!list) return;
    counts = to_counts(*list, column.name, experts_);
    experts_ = counts.size();
  }
  void by_expert(std::vector<float>& values, Column column) {
    const Json* list = member(json_, {column.name});
    if (!list) return;
    if (experts_ == 0) throw Unreadable(std::string(column.name) + ": the number of experts is not known");
    values = to_floats(*list, column.name, experts_);
  }
  void bins(std::vector<std::uint32_t>& counts, Column column) {
    if (const Json* list = member(json_, {column.name})) counts = to_counts(*list, column.name, kHalfOctaves, "bins");
  }
  void bins(HalfOctaves& bins, Column column) {
    std::vector<std::uint32_t> counts;
    this->bins(counts, column);
    std::copy(counts.begin(), counts.end(), bins.begin());
  }
  template <class Enum>
  void name(Enum& value, Column column, Names<Enum> names) {
    value = named(text_of(json_, column.name), names.name_of, names.count, column.name);
  }
  void text(std::string& text, Column column) { text = text_of(json_, column.name); }
  void gemm(Gemm& gemm) {
    GemmClass gemm_class = GemmClass::experts;
    if (const std::string name = text_of(json_, "gemm_class"); !name.empty())
      gemm_class = named(name, gemm_class_name, kNumQuantClasses, "gemm_class");
    const std::string weight = text_of(json_, "weight");
    const auto found = find_gemm(gemm_class, weight);
    if (!found) throw Unreadable("weight: \"" + weight + "\" is not known");
    gemm = *found;
  }
  void gemm_class(Gemm) {}
  void scales(std::array<std::uint32_t, 256>& e8m0_blocks) {
    const Json* blocks = member(json_, {"e8m0_blocks"});
    if (!blocks) return;
    if (!blocks->is_object()) throw Unreadable("e8m0_blocks: not an object");
    for (const auto& [key, count] : blocks->items()) {
      if (key.empty() || key.size() > 3 || key.find_first_not_of("0123456789") != std::string::npos ||
          std::stoi(key) > 255)
        throw Unreadable("e8m0_blocks: \"" + key + "\" is no scale byte");
      e8m0_blocks[static_cast<std::size_t>(std::stoi(key))] =
          static_cast<std::uint32_t>(to_count(count, "e8m0_blocks", 4294967295.0));
    }
  }

 private:
  const Json& json_;
  std::size_t experts_;
};

template <class Row>
Row row_from_json(const Json& json, const RunInfo& info) {
  Row row;
  RowFromJson visitor(json, info.n_experts);
  describe(row, visitor);
  return row;
}

SpecialisationFrame specialisation_from_json(const Json& json, const RunInfo& info) {
  SpecialisationFrame special;
  special.layer = layer_of(json, 0);
  special.experts = info.n_experts;
  const auto experts = static_cast<std::size_t>(info.n_experts);
  if (experts == 0) throw Unreadable("specialisation: the number of experts is not known");
  special.domain_DE = matrix<std::uint32_t>(json, "domain", info.domains.size(), experts);
  special.together_EE = matrix<std::uint32_t>(json, "together", experts, experts);
  if (const Json* bytes = member(json, {"byte"})) {
    if (!bytes->is_object()) throw Unreadable("byte: not an object");
    if (256 * experts > kMaxImportedLoads) throw Unreadable("byte: too many experts");
    special.byte_256E.resize(256 * experts);
    for (const auto& [key, list] : bytes->items()) {
      if (key.empty() || key.size() > 3 || key.find_first_not_of("0123456789") != std::string::npos ||
          std::stoi(key) > 255)
        throw Unreadable("byte: \"" + key + "\" is no byte");
      const auto counts = to_counts(list, "byte", experts);
      std::copy(counts.begin(), counts.end(),
                special.byte_256E.begin() + static_cast<std::ptrdiff_t>(std::stoul(key) * experts));
    }
  }
  if (const Json* list = member(json, {"weight_norm"}))
    special.weight_norm_E = to_floats(*list, "weight_norm", experts);
  if (const Json* list = member(json, {"weight_sqnr"}))
    special.weight_sqnr_E = to_floats(*list, "weight_sqnr", experts);
  return special;
}

TokenLayer token_layer_from_json(const Json& json, std::size_t tokens, const RunInfo& info) {
  TokenLayer layer;
  layer.layer = layer_of(json, 0);
  const Json* list = member(json, {"experts"});
  if (!list || tokens == 0 || list_of(*list, "experts", tokens, "tokens").front().size() == 0)
    throw Unreadable("layers: no experts");
  const std::size_t top_k = list_of(list->front(), "experts", 0, "").size();
  if (top_k > static_cast<std::size_t>(info.n_experts)) throw Unreadable("experts: more than there are");
  layer.top_k = static_cast<int>(top_k);
  layer.experts_TK = matrix<std::uint16_t>(json, "experts", tokens, top_k);
  for (const std::uint16_t expert : layer.experts_TK) {
    if (expert >= info.n_experts) throw Unreadable("experts: there is no expert " + std::to_string(expert));
  }
  layer.scores_TK.assign(tokens * top_k, kNoValue);
  if (const Json* scores = member(json, {"scores"})) layer.scores_TK = to_floats(*scores, "scores", tokens * top_k);
  layer.margin_T.assign(tokens, kNoValue);
  if (const Json* margin = member(json, {"margin"})) layer.margin_T = to_floats(*margin, "margin", tokens, "tokens");
  return layer;
}

TokenFrame text_from_json(const Json& json, const RunInfo& info) {
  TokenFrame text;
  text.kind = named(text_of(json, "kind"), text_kind_name, kNumTextKinds, "kind");
  const auto bytes = unescape_bytes(text_of(json, "text"));
  if (!bytes) throw Unreadable("text: a backslash that starts no escape");
  text.text = *bytes;
  if (const Json* prompt = member(json, {"prompt"}))
    text.prompt = to_index(*prompt, "prompt", 0, static_cast<int>(text.text.size()));
  text.domain = text_of(json, "domain");
  text.loss_T.assign(text.text.size(), kNoValue);
  if (const Json* loss = member(json, {"loss"})) text.loss_T = to_floats(*loss, "loss", text.text.size(), "tokens");
  if (const Json* layers = rows(json, "layers")) {
    for (const Json& layer : *layers) text.layers.push_back(token_layer_from_json(layer, text.text.size(), info));
  }
  return text;
}

WireFrame wire_from_json(const Json& json) {
  if (!json.is_object()) throw Unreadable("wire: not an object");
  WireFrame wire;
  const Json* ranks = member(json, {"ranks"});
  if (!ranks) throw Unreadable("wire: no ranks");
  wire.ranks = to_index(*ranks, "ranks", 1, static_cast<int>(kMaxRanks));
  const auto n = static_cast<std::size_t>(wire.ranks);
  if (const Json* over_nodes = member(json, {"over_nodes"}); over_nodes && over_nodes->is_boolean())
    wire.over_nodes = *over_nodes;
  wire.sent_RR = matrix<std::uint64_t>(json, "sent_bytes", n, n);
  wire.sent_RR.resize(n * n);
  const Json* ms = member(json, {"all_to_all_ms"});
  wire.all_to_all_ms_R = ms ? to_floats(*ms, "all_to_all_ms", n, "ranks") : std::vector<float>(n, kNoValue);
  return wire;
}

// "dense FFN" -> "dense_ffn"
std::string key_of(Phase phase) {
  std::string key = phase_name(phase);
  for (char& c : key) c = c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

void read_phases(const Json& json, TelemetryFrame& frame) {
  const Json* phases = member(json, {"phase_ms"});
  if (!phases) return;
  if (!phases->is_object()) throw Unreadable("phase_ms: not an object");
  for (int p = 0; p < kNumPhases; ++p) {
    const auto found = phases->find(key_of(static_cast<Phase>(p)));
    if (found != phases->end()) frame.phase_ms[static_cast<std::size_t>(p)] = to_float(*found, "phase_ms");
  }
}

int setting(const Json& json, std::initializer_list<const char*> keys, int limit) {
  const Json* value = member(json, keys);
  return value ? to_index(*value, *keys.begin(), 0, limit) : 0;
}

}  // namespace

RouterFrame router_from_json(const Json& json, const RunInfo& info) {
  auto router = row_from_json<RouterFrame>(json, info);
  if (router.layer < 0) throw Unreadable("layer: not a number");
  if (const Json* volume = member(json, {"volume"})) router.volume = volume_from_json(*volume);
  return router;
}

TelemetryFrame frame_from_json(const Json& json, const RunInfo& info) {
  TelemetryFrame frame;
  const Json* step = member(json, {"step"});
  if (!step) throw Unreadable("no step");
  frame.step = to_count(*step, "step", 1e15);
  // What the log does not have is missing, not 0.
  frame.aux_loss = kNoValue;
  frame.z_loss = kNoValue;
  if (!json.contains("layer")) get_figures(json, frame, kFrameFigures);
  const auto scalar = [&](std::initializer_list<const char*> keys, float TelemetryFrame::*field) {
    if (const Json* value = member(json, keys)) frame.*field = to_float(*value, *keys.begin());
  };
  scalar({"loss", "ce_loss", "lm_loss", "train_loss"}, &TelemetryFrame::ce_loss);
  scalar({"grad_norm"}, &TelemetryFrame::grad_norm);
  scalar({"lr", "learning_rate"}, &TelemetryFrame::lr);
  scalar({"tokens_per_s"}, &TelemetryFrame::tokens_per_s);
  if (const Json* wall = member(json, {"wall_s"}); wall && wall->is_number()) frame.wall_s = *wall;
  if (const Json* tokens = member(json, {"tokens"})) frame.tokens = to_count(*tokens, "tokens", 9e15);
  read_phases(json, frame);
  if (const Json* list = rows(json, "routers")) {
    for (const Json& row : *list) frame.routers.push_back(router_from_json(row, info));
  }
  const auto get_rows = [&]<class Row>(const char* key, std::vector<Row>& out) {
    if (const Json* list = rows(json, key)) {
      for (const Json& row : *list) out.push_back(row_from_json<Row>(row, info));
    }
  };
  get_rows("quants", frame.quants);
  get_rows("flips", frame.flips);
  get_rows("rounding_flips", frame.rounding_flips);
  get_rows("gradients", frame.gradients);
  if (const Json* list = rows(json, "specialisation")) {
    for (const Json& row : *list) frame.specialisation.push_back(specialisation_from_json(row, info));
  }
  if (const Json* list = rows(json, "texts")) {
    for (const Json& row : *list) frame.texts.push_back(text_from_json(row, info));
  }
  if (const Json* wire = member(json, {"wire"})) frame.wire = wire_from_json(*wire);
  return frame;
}

RunInfo run_info_from_json(const Json& json) {
  RunInfo info;
  if (const Json* run = member(json, {"run"}); run && run->is_number()) info.run = to_index(*run, "run", 0, 1 << 20);
  if (const Json* name = member(json, {"name", "run", "run_name"}); name && name->is_string())
    info.name = printable(name->get_ref<const std::string&>());  // one line, wherever it is shown
  if (info.name.size() > kLongestImportedName) throw Unreadable("name: longer than 4096 bytes");
  info.config_toml = text_of(json, "config");
  info.kernels = text_of(json, "kernels");
  info.n_layers = setting(json, {"layers", "n_layers", "num_layers", "num_hidden_layers"}, kMaxLayers);
  if (const Json* layers = member(json, {"moe_layers"})) {
    if (list_of(*layers, "moe_layers", 0, "").size() > kMaxImportedLayers) throw Unreadable("moe_layers: too many");
    for (const Json& layer : *layers) info.moe_layers.push_back(to_index(layer, "moe_layers", 0, kMaxLayers));
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
  if (const Json* tokens = member(json, {"tokens_per_step"})) info.tokens_per_step = to_count(*tokens, "tokens", 1e12);
  if (const Json* domains = member(json, {"domains"}); domains && domains->is_array()) {
    if (domains->size() > kMaxImportedLayers) throw Unreadable("domains: too many");
    for (const Json& domain : *domains) {
      if (domain.is_string()) info.domains.push_back(domain);
    }
  }
  return info;
}

}  // namespace moescope
