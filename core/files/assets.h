// Text files of assets/ that are built into the program.
#pragma once

#include <span>
#include <string_view>

namespace moescope {

struct Asset {
  std::string_view name;  // path below assets/: "presets/nano.toml"
  std::string_view text;
};
std::span<const Asset> assets();
// Returns the text of an asset; empty if there is no such asset.
inline std::string_view asset(std::string_view name) {
  for (const Asset& candidate : assets())
    if (candidate.name == name) return candidate.text;
  return {};
}

// Returns the style sheet of all pages that the program writes. Its variables are the colours and type of the window.
inline std::string_view page_look() {
  return asset("replay/page.look.css");
}

}  // namespace moescope
