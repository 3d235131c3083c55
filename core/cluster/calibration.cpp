#include "core/cluster/calibration.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "core/files/text/json_text.h"

namespace moescope {
namespace {

using Json = nlohmann::json;

double number(const Json& row, const char* key) {
  return row.value(key, std::numeric_limits<double>::quiet_NaN());
}

template <class Visit>
void visit_rows(const Json& root, const char* list, Visit visit) {
  for (const Json& row : root.value(list, Json::array())) visit(row);
}

MeasuredLayer read_layer(const Json& row) {
  MeasuredLayer layer;
  layer.shape = {row.at("model"), row.at("D"), row.at("H"), row.at("E"), row.at("top_k")};
  layer.routing = {.tokens_per_rank = row.at("tokens_per_rank"),
                   .label = row.value("routing", ""),
                   .tokens_per_expert = row.value("tokens_per_expert", std::vector<std::int64_t>{}),
                   .rank_max_over_mean = row.at("rank_max_over_mean"),
                   .expert_max_over_mean = row.at("expert_max_over_mean"),
                   .copies_per_token_deep_ep = number(row, "copies_per_token_deep_ep")};
  layer.times = {number(row, "standard_comm_ms"), number(row, "standard_layer_ms"), number(row, "deep_ep_comm_ms"),
                 number(row, "deep_ep_layer_ms"), number(row, "experts_ms")};
  return layer;
}

}  // namespace

Calibration parse_calibration(std::string_view text) {
  const Json root = parse_json(text);
  Calibration out;
  out.world = root.at("world");
  visit_rows(root, "all_to_all_uniform", [&](const Json& row) {
    out.all_to_all.push_back({row.at("bytes_per_rank"), row.at("ms")});
  });
  visit_rows(root, "all_to_all_hot_rank", [&](const Json& row) {
    out.hot_rank.push_back({row.at("hot_rank_load_over_mean"), row.at("bytes_per_rank_sent"), row.at("ms")});
  });
  visit_rows(root, "deep_ep", [&](const Json& row) {
    out.deep_ep.push_back({row.at("D"), row.at("tokens"), row.at("received"), row.at("layout_ms"),
                           row.at("dispatch_ms"), row.at("dispatch_cached_ms"), row.at("combine_ms")});
  });
  visit_rows(root, "grouped_gemm", [&](const Json& row) {
    out.grouped_gemm.push_back({row.at("shape"), row.at("groups"), row.at("tokens"), row.at("skew"),
                                row.at("max_over_mean"), row.at("bf16_ms"), row.at("bf16_dgrad_ms"),
                                row.at("bf16_wgrad_ms")});
  });
  visit_rows(root, "ep_layer", [&](const Json& row) { out.layers.push_back(read_layer(row)); });
  return out;
}

}  // namespace moescope
