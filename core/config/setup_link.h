// A set-up as a short text to paste, to mail or to put on a page: the settings of runs that train side by side, and
// what is shown of them.
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
  std::vector<RunConfig> configs;  // the first is run A
  std::int64_t step = -1;          // step to train up to and to show; -1 if not given, also for the next member
  std::string workspace;           // name in lower-case letters; empty if not given
  int run = -1, layer = -1, expert = -1;
};

inline constexpr std::string_view kSetupScheme = "moescope:";
bool is_setup_link(std::string_view text);  // judged by the beginning, after white space

// Omits twins that do not differ from run A. Empty if these runs cannot train side by side, for example because they
// read different texts.
std::string setup_link(const SharedSetup& setup);
// Throws std::runtime_error with one sentence that says what is wrong with the text or the settings in it.
SharedSetup read_setup_link(std::string_view text);

}  // namespace moescope
