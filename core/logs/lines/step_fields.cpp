#include "core/logs/lines/step_fields.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/logs/import.h"

namespace moescope {

namespace {

// Keys of a step whose list has an entry for each layer.
constexpr std::initializer_list<const char*> kNestedKeys = {"tokens_per_expert", "utilization", "expert_bias",
                                                            "score_entropy",     "margin",      "aux"};
// True if the list has the counts of one layer: some programs leave out the outer list if a model has one MoE layer.
bool is_one_layer(JsonValue load) {
  JsonList list;
  return load.get(list) == simdjson::SUCCESS && list.size() > 0 && (*list.begin()).is_number();
}

// Returns 0 for a layer without loads: programs write null or [] for dense layers.
std::size_t experts_of_layer(JsonValue load) {
  return load.is_null() ? 0 : list_of(load, "tokens_per_expert", 0, "experts").size();
}

// Adds the layers and experts that occur in the names of the values to `info`.
void add_layers_of(const std::vector<NamedLayerValue>& values, RunInfo& info) {
  std::set<int> layers(info.moe_layers.begin(), info.moe_layers.end());
  for (const NamedLayerValue& named_value : values) {
    if (is_of_all_layers(named_value.match)) continue;
    layers.insert(std::max(0, named_value.match.layer));
    JsonList list;
    const std::size_t listed = named_value.value.get(list) == simdjson::SUCCESS ? list.size() : 0;
    const auto experts = std::max(listed, static_cast<std::size_t>(named_value.match.expert + 1));
    info.n_experts = std::max<std::size_t>(static_cast<std::size_t>(info.n_experts), experts);
    if (experts > kMaxImportedExperts) throw Unreadable("tokens_per_expert: too many experts");
  }
  info.moe_layers.assign(layers.begin(), layers.end());
}

// Collects the values whose names contain layers and experts, by layer.
class LayerValues {
 public:
  explicit LayerValues(const RunInfo& info) : info_(&info), experts_(static_cast<std::size_t>(info.n_experts)) {}

  void take(const NamedLayerValue& named_value) {
    const TagRule& rule = *named_value.match.rule;
    const int layer = is_of_all_layers(named_value.match) ? -1 : std::max(0, named_value.match.layer);
    if (layer >= 0) require_layer(layer, *info_);
    if (layer < 0 && !info_->moe_layers.empty()) return;  // the figures of the layers give that of all
    Layer& layer_entry = layers_.try_emplace(layer).first->second;
    const char* name = rule.column.c_str();
    if (rule.means == TagMeaning::router_figure) {
      layer_entry.router.*rule.router = scaled(to_float(named_value.value, name), rule);
      return;
    }
    Values& values = rule.means == TagMeaning::tokens_per_expert ? layer_entry.counts
                     : rule.means == TagMeaning::expert_bias     ? layer_entry.bias
                                                                 : layer_entry.ratios;
    if (named_value.match.expert < 0) {
      values.list = to_floats(named_value.value, name, experts_);
      for (float& value : values.list) value = scaled(value, rule);
      return;
    }
    if (named_value.match.expert >= info_->n_experts)
      throw Unreadable(rule.column + ": more experts than in the first step");
    values.is_sparse = values.is_sparse || named_value.is_sparse;
    values.single.emplace_back(named_value.match.expert, scaled(to_float(named_value.value, name), rule));
  }

  void join(TelemetryFrame& frame) {
    if (layers_.empty()) return;
    TelemetryFrame more;
    more.aux_loss = more.z_loss = kNoValue;
    for (auto& [layer, layer_entry] : layers_) {
      layer_entry.router.layer = layer;
      if (const auto counts = complete(layer_entry.counts, "tokens_per_expert"); !counts.empty())
        layer_entry.router.tokens_per_expert = whole_counts(counts);
      else if (const auto ratios = complete(layer_entry.ratios, "utilization"); !ratios.empty())
        layer_entry.router.tokens_per_expert = counts_of_ratios(ratios);
      layer_entry.router.expert_bias = complete(layer_entry.bias, "expert_bias");
      more.routers.push_back(std::move(layer_entry.router));
    }
    join_frames(frame, std::move(more));
  }

