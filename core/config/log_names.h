// Names that other programs give to settings of a run, from the tables [settings] of assets/tags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moescope {

struct LogName {
  std::string setting;  // key in [settings]: "aux_coeff"
  std::string name;     // "moe_aux_loss_coeff"
  std::string program;  // "Megatron-LM"; empty: many programs use the name
};

// All names: those that many programs use first.
const std::vector<LogName>& log_names();
}  // namespace moescope
