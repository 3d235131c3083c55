#include "core/logs/follower.h"

namespace moescope {

std::string truncated_text(std::int64_t last_step) {
  const std::string text = "the file was truncated or replaced";
  return last_step < 0 ? text : text + " after step " + std::to_string(last_step);
}

std::string kept_text(std::int64_t last_step) {
  return "its steps go on: the steps up to " + std::to_string(last_step) + " are kept";
}

std::string dropped_text(std::int64_t last_step) {
  return "it does not go on: the steps up to " + std::to_string(last_step) + " are no longer shown";
}

}  // namespace moescope
