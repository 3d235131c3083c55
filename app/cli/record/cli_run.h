// moescope-cli run: texts through a checkpoint of Hugging Face's transformers.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

void add_run_command(CLI::App& app);

}  // namespace moescope
