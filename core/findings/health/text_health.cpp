#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/findings/expert_watch.h"
#include "core/findings/health.h"
#include "core/findings/imbalance_watch.h"
#include "core/findings/load_watch.h"
#include "core/frame/router_stats.h"
#include "core/frame/specialisation.h"

namespace moescope {
namespace {

// In ascending order of severity.
enum class TextFault { none, uneven, hot, silent, collapsed };

struct LayerOfTexts {
  int layer = 0;
  std::vector<std::uint32_t> slots_E;
  TextFault fault = TextFault::none;

  double fair() const { return std::accumulate(slots_E.begin(), slots_E.end(), 0.0) / slots_E.size(); }
  int fullest() const { return to_int(std::ranges::max_element(slots_E) - slots_E.begin()); }
  double fullest_share() const { return std::ranges::max(slots_E) / fair(); }
  std::int64_t silent() const { return std::ranges::count(slots_E, 0u); }
};

// Returns the slots of each expert of each layer, summed over all frames.
std::vector<LayerOfTexts> layers_of(const History& history, std::optional<std::size_t> domain) {
  std::vector<LayerOfTexts> layers;
  auto frame = history.specialisation_frame_at(INT64_MAX);
  for (; frame; frame = frame->step > 0 ? history.specialisation_frame_at(frame->step - 1) : nullptr)
    for (const SpecialisationFrame& counted : frame->specialisation) {
      const std::size_t experts = counted.n_experts();
      if (experts == 0) continue;
      auto layer = std::ranges::find(layers, counted.layer, &LayerOfTexts::layer);
      if (layer == layers.end()) layer = layers.insert(layer, {counted.layer, std::vector<std::uint32_t>(experts)});
      for (std::size_t i = 0; i < counted.domain_DE.size(); ++i)
        if (!domain || i / experts == *domain) layer->slots_E.at(i % experts) += counted.domain_DE[i];
    }
  std::ranges::sort(layers, {}, &LayerOfTexts::layer);
  return layers;
}

// Returns the use of a layer (load_watch.h); NaN if a balanced router would use hardly more than top_k experts.
double use_of(const LayerOfTexts& layer, int top_k) {
  const int experts = to_int(layer.slots_E.size());
  const auto tokens = static_cast<std::int64_t>(layer.fair() * experts / top_k);
  const double room = std::exp(load_entropy_by_chance(tokens, top_k, experts)) - top_k;
  const double entropy = entropy_norm(layer.slots_E) * std::log(experts);
  return room >= kMinToTell ? (std::exp(entropy) - top_k) / room : std::nan("");
}

TextFault fault_of(const LayerOfTexts& layer, int top_k) {
  const int experts = to_int(layer.slots_E.size());
  const double max_possible = static_cast<double>(experts) / top_k - 1, vio = layer.fullest_share() - 1;
  const auto tokens = static_cast<std::int64_t>(layer.fair() * experts / top_k);
  const double chance = max_vio_noise_floor(tokens, top_k, experts);
  if (use_of(layer, top_k) < kCollapsedUse) return TextFault::collapsed;
  if (layer.silent() > 0) return TextFault::silent;
  if (max_possible > 0 && vio >= std::min(kHotShare - 1, kHotShareOfRange * max_possible)) return TextFault::hot;
  return max_possible > 0 && vio >= std::max(std::min(kUnevenVio, kUnevenWay * max_possible), 2 * chance)
             ? TextFault::uneven
             : TextFault::none;
}

std::string fullest_text(const LayerOfTexts& layer) {
  const std::int64_t silent = layer.silent();
  std::string text =
      fmt::format("expert {} gets {} times its fair share", layer.fullest(), decimal(layer.fullest_share()));
  if (silent == 0) return text;
  return fmt::format("{} and {} of {}{}", text, silent, layer.slots_E.size(), silent == 1 ? " gets none" : " get none");
}

void set_sentence(const std::string& texts, const std::vector<LayerOfTexts>& layers, const LayerOfTexts& worst,
                  Health& health) {
  const std::string layer = fmt::format("layer {}", worst.layer), figures = ", where " + fullest_text(worst) + ".";
  std::string head = "no expert is dead, starved or far too full";
  if (worst.fault != TextFault::none) {
    const bool collapsed = worst.fault == TextFault::collapsed;
    const std::int64_t such = std::ranges::count_if(layers, [collapsed](const LayerOfTexts& layer_of_texts) {
      return layer_of_texts.fault >= (collapsed ? TextFault::collapsed : TextFault::uneven);
    });
    const char* const words[] = {"are uneven", "is uneven", "have collapsed", "has collapsed"};
    head = fmt::format("{} of {} MoE layers {}", such, layers.size(), words[2 * int{collapsed} + int{such == 1}]);
  }
  const std::string which = worst.fault == TextFault::none ? " Most uneven: " : " Worst: ";
  health.sentence = texts + ": " + head + "." + which + layer + figures;
  health.shorter = {texts + ":" + which + layer + figures, texts + ": " + head + ".",
                    texts + ":" + which + layer + "."};
}

}  // namespace

Health judge_texts(const History& history, std::optional<std::size_t> domain) {
  Health health;
  const RunInfo& info = history.info();
  if (!domain && info.domains.size() == 1) domain = 0;
  std::string texts = "All texts";
  if (domain)
    texts = *domain < info.domains.size() ? printable(info.domains[*domain]) : fmt::format("Domain {}", *domain);
  std::vector<LayerOfTexts> layers = layers_of(history, domain);
  health.last_step = history.steps().last;
  if (layers.empty()) {
    health.sentence = "The recording has no loads by domain.";
    return health;
  }
  const int top_k = std::max(1, info.top_k);
  for (LayerOfTexts& layer : layers) {
    if (layer.fair() < kMinToJudge) {
      const double tokens = std::ceil(kMinToJudge * layer.slots_E.size() / top_k);
      health.sentence = texts + ": too few tokens. About " + grouped(static_cast<std::int64_t>(tokens)) +
                        " are needed: with fewer, an expert can be without a token by chance.";
      health.shorter = {texts + ": too few tokens."};
      return health;
    }
    layer.fault = fault_of(layer, top_k);
  }
  const LayerOfTexts& worst = *std::ranges::max_element(
      layers, {}, [](const LayerOfTexts& layer) { return std::pair(layer.fault, layer.fullest_share()); });
  health.verdict = HealthVerdict::attention;
  if (worst.fault == TextFault::none) health.verdict = HealthVerdict::healthy;
  if (worst.fault == TextFault::collapsed) health.verdict = HealthVerdict::unhealthy;
  health.layer = worst.layer;
  health.experts = {worst.fullest()};
  set_sentence(texts, layers, worst, health);
  return health;
}

}  // namespace moescope
