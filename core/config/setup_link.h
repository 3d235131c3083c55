// A set-up as a short text to paste, to mail or to put on a page: the settings of the runs that train side by side, and
// what of them is looked at.
//
//   moescope:setup?workspace=router&layer=2&step=120&config=eJx...
//
// `config` is TOML as parse_config() reads it, compressed by zlib, in base64url: the settings that differ from the
// defaults, and a [[compare]] for each twin. A program whose defaults are others fills in its own. White space in the
// text does not count: mails wrap it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

struct SharedSetup {
  std::vector<RunConfig> configs;  // the first is run A
  std::int64_t step = -1;          // to train up to, and to show; -1: not said, as the next
  std::string workspace;           // its name in small letters; empty: not said
  int run = -1, layer = -1, expert = -1;
};

inline constexpr std::string_view kSetupScheme = "moescope:";
bool is_setup_link(std::string_view text);  // begins like one, after white space

// Without the twins that differ in nothing from run A. Empty: these runs cannot train side by side, as those that read
// different texts.
std::string setup_link(const SharedSetup& setup);
// Throws std::runtime_error with one sentence: what is wrong with the text, or with the settings in it.
SharedSetup read_setup_link(std::string_view text);

}  // namespace moescope
