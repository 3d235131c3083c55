// Names of the values of an enumeration.
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace moescope {

// A table is called with a value: severity_name(Severity::note) is "note".
template <class Enum, std::size_t kCount>
struct NameTable {
  const char* names[kCount];  // in the order of the values

  constexpr const char* operator()(Enum value) const { return names[static_cast<std::size_t>(value)]; }
  // Returns the value called `name`; nullopt if there is none.
  std::optional<Enum> find(std::string_view name) const {
    for (std::size_t i = 0; i < kCount; ++i)
      if (name == names[i]) return static_cast<Enum>(i);
    return std::nullopt;
  }
  // As find(). If there is none, throws std::runtime_error: "payload 'fp7' is not known; allowed: bf16, fp8, mxfp8".
  Enum get(const char* what, std::string_view name) const {
    if (const auto found = find(name)) return *found;
    std::string allowed;
    for (const char* known : names) allowed += (allowed.empty() ? "" : ", ") + std::string(known);
    throw std::runtime_error(std::string(what) + " '" + std::string(name) + "' is not known; allowed: " + allowed);
  }
};

template <class Enum>
constexpr auto names_of(const auto*... names) {
  return NameTable<Enum, sizeof...(names)>{{names...}};
}

}  // namespace moescope
