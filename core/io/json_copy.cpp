#include "core/io/json_copy.h"

#include <string>

namespace moescope {

namespace {

nlohmann::json copy_of(JsonList list);

nlohmann::json copy_of(JsonValue value) {
  using Type = simdjson::dom::element_type;
  switch (value.type()) {
    case Type::ARRAY:
      return copy_of(value.get_array().value_unsafe());
    case Type::OBJECT:
      return copy_of(JsonFields(value.get_object().value_unsafe()));
    case Type::INT64:
      return value.get_int64().value_unsafe();
    case Type::UINT64:
      return value.get_uint64().value_unsafe();
    case Type::DOUBLE:
      return value.get_double().value_unsafe();
    case Type::STRING:
      return std::string(value.get_string().value_unsafe());
    case Type::BOOL:
      return value.get_bool().value_unsafe();
    case Type::NULL_VALUE:
      break;
  }
  return nullptr;
}

nlohmann::json copy_of(JsonList list) {
  auto copy = nlohmann::json::array();
  for (const JsonValue value : list) copy.push_back(copy_of(value));
  return copy;
}

}  // namespace

nlohmann::json copy_of(const JsonFields& fields) {
  auto copy = nlohmann::json::object();
  for (const auto& [key, value] : fields) copy[std::string(key)] = copy_of(value);
  return copy;
}

}  // namespace moescope
