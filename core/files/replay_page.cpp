#include "core/files/replay_page.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "core/files/assets.h"
#include "core/io/text_escape.h"
#include "core/telemetry/findings/findings.h"
#include "core/telemetry/frame/metrics.h"

namespace moescope {
namespace {

using ReplayJson = nlohmann::ordered_json;

std::string base64(std::span<const std::uint8_t> bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) three = three << 8 | (k < n ? bytes[i + k] : 0u);
    for (std::size_t k = 0; k < 4; ++k) text += k <= n ? kDigits[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string base64(std::span<const float> values) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(4 * values.size());
  for (const float value : values)
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(value) >> shift));
  return base64(bytes);
}

void append_means(const History& history, Metric metric, int layer, int points, std::vector<float>& means) {
  for (const PyramidBin& bin : history.series(metric, layer, history.steps(), points))
    means.push_back(bin.finite ? bin.mean() : kNoValue);
}

std::string scalar_of_layers(const History& history, Metric metric, int points) {
  std::vector<float> means;
  for (const int layer : history.info().moe_layers) append_means(history, metric, layer, points, means);
  return base64(means);
}

std::string scalar_of_run(const History& history, Metric metric, int points) {
  std::vector<float> means;
  append_means(history, metric, kWholeRun, points, means);
  return base64(means);
}

struct QuantizedLoad {
  std::vector<float> largest;        // [L, P]
  std::vector<std::uint8_t> shares;  // [L, P, E]
};

void append_row(std::span<const float> row, QuantizedLoad& load) {
  float largest = kNoValue;
  for (const float u : row)
    if (std::isfinite(u)) largest = std::isfinite(largest) ? std::max(largest, u) : u;
  load.largest.push_back(largest);
  for (const float u : row)
    load.shares.push_back(largest > 0 && u > 0 ? static_cast<std::uint8_t>(std::lround(255 * u / largest)) : 0);
}

QuantizedLoad quantized_load(const History& history, int points) {
  QuantizedLoad load;
  const auto experts = static_cast<std::size_t>(history.info().n_experts);
  for (const int layer : history.info().moe_layers) {
    std::vector<float> u = history.utilisation(layer, history.steps(), points, Summary::mean);
    u.resize(static_cast<std::size_t>(points) * experts, kNoValue);
    for (std::size_t p = 0; p < static_cast<std::size_t>(points); ++p)
      append_row(std::span(u).subspan(p * experts, experts), load);
  }
  return load;
}

int points_of(const History& history, std::size_t load_bytes) {
  const RunInfo& info = history.info();
  const std::size_t row = std::max<std::size_t>(1, info.moe_layers.size() * static_cast<std::size_t>(info.n_experts));
  const auto affordable = static_cast<std::int64_t>(std::max<std::size_t>(1, load_bytes / row));
  return static_cast<int>(std::min({history.steps().size(), std::int64_t{kReplayPoints}, affordable}));
}

ReplayJson findings_of(const std::shared_ptr<History>& history) {
  ReplayJson list = ReplayJson::array();
  for (const Finding& finding : find_all(history))
    list.push_back({{"severity", severity_name(finding.severity)},
                    {"first", finding.steps.first},
                    {"last", finding.steps.last},
                    {"title", printable(finding.title)},
                    {"saw", printable(finding.saw)},
                    {"why", printable(finding.why)}});
  return list;
}

ReplayJson run_of(const std::shared_ptr<History>& history, std::size_t load_bytes) {
  const RunInfo& info = history->info();
  if (history->steps().empty()) throw std::runtime_error(info.name + ": has no step to export");
  const int points = points_of(*history, load_bytes);
  const QuantizedLoad load = quantized_load(*history, points);
  return {{"name", printable(info.name)},
          {"source", printable(info.source)},
          {"from_log", info.config_toml.empty()},
          {"experts", info.n_experts},
          {"top_k", info.top_k},
          {"window", info.window},
          {"layers", info.moe_layers},
          {"edges", slice_edges(history->steps(), points)},
          {"loss", scalar_of_run(*history, Metric::ce_loss, points)},
          {"val_loss", scalar_of_run(*history, Metric::val_loss, points)},
          {"max_vio", scalar_of_layers(*history, Metric::max_vio, points)},
          {"max_vio_window", scalar_of_layers(*history, Metric::max_vio_window, points)},
          {"load_max", base64(load.largest)},
          {"load", base64(load.shares)},
          {"findings", findings_of(history)}};
}

// "<" begins a tag or a comment wherever it stands in a page; in JSON it stands in texts only, where \u003c is the
// same.
std::string json_for_page(const ReplayJson& json) {
  std::string safe;
  for (const char c : json.dump())
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  return safe;
}

}  // namespace

std::string replay_page(std::span<const std::shared_ptr<History>> histories, std::size_t load_bytes) {
  ReplayJson runs = ReplayJson::array();
  for (const auto& history : histories) runs.push_back(run_of(history, load_bytes / histories.size()));
  std::string page(asset("replay/page.html"));
  page.append("<style>\n").append(asset("replay/page.css")).append("</style>\n");
  page.append("<script type=\"application/json\" id=\"data\">").append(json_for_page({{"runs", runs}}));
  page.append("</script>\n<script>\n").append(asset("replay/page.js")).append("</script>\n</body>\n</html>\n");
  return page;
}

}  // namespace moescope