 private:
  // The values of a layer: a list, or single values with their experts.
  struct Values {
    std::vector<float> list;
    std::vector<std::pair<int, float>> single;
    bool is_sparse = false;  // experts without a value have no tokens
  };
  struct Layer {
    Values counts, ratios, bias;
    RouterFrame router;
  };
  static float scaled(float value, const TagRule& rule) {
    return is_missing(value) || rule.is_as_logged() ? value : static_cast<float>(rule.figure_of(value));
  }
  // Returns a value for each expert, or an empty list if there are no values. Throws Unreadable if an expert has none;
  // a few values of many experts must not take memory for all.
  std::vector<float> complete(const Values& values, const char* name) const {
    std::vector<float> list = values.list;
    if (list.empty() && values.is_sparse) list.resize(experts_, 0);
    if (list.empty() && values.single.size() >= experts_) list.resize(experts_, kNoValue);
    const bool has_single = list.empty() && !values.single.empty();
    if (!has_single)
      for (const auto& [expert, value] : values.single) list[expert] = value;
    if (has_single || std::ranges::any_of(list, is_missing))
      throw Unreadable(std::string(name) + ": does not have a value for each expert");
    return list;
  }
  static std::vector<std::uint32_t> whole_counts(const std::vector<float>& list) {
    std::vector<std::uint32_t> counts;
    for (const float value : list) {
      if (!(value >= 0 && value < 4294967296.0f && value == std::floor(value)))
        throw Unreadable("tokens_per_expert: " + std::to_string(value) + " is not a whole number from 0 on");
      counts.push_back(static_cast<std::uint32_t>(value));
    }
    return counts;
  }

