// moescope-cli quantize: tensors of a safetensors file in a microscaling format.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

// Adds the sub-command; its callback throws std::runtime_error for errors that the user can fix.
void add_quantize_command(CLI::App& app);

}  // namespace moescope
