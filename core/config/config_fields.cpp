// Joins the sections of the table of fields.
#include <cstdint>
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

std::ptrdiff_t offset_in(const RunConfig& config, const void* member) {
  return static_cast<const char*>(member) - reinterpret_cast<const char*>(&config);
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

const ConfigField& field_of_member(const RunConfig& config, const void* member) {
  static const std::map<std::ptrdiff_t, const ConfigField*> by_offset = [] {
    std::map<std::ptrdiff_t, const ConfigField*> fields;
    const RunConfig any;
    for (const ConfigField& f : config_fields())
      if (f.member) fields[offset_in(any, f.member(any))] = &f;
    return fields;
  }();
  return *by_offset.at(offset_in(config, member));
}

}  // namespace moescope
