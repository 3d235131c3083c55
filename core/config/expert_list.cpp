#include "core/config/expert_list.h"

#include <fmt/core.h>

#include <cmath>
#include <stdexcept>

#include "core/config/config_field.h"
#include "core/files/text/words.h"

namespace moescope {
namespace {

constexpr double kMaxBias = 1e3;  // larger than any difference of scores

void add_entry(std::string_view entry, const ModelConfig& model, ListOf kind, ExpertValues& experts) {
  const auto fail = [&](const std::string& reason) {
    throw std::invalid_argument("\"" + std::string(entry) + "\": " + reason);
  };
  const std::string form = kind == ListOf::values ? "LAYER:EXPERT=BIAS, such as 2:7=0.5" : "LAYER:EXPERT, such as 2:7";
  const std::size_t colon = entry.find(':');
  const std::size_t equals = kind == ListOf::values ? entry.find('=') : entry.size();
  if (colon == std::string_view::npos || equals == std::string_view::npos || equals < colon) fail("write " + form);
  const std::string_view layer_text = trimmed(entry.substr(0, colon));
  int layer = 0, expert = 0;
  double value = 0;
  const bool in_all_layers = layer_text == "*";
  if ((!in_all_layers && !read_number(layer_text, layer)) ||
      !read_number(trimmed(entry.substr(colon + 1, equals - colon - 1)), expert))
    fail("write " + form + "; * as the layer is every MoE layer");
  if (kind == ListOf::values &&
      !(read_number(trimmed(entry.substr(equals + 1)), value) && std::fabs(value) <= kMaxBias))
    fail("the bias is not a number from -1000 to 1000: choose one");
  if (expert < 0 || expert >= model.n_experts)
    fail(fmt::format("there is no expert {}: choose 0 to {}", expert, model.n_experts - 1));
  if (!in_all_layers && (layer < model.n_dense_layers || layer >= model.n_layers))
    fail(fmt::format("layer {} has no experts (MoE layers are {} to {}): choose one of them, or *", layer,
                     model.n_dense_layers, model.n_layers - 1));
  const int first = in_all_layers ? model.n_dense_layers : layer, last = in_all_layers ? model.n_layers - 1 : layer;
  for (int at = first; at <= last; ++at) experts[{at, expert}] = value;
}

}  // namespace

ExpertValues parse_experts(std::string_view text, const ModelConfig& model, ListOf kind) {
  ExpertValues experts;
  if (trimmed(text).empty()) return experts;
  while (true) {
    const std::size_t comma = text.find(',');
    add_entry(trimmed(text.substr(0, comma)), model, kind, experts);
    if (comma == std::string_view::npos) return experts;
    text.remove_prefix(comma + 1);
  }
}

std::string experts_text(const ExpertValues& experts, const ModelConfig& model, ListOf kind) {
  const auto everywhere = [&](int expert, double value) {
    for (int layer = model.n_dense_layers; layer < model.n_layers; ++layer) {
      const auto found = experts.find({layer, expert});
      if (found == experts.end() || found->second != value) return false;
    }
    return model.n_layers - model.n_dense_layers > 1;
  };
  std::string text;
  for (const auto& [at, value] : experts) {
    const auto [layer, expert] = at;
    const bool in_all_layers = everywhere(expert, value);
    if (in_all_layers && layer != model.n_dense_layers) continue;  // written with the first layer
    text += (text.empty() ? "" : ", ") + (in_all_layers ? std::string("*") : std::to_string(layer)) + ':';
    text += std::to_string(expert);
    if (kind == ListOf::values) text += '=' + to_string(ConfigValue(value));
  }
  return text;
}

ExpertMasks killed_masks(const RunConfig& config) {
  ExpertMasks masks;
  if (config.router.killed_experts.empty()) return masks;
  const ModelConfig& m = config.model;
  for (const auto& [at, unused] : parse_experts(config.router.killed_experts, m, ListOf::experts)) {
    if (masks.empty()) masks.assign(m.n_layers - m.n_dense_layers, std::vector<std::uint8_t>(m.n_experts, 0));
    masks[at.first - m.n_dense_layers][at.second] = 1;
  }
  return masks;
}

}  // namespace moescope
