// Numbers in the JSON that the command line prints.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

namespace moescope {

inline nlohmann::ordered_json number_or_null(double value) {  // returns null for NaN and infinity
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace moescope
