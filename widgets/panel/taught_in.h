// The guided lesson that teaches a figure, for the explain cards.
#pragma once

#include <QString>
#include <optional>
#include <string_view>

namespace moescope {

struct TaughtIn {
  int number = 0;  // number of the lesson, in teaching order
  QString title;
};

// Returns the first lesson that asks for the figure or checks it; nullopt if there is none. Reads the lessons once.
std::optional<TaughtIn> taughtIn(std::string_view figure);

}  // namespace moescope
