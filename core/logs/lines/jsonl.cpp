#include "core/logs/lines/jsonl.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/frame/describe.h"
#include "core/io/text_escape.h"

namespace moescope {

namespace {

using Json = nlohmann::ordered_json;

// Returns the double nearest to the float's shortest decimal digits, so that 0.1f is written as 0.1.
Json number(float value) {
  if (is_missing(value)) return nullptr;
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double exact = 0;
  std::from_chars(text, end, exact);
  return exact;
}

void put_array(Json& json, const char* key, const std::vector<float>& values) {
  if (values.empty()) return;
  Json& array = json[key] = Json::array();
  for (const float value : values) array.push_back(number(value));
}

template <class Count>
Json rows_of(const std::vector<Count>& matrix, std::size_t rows) {
  Json out = Json::array();
  const std::size_t columns = rows ? matrix.size() / rows : 0;
  for (std::size_t r = 0; r < rows; ++r) {
    out.push_back(std::vector<Count>(matrix.begin() + static_cast<std::ptrdiff_t>(r * columns),
                                     matrix.begin() + static_cast<std::ptrdiff_t>((r + 1) * columns)));
  }
  return out;
}

// Writes one row of a frame as a visitor of describe().
class RowToJson {
 public:
  Json json;

  void layer(int layer, LayerColumn) { json["layer"] = layer; }
  template <class Frame, std::size_t N>
  void figures(const Frame& frame, const std::array<FrameFigure<Frame>, N>& table) {
    for (const auto& figure : table) json[figure.column] = number(frame.*figure.member);
  }
  void by_expert(const std::vector<float>& values, Column column) { put_array(json, column.name, values); }
  void by_expert(const std::vector<std::uint32_t>& counts, Column column) { bins(counts, column); }
  void bins(const std::vector<std::uint32_t>& counts, Column column) {
    if (!counts.empty()) json[column.name] = counts;
  }
  void bins(const HalfOctaves& counts, Column column) { json[column.name] = counts; }
  template <class Enum>
  void name(Enum value, Column column, Names<Enum> names) {
    json[column.name] = names.name_of(value);
  }
  void text(const std::string& text, Column column) { json[column.name] = text; }
  void gemm(Gemm gemm) {
    json["gemm_class"] = gemm_class_name(gemm_class_of(gemm));
    json["weight"] = gemm_name(gemm);
  }
  void scales(const std::array<std::uint32_t, 256>& e8m0_blocks) {
    Json& blocks = json["e8m0_blocks"] = Json::object();
    for (std::size_t byte = 0; byte < e8m0_blocks.size(); ++byte) {
      if (e8m0_blocks[byte]) blocks[std::to_string(byte)] = e8m0_blocks[byte];
    }
  }
};

template <class Row>
Json to_json(const Row& row) {
  RowToJson visitor;
  describe(row, visitor);
  return std::move(visitor.json);
}

Json to_json(const RouterFrame& router) {
  Json json = to_json<RouterFrame>(router);
  const VolumeFrame& volume = router.volume;
  if (volume.ranks > 0) {
    const auto ranks = static_cast<std::size_t>(volume.ranks);
    json["volume"] = {{"ranks", volume.ranks},
                      {"ranks_per_node", volume.ranks_per_node},
                      {"copies", rows_of(volume.copies_RR, ranks)},
                      {"distinct", rows_of(volume.distinct_RR, ranks)},
                      {"nodes", rows_of(volume.nodes_RN, ranks)}};
  }
  return json;
}

Json to_json(const GradientFrame& gradient) {
  Json json = to_json<GradientFrame>(gradient);
  if (gradient.layer < 0) json["layer"] = nullptr;
  return json;
}

Json to_json(const SpecialisationFrame& special) {
  const std::size_t experts = special.n_experts();
  Json json;
  json["layer"] = special.layer;
  json["domain"] = rows_of(special.domain_DE, experts ? special.domain_DE.size() / experts : 0);
  if (!special.together_EE.empty()) json["together"] = rows_of(special.together_EE, experts);
  Json& bytes = json["byte"] = Json::object();
  for (std::size_t byte = 0; byte < 256 && !special.byte_256E.empty(); ++byte) {
    const auto row = special.byte_256E.begin() + static_cast<std::ptrdiff_t>(byte * experts);
    const std::vector<std::uint32_t> counts(row, row + static_cast<std::ptrdiff_t>(experts));
    if (std::any_of(counts.begin(), counts.end(), [](std::uint32_t n) { return n > 0; }))
      bytes[std::to_string(byte)] = counts;
  }
  put_array(json, "weight_norm", special.weight_norm_E);
  put_array(json, "weight_sqnr", special.weight_sqnr_E);
  put_array(json, "gradient_norm", special.gradient_norm_E);
  put_array(json, "update_norm", special.update_norm_E);
  put_array(json, "bias_for_share", special.bias_for_share_EQ);
  return json;
}

Json to_json(const TokenFrame& text) {
  Json json;
  json["kind"] = text_kind_name(text.kind);
  json["text"] = escape_bytes(text.text);
  if (text.kind == TextKind::sample) json["prompt"] = text.prompt;
  if (!text.domain.empty()) json["domain"] = text.domain;
  put_array(json, "loss", text.loss_T);
  Json& layers = json["layers"] = Json::array();
  for (const TokenLayer& layer : text.layers) {
    Json& row = layers.emplace_back();
    row["layer"] = layer.layer;
    row["experts"] = rows_of(layer.experts_TK, text.text.size());
    put_array(row, "scores", layer.scores_TK);
    put_array(row, "margin", layer.margin_T);
  }
  return json;
}

Json to_json(const WireFrame& wire) {
  Json json = {{"ranks", wire.ranks},
               {"over_nodes", wire.over_nodes},
               {"sent_bytes", rows_of(wire.sent_RR, static_cast<std::size_t>(wire.ranks))}};
  put_array(json, "all_to_all_ms", wire.all_to_all_ms_R);
  return json;
}

template <class Row>
void put_rows(Json& json, const char* key, const std::vector<Row>& rows) {
  if (rows.empty()) return;
  Json& array = json[key] = Json::array();
  for (const Row& row : rows) array.push_back(to_json(row));
}

}  // namespace

std::string to_json_line(const RunInfo& info) {
  Json json = {{"run", info.run},
               {"name", info.name},
               {"source", info.source},
               {"layers", info.n_layers},
               {"moe_layers", info.moe_layers},
               {"experts", info.n_experts},
               {"top_k", info.top_k},
               {"tokens_per_step", info.tokens_per_step},
               {"ranks", info.ranks},
               {"ranks_per_node", info.ranks_per_node},
               {"dim", info.dim},
               {"window", info.window},
               {"domains", info.domains},
               {"kernels", info.kernels},
               {"config", info.config_toml}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string to_json_line(const TelemetryFrame& frame) {
  Json json;
  json["run"] = frame.run;
  json["step"] = frame.step;
  json["wall_s"] = std::isfinite(frame.wall_s) ? Json(frame.wall_s) : Json(nullptr);
  json["tokens"] = frame.tokens;
  for (const auto& figure : kFrameFigures) json[figure.column] = number(frame.*figure.member);
  Json& phases = json["phase_ms"] = Json::object();
  for (int p = 0; p < kNumPhases; ++p) phases[phase_key(static_cast<Phase>(p))] = number(frame.phase_ms[p]);
  put_rows(json, "routers", frame.routers);
  put_rows(json, "quants", frame.quants);
  put_rows(json, "flips", frame.flips);
  put_rows(json, "gradients", frame.gradients);
  put_rows(json, "specialisation", frame.specialisation);
  put_rows(json, "texts", frame.texts);
  if (frame.wire.ranks > 0) json["wire"] = to_json(frame.wire);
  put_rows(json, "rounding_flips", frame.rounding_flips);
  put_rows(json, "router_roundings", frame.router_roundings);
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace moescope
