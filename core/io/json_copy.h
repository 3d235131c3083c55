// A parsed line as a JSON document of its own, to keep or to print.
#pragma once

#include <nlohmann/json.hpp>

#include "core/io/json_values.h"

namespace moescope {

nlohmann::json copy_of(const JsonFields& fields);

}  // namespace moescope
