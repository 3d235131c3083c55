#include "core/logs/lines/line_names.h"

#include <algorithm>
#include <array>

#include "core/frame/figures.h"
#include "core/io/text_escape.h"

namespace moescope {

namespace {

constexpr std::size_t kMostKnown = 10000;  // names whose meaning is kept
constexpr std::size_t kLongestShown = 60;

// Names of this program's own lines (jsonl.h) that the table does not have.
bool is_own_name(std::string_view name) {
  constexpr std::array<std::string_view, 26> kOwn = {"run",
                                                     "wall_s",
                                                     "tokens",
                                                     "phase_ms",
                                                     "routers",
                                                     "quants",
                                                     "flips",
                                                     "gradients",
                                                     "texts",
                                                     "specialisation",
                                                     "wire",
                                                     "rounding_flips",
                                                     "markers",
                                                     "layer",
                                                     "score_mass",
                                                     "gate_mass",
                                                     "score_chosen",
                                                     "score_rejected",
                                                     "volume",
                                                     "margin_tokens",
                                                     "margin",
                                                     "score_entropy",
                                                     "aux",
                                                     "domain_expert",
                                                     "domain_expert_layer",
                                                     "config"};
  if (std::ranges::find(kOwn, name) != kOwn.end()) return true;
  return std::ranges::any_of(kRouterFigures, [&](const auto& figure) { return name == figure.column; });
}

}  // namespace

std::optional<TagMatch> LineNames::find(std::string_view name) {
  if (const auto known = known_.find(name); known != known_.end()) return known->second;
  const auto found = is_own_name(name) ? std::nullopt : tags_.find(name);
  if (known_.size() < kMostKnown) known_.emplace(name, found);
  return found;
}

void LineNames::note_unknown(std::string_view name) {
  if (unknown_.size() < kMostUnknown) unknown_.insert(printable(std::string(name.substr(0, kLongestShown))));
}

bool LineNames::is_shown_name(const TagRule& rule) {
  const auto [place, is_new] = places_.try_emplace(rule.column, rule.place);
  place->second = std::min(place->second, rule.place);
  return place->second == rule.place;
}

bool LineNames::has_step(const JsonFields& line) {
  return std::ranges::any_of(line, [&](const JsonFields::Field& field) {
    const auto found = find(field.key);
    return found && found->rule->means == TagMeaning::step_number &&
           (field.value.is_number() || field.value.is_string());
  });
}

NamedLine LineNames::read(const JsonFields& line) {
  std::vector<JsonFields::Field> fields;
  std::vector<LayerValue> of_layers;
  std::vector<std::pair<const TagRule*, JsonFields::Field>> named;
  for (const JsonFields::Field& field : line) {
    const auto found = find(field.key);
    if (!found) {
      fields.push_back(field);
      if (unknown_.size() < kMostUnknown && !is_own_name(field.key)) note_unknown(field.key);
    } else if (field.value.is_null() || found->rule->means == TagMeaning::ignored)
      continue;
    else if (is_list(*found) && field.value.is_number())  // another quantity of that name, as the load of a machine
      note_unknown(field.key);
    else if (found->layer >= 0 || found->expert >= 0)
      of_layers.push_back({*found, field.value});
    else if (is_shown_name(*found->rule))
      named.emplace_back(found->rule, field);
    else
      note_unknown(field.key);
  }
  for (auto& [rule, field] : named) {
    const bool shown = places_.find(rule->column)->second == rule->place;  // a better one may have come after it
    if (!shown) note_unknown(field.key);
    if (shown) fields.push_back({rule->column, field.value});
  }
  return {JsonFields(std::move(fields)), std::move(of_layers)};
}

}  // namespace moescope
