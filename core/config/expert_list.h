// Lists of experts in the run config: "2:7, *:3" names expert 7 of layer 2 and expert 3 of every MoE layer. A list of
// biases gives each a value: "2:7=0.5, *:3=-1". Layers count from 0 among all layers, experts from 0. If an expert has
// two entries, the later one counts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

enum class ListOf { experts, values };

// (layer, expert) -> value; 0 in a list without values.
using ExpertValues = std::map<std::pair<int, int>, double>;

// Parses `text` and expands "*" to the MoE layers of `model`. Throws std::invalid_argument with the entry, the problem
// and what is allowed.
ExpertValues parse_experts(std::string_view text, const ModelConfig& model, ListOf kind);
// Returns the shortest list that parse_experts() reads back.
std::string experts_text(const ExpertValues& experts, const ModelConfig& model, ListOf kind);

// Experts that cannot be chosen: [MoE layer][E], 1 if router.killed_experts names the expert; empty if it names none.
using ExpertMasks = std::vector<std::vector<std::uint8_t>>;
ExpertMasks killed_masks(const RunConfig& config);

}  // namespace moescope
