// FigureOfPieces as JSON, for the markers of a recording.
#pragma once

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/frame/figure_of_pieces.h"

namespace moescope {

// [mean, interval]; null where a number is NaN.
inline nlohmann::json as_json(const FigureOfPieces& figure) {
  const auto number = [](double value) { return std::isnan(value) ? nlohmann::json() : nlohmann::json(value); };
  return {number(figure.mean), number(figure.interval)};
}

// Reads what as_json() writes. Throws nlohmann::json::exception for anything else.
inline FigureOfPieces figure_in(const nlohmann::json& figure) {
  const auto number = [&](std::size_t i) {
    const nlohmann::json& value = figure.at(i);
    return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  };
  return {number(0), number(1)};
}

}  // namespace moescope
