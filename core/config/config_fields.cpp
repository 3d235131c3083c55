// Joins the sections of the table of fields.
#include <map>

#include "core/config/field_maker.h"

namespace moescope {
namespace {

std::vector<ConfigField> make_table() {
  std::vector<ConfigField> table;
  for (const auto fields : {run_fields, model_fields, router_fields, optimizer_fields, precision_fields, data_fields,
                            parallel_fields, telemetry_fields})
    for (ConfigField& field : fields()) table.push_back(std::move(field));
  return table;
}

}  // namespace

std::span<const ConfigField> config_fields() {
  static const std::vector<ConfigField> table = make_table();
  return table;
}

const ConfigField* find_field(std::string_view key) {
  for (const ConfigField& f : config_fields())
    if (f.key == key) return &f;
  return nullptr;
}

const RunConfig& default_config() {
  static const RunConfig config;
  return config;
}

const ConfigField& field_of_member(const void* member) {
  static const std::map<const void*, const ConfigField*> by_place = [] {
    std::map<const void*, const ConfigField*> fields;
    for (const ConfigField& f : config_fields())
      if (f.member) fields[f.member(default_config())] = &f;
    return fields;
  }();
  return *by_place.at(member);
}

}  // namespace moescope