  const RunInfo* info_;
  std::size_t experts_;
  std::map<int, Layer> layers_;
};

}  // namespace

void check_imported_shape(std::size_t layers, std::size_t experts) {
  if (layers > kMaxImportedLayers) throw Unreadable("tokens_per_expert: too many layers");
  if (experts > kMaxImportedExperts || layers * experts > kMaxImportedLoads)
    throw Unreadable("tokens_per_expert: too many experts");
}

void require_layer(int layer, const RunInfo& info) {
  if (!std::ranges::binary_search(info.moe_layers, layer))
    throw Unreadable("layer " + std::to_string(layer) + " is not among the MoE layers of the first step");
}

int listed_experts(const JsonValue* load) {
  JsonList list;
  if (!load || load->get(list) != simdjson::SUCCESS) return 0;
  return std::min(list.size(), kMaxImportedExperts + 1);
}

RunInfo info_of_first_step(const RunInfo& stated, int dense_layers, const NamedLine& line, LineNames& router_names) {
  const JsonFields& first_step = line.fields;
  RunInfo info = stated;
  std::size_t layers = 0;
  if (const JsonValue* load = member(first_step, {"tokens_per_expert", "utilization"});
      load && !first_step.find("layer")) {
    const JsonList list = list_of(*load, "tokens_per_expert", 0, "layers");
    const bool one_layer = is_one_layer(*load);
    layers = one_layer ? 1 : list.size();
    std::size_t experts = one_layer ? list.size() : 0;
    if (!one_layer)
      for (const JsonValue layer_json : list) experts = std::max(experts, experts_of_layer(layer_json));
    check_imported_shape(layers, experts);
    info.n_experts = experts;
  }
  JsonList routers;
  if (const JsonValue* list = member(first_step, {"routers"}); list && list->get(routers) == simdjson::SUCCESS) {
    check_imported_shape(routers.size(), 0);
    for (const JsonValue layer_json : routers) {
      const JsonFields router = router_names.read(fields_of(layer_json, "routers", "no layer")).fields;
      if (!router.find("layer")) throw Unreadable("routers: no layer");
      const int layer = to_index(*router.find("layer"), "layer", -1, kLastImportedLayer);
      if (stated.moe_layers.empty() && layer >= 0) info.moe_layers.push_back(layer);
      const JsonValue* load = member(router, {"tokens_per_expert"});
      if (load && load->is_array()) info.n_experts = std::max(info.n_experts, listed_experts(load));
    }
    check_imported_shape(info.moe_layers.size(), info.n_experts);
  }
  if (stated.moe_layers.empty()) add_layers_of(line.of_layers, info);
  if (layers == 0 && info.moe_layers.empty() && info.n_experts > 0) layers = std::max(0, info.n_layers - dense_layers);
  if (layers > 0 && info.moe_layers.size() != layers) {
    info.n_layers = std::max(info.n_layers, static_cast<int>(layers));
    info.moe_layers.clear();
    for (std::size_t i = 0; i < layers; ++i) info.moe_layers.push_back(info.n_layers - static_cast<int>(layers - i));
  }
  check_imported_shape(info.moe_layers.size(), info.n_experts);
  std::ranges::sort(info.moe_layers);
  return info;
}

bool has_nested(const JsonFields& json) {
  return std::any_of(kNestedKeys.begin(), kNestedKeys.end(), [&](const char* key) { return member(json, {key}); });
}

void read_nested(const JsonFields& json, const RunInfo& info, float aux_coeff, TelemetryFrame& frame) {
  const std::size_t layers = info.moe_layers.size();
  const std::size_t n_experts = info.n_experts;
  frame.routers.resize(layers);
  for (std::size_t i = 0; i < layers; ++i) frame.routers[i].layer = info.moe_layers[i];
  // Reads a list with an entry for each layer; with one layer the outer list may be missing.
  const auto by_layer = [&](const char* key, auto take) {
    const JsonValue* value = member(json, {key});
    if (!value) return false;
    if (is_one_layer(*value) && layers == 1) return take(frame.routers[0], *value), true;
    const JsonList list = list_of(*value, key, layers, "layers");
    if (list.size() != layers) throw Unreadable(std::string(key) + ": the number of layers is not known");
    for (auto router = frame.routers.begin(); const JsonValue of_layer : list) take(*router++, of_layer);
    return true;
  };
  const bool has_counts = by_layer("tokens_per_expert", [&](RouterFrame& router, JsonValue list) {
    if (experts_of_layer(list) > 0) router.tokens_per_expert = to_counts(list, "tokens_per_expert", n_experts);
  });
  if (!has_counts)
    by_layer("utilization", [&](RouterFrame& router, JsonValue list) {
      router.tokens_per_expert = counts_of_ratios(to_floats(list, "utilization", n_experts));
    });
  by_layer("expert_bias", [&](RouterFrame& router, JsonValue list) {
    router.expert_bias = to_floats(list, "expert_bias", n_experts);
  });
  const auto scalars = [&](const char* key, float RouterFrame::*field, float factor) {
    const JsonValue* list = member(json, {key});
    if (!list || is_missing(factor)) return;
    const std::vector<float> values = to_floats(*list, key, layers, "layers");
    for (std::size_t i = 0; i < std::min(layers, values.size()); ++i)
      frame.routers[i].*field = is_missing(values[i]) ? kNoValue : factor * values[i];
  };
  scalars("score_entropy", &RouterFrame::score_entropy, 1);
  scalars("margin", &RouterFrame::margin, 1);
  scalars("aux", &RouterFrame::aux_loss, aux_coeff);
  if (is_missing(frame.aux_loss) && !frame.routers.empty() && !is_missing(frame.routers.front().aux_loss)) {
    frame.aux_loss = 0;
    for (const RouterFrame& router : frame.routers) frame.aux_loss += router.aux_loss;
  }
}

void read_domains(const JsonFields& json, const RunInfo& info, TelemetryFrame& frame) {
  const JsonValue* table = member(json, {"domain_expert"});
  if (!table || info.domains.empty() || info.n_experts == 0) return;
  const JsonFields by_domain = fields_of(*table, "domain_expert", "not an object of lists");
  SpecialisationFrame special;
  const JsonValue* layer = member(json, {"domain_expert_layer"});
  if (!layer) throw Unreadable("domain_expert without domain_expert_layer");
  special.layer = to_index(*layer, "domain_expert_layer", 0, kLastImportedLayer);
  special.experts = info.n_experts;
  const std::size_t n_experts = info.n_experts;
  for (const std::string& domain : info.domains) {
    const JsonValue* found = by_domain.find(domain);
    const auto counts = found ? to_counts(*found, "domain_expert", n_experts) : std::vector<std::uint32_t>(n_experts);
    special.domain_DE.insert(special.domain_DE.end(), counts.begin(), counts.end());
  }
  frame.specialisation.push_back(std::move(special));
}

void add_loads_by_expert(const std::vector<NamedLayerValue>& values, const RunInfo& info, RouterFrame& router) {
  for (const NamedLayerValue& named_value : values) {
    if (!named_value.is_sparse) continue;
    if (info.n_experts == 0)
      throw Unreadable(named_value.match.rule->column +
                       ": experts without tokens are left out, so that their number is not known: state num_experts in "
                       "the first line, or --experts");
    if (named_value.match.expert >= info.n_experts)
      throw Unreadable(named_value.match.rule->column + ": more experts than stated");
    router.tokens_per_expert.resize(info.n_experts);
    router.tokens_per_expert[named_value.match.expert] =
        static_cast<std::uint32_t>(to_count(named_value.value, named_value.match.rule->column.c_str(), 4294967295.0));
  }
}

void sum_up(TelemetryFrame& frame) {
  for (const auto& [field, sum] :
       {std::pair{&RouterFrame::aux_loss, &frame.aux_loss}, std::pair{&RouterFrame::z_loss, &frame.z_loss}}) {
    for (const RouterFrame& router : frame.routers)
      if (!is_missing(router.*field)) *sum = is_missing(*sum) ? router.*field : *sum + router.*field;
  }
}

void join_layer_values(const std::vector<NamedLayerValue>& values, const RunInfo& info, TelemetryFrame& frame) {
  LayerValues by_layer(info);
  for (const NamedLayerValue& named_value : values) by_layer.take(named_value);
  by_layer.join(frame);
}

}  // namespace moescope
