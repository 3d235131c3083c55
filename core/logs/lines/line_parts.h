// What a line of JSON is: a step, a remark of the script, or the end of a training; and which parts of it can be read.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "core/logs/lines/line_names.h"

namespace moescope {

// Keys of a step besides the figures. A key that is logged again shows that its step was repeated.
inline constexpr std::array<const char*, 8> kValuesOfStep = {
    "tokens_per_expert", "utilization", "expert_bias", "routers", "quants", "gradients", "specialisation", "texts"};

// False for a remark of the script, such as {"end": true}: after the first step, a line without a step and figures.
bool has_figures(const NamedLine& line);
bool holds_other_values(const JsonFields& fields);  // values of a step besides its figures
std::string settings_text(const JsonFields& fields);
// Returns the step and the readable figures of a line that could not be read as a whole; nullopt if no figure is left.
std::optional<NamedLine> readable_part(const NamedLine& line);
// True for the last line of Hugging Face's Trainer, which has totals and means of the whole training.
bool is_closing(const JsonFields& json);

}  // namespace moescope
