// moescope-cli quantize: tensors of a safetensors file in a microscaling format.
#pragma once

#include <CLI/CLI.hpp>

namespace moescope {

// Adds the sub-command; its callback throws std::runtime_error on what the user can mend.
void add_quantize_command(CLI::App& app);

}  // namespace moescope
