// Lists of experts in the run config: "2:7, *:3" names expert 7 of layer 2 and expert 3 of every MoE layer; a list of
// biases gives each a value: "2:7=0.5, *:3=-1". Layers count from 0 among all layers, experts from 0. Of two entries
// for one expert the later one counts.
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

// Parses `text`, with "*" expanded to the MoE layers of `model`. Throws std::invalid_argument with the entry, what is
// wrong with it and what is allowed.
ExpertValues parse_experts(std::string_view text, const ModelConfig& model, ListOf kind);
// The shortest list that parse_experts() reads back.
std::string experts_text(const ExpertValues& experts, const ModelConfig& model, ListOf kind);

// Experts that cannot be chosen: [MoE layer][E], 1 where router.killed_experts names one; empty when it names none.
using ExpertMasks = std::vector<std::vector<std::uint8_t>>;
ExpertMasks killed_masks(const RunConfig& config);

}  // namespace moescope
