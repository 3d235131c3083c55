// main() of the checkers whose reference data is a folder of sets.
#pragma once

#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/files/tensors/safetensors.h"
#include "tests/golden/tally.h"

namespace moescope {

struct ReferenceSet {
  const char* name;  // NAME.safetensors
  std::function<void(const SafetensorsFile&)> check;
};

// Checks the sets that the folder, the only argument, holds. Returns the exit status: 0 all values are equal, 1 some
// differ, 2 a file could not be read or nothing was compared.
inline int check_folder(const char* program, int argc, char** argv, const std::vector<ReferenceSet>& sets) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIR\n", program);
    return 2;
  }
  int unreadable = 0;
  for (const ReferenceSet& set : sets) {
    const std::filesystem::path path = std::filesystem::path(argv[1]) / (std::string(set.name) + ".safetensors");
    if (!std::filesystem::exists(path)) continue;
    std::printf("%s\n", path.filename().c_str());
    try {
      set.check(SafetensorsFile(path.string()));
    } catch (const std::exception& error) {
      std::printf("  failed: %s\n", error.what());
      ++unreadable;
    }
  }
  std::printf("%zu values compared, %zu differ, %d files unreadable\n", Tally::total_compared, Tally::total_differ,
              unreadable);
  if (unreadable || Tally::total_compared == 0) return 2;
  return Tally::total_differ ? 1 : 0;
}

}  // namespace moescope
