#include "core/cluster/calibration.h"

#include <limits>

#include "core/files/assets.h"
#include "core/files/text/toml_section.h"
#include "core/numerics/index.h"

namespace moescope {
namespace {

constexpr double kMaxFigure = 1e15;
constexpr int kMaxSize = 1'000'000;

// NaN if the row does not have the figure.
double optional_value(TomlSection& row, const char* key) {
  return row.number(key, std::numeric_limits<double>::quiet_NaN(), 0, kMaxFigure);
}

double value_of(TomlSection& row, const char* key) {
  row.require(key);
  return optional_value(row, key);
}

int size_of(TomlSection& row, const char* key) {
  row.require(key);
  return to_int(row.integer(key, 1, 1, kMaxSize));
}

MeasuredLayer read_layer(TomlSection& row) {
  row.unread_table();
  const std::vector<double> tokens = row.numbers("tokens_per_expert");
  MeasuredLayer layer;
  layer.shape = {row.required_text("model"), size_of(row, "D"), size_of(row, "H"), size_of(row, "E"),
                 size_of(row, "top_k")};
  layer.routing = {.tokens_per_rank = value_of(row, "tokens_per_rank"),
                   .label = row.text("routing"),
                   .tokens_per_expert = {tokens.begin(), tokens.end()},
                   .rank_max_over_mean = value_of(row, "rank_max_over_mean"),
                   .expert_max_over_mean = value_of(row, "expert_max_over_mean"),
                   .copies_per_token_deep_ep = optional_value(row, "copies_per_token_deep_ep")};
  layer.times = {optional_value(row, "standard_comm_ms"), optional_value(row, "standard_layer_ms"),
                 optional_value(row, "deep_ep_comm_ms"), optional_value(row, "deep_ep_layer_ms"),
                 optional_value(row, "experts_ms")};
  return layer;
}

// Appends a point of the figures `keys` for each row of a list. Rows have further figures, which the model does not
// use.
template <class Point, class... Keys>
void read_points(TomlSection& root, const char* list, std::vector<Point>& points, Keys... keys) {
  root.for_each_section(list, [&](TomlSection& row) {
    row.unread_table();
    points.push_back({value_of(row, keys)...});
  });
}

Calibration read_lists(TomlSection& root) {
  Calibration out;
  root.unread_table();
  out.world = size_of(root, "world");
  read_points(root, "all_to_all_uniform", out.all_to_all, "bytes_per_rank", "ms");
  read_points(root, "all_to_all_hot_rank", out.hot_rank, "hot_rank_load_over_mean", "bytes_per_rank_sent", "ms");
  read_points(root, "deep_ep", out.deep_ep, "D", "tokens", "received", "layout_ms", "dispatch_ms", "dispatch_cached_ms",
              "combine_ms");
  root.for_each_section("grouped_gemm", [&](TomlSection& row) {
    row.unread_table();
    out.grouped_gemm.push_back({row.required_text("shape"), size_of(row, "groups"), value_of(row, "tokens"),
                                value_of(row, "skew"), value_of(row, "max_over_mean"), value_of(row, "bf16_ms"),
                                value_of(row, "bf16_dgrad_ms"), value_of(row, "bf16_wgrad_ms")});
  });
  root.for_each_section("ep_layer", [&](TomlSection& row) { out.layers.push_back(read_layer(row)); });
  return out;
}

}  // namespace

Calibration parse_calibration(std::string_view text, const std::string& file) {
  Calibration calibration;
  read_valid_toml(text, file, [&](TomlSection& root) { calibration = read_lists(root); });
  return calibration;
}

const Calibration& h200_calibration() {
  constexpr const char* kFile = "calibration/h200x8.toml";
  static const Calibration calibration = parse_calibration(asset(kFile), kFile);
  return calibration;
}

}  // namespace moescope
