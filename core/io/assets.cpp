#include "core/io/assets.h"

namespace moescope {

std::string_view asset(std::string_view name) {
  for (const Asset& candidate : assets())
    if (candidate.name == name) return candidate.text;
  return {};
}

}  // namespace moescope
