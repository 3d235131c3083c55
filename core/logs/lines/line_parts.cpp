#include "core/logs/lines/line_parts.h"

#include <algorithm>
#include <utility>

#include "core/files/text/json_text.h"
#include "core/frame/figures.h"
#include "core/logs/lines/step_fields.h"

namespace moescope {

bool has_figures(const NamedLine& line) {
  return has_nested(line.fields) || !line.of_layers.empty() || member(line.fields, {"routers", "layer", "markers"}) ||
         std::ranges::any_of(kFrameFigures, [&](const auto& figure) { return member(line.fields, {figure.column}); });
}

bool holds_other_values(const JsonFields& fields) {
  return member(fields, {"wire", "flips", "rounding_flips", "router_roundings"}) ||
         std::ranges::any_of(kValuesOfStep, [&](const char* key) { return member(fields, {key}); });
}

std::string settings_text(const JsonFields& fields) {
  std::string text;
  for (const auto& [key, value] : fields)
    text += (text.empty() ? "" : ",") + json_string(key) + ':' + simdjson::minify(value);
  return '{' + text + '}';
}

std::optional<NamedLine> readable_part(const NamedLine& line) {
  std::vector<JsonFields::Field> fields;
  bool has_figure = false, lacks_value = !line.of_layers.empty() || holds_other_values(line.fields);
  for (const JsonFields::Field& field : line.fields) {
    const bool is_figure =
        std::ranges::any_of(kFrameFigures, [&](const auto& figure) { return field.key == figure.column; });
    const bool is_readable = is_figure && (field.value.is_null() || holds_number(field.value));
    has_figure = has_figure || is_readable;
    lacks_value = lacks_value || (is_figure && !is_readable);
    if (is_readable || field.key == "step" || field.key == "epoch") fields.push_back(field);
  }
  if (!has_figure || !lacks_value || line.fields.find("layer")) return {};
  return NamedLine{JsonFields(std::move(fields)), {}, line.part, line.converted};
}

bool is_closing(const JsonFields& json) {
  return member(json, {"train_runtime", "train/train_runtime"}) && !member(json, {"loss", "train/loss"});
}

}  // namespace moescope
