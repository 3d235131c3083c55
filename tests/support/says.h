#pragma once

#include <string>

namespace moescope {

inline bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace moescope
