#include "core/tokenizer/read_pattern.h"

#include <stdexcept>

namespace moescope {

Pattern read_pattern(const JsonPlace& place) {
  if (const auto literal = place.find("String")) return Pattern::literal(literal->text());
  const JsonPlace expression = place.at("Regex");
  try {
    return Pattern::regex(expression.text());
  } catch (const std::invalid_argument& error) {
    expression.fail(error.what());
  }
}

}  // namespace moescope
