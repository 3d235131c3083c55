// A set-up as a short text to paste, to mail or to put on a page. It holds the settings of runs that train side by
// side, and the workspace, run, layer, expert and step to show.
//
//   moescope:setup?workspace=router&layer=2&step=120&config=eJx...
//
// `config` is TOML as parse_config() reads it, compressed by zlib, in base64url: the settings that differ from the
// defaults, and a [[compare]] for each twin. A program with other defaults uses its own for the rest. White space is
// ignored, because mail programs wrap long lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

struct SharedSetup {
  std::vector<RunConfig> configs;         // the first is run A
  std::int64_t step = -1;                 // step to train up to and to show; -1 if not given
  std::string workspace;                  // name in lower-case letters; empty if not given
  int run = -1, layer = -1, expert = -1;  // what to show; -1 if not given
};

inline constexpr std::string_view kSetupScheme = "moescope:";
bool is_setup_link(std::string_view text);  // true if it begins with the scheme, after white space

// Returns the link, without twins that do not differ from run A; empty if these runs cannot train side by side, for
// example because they read different texts.
std::string setup_link(const SharedSetup& setup);
// Reads a link. Throws std::runtime_error with one sentence that says what is wrong with the text or its settings.
SharedSetup read_setup_link(std::string_view text);

}  // namespace moescope
