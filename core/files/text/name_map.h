// A map of texts in which a std::string_view is found without a copy.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace moescope {

struct NameHash : std::hash<std::string_view> {
  using is_transparent = void;
};
template <class Value>
using NameMap = std::unordered_map<std::string, Value, NameHash, std::equal_to<>>;

}  // namespace moescope
