// Reads a pattern of tokenizer.json: {"String": "text"} or {"Regex": "expression"}.
#pragma once

#include "core/tokenizer/json_place.h"
#include "core/tokenizer/pattern.h"

namespace moescope {

Pattern read_pattern(const JsonPlace& place);  // throws Unreadable naming the key

}  // namespace moescope
