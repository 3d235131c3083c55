// moescope-cli volumes: bytes of an expert-parallel all-to-all by link, counted from a routing.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

// Adds the sub-command; its callback throws std::runtime_error for errors that the user can fix.
void add_volumes_command(CLI::App& app);

}  // namespace moescope
