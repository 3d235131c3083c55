// Meanings of the letters in the formulas of the explain cards.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moescope {

// Returns the letters and letters with an index in a formula, each once: "T", "n_e", "max_e", "s_" for s_(K).
std::vector<std::string> formula_letters(std::string_view formula);

// "T: tokens of the batch; E: routed experts of a layer". Leaves out letters that the formula itself explains.
std::string formula_legend(std::string_view formula);

}  // namespace moescope
