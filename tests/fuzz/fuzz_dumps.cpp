// libFuzzer over dumps of expert statistics: the first line of the input is the name of a file, which decides how it is
// read, the rest its bytes. The file, and the folder that it is in, are read or refused with a message, in little
// memory and time. How to run: CONTRIBUTING.md.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/logs/log_readers.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLongestFileName = 64;

std::string usable_name(std::string_view name) {
  std::string usable;
  for (const char c : name.substr(0, kLongestFileName))
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_') usable += c;
  return usable.empty() || usable.starts_with('.') ? "dump" + usable : usable;
}

void read_dump(const std::string& path, std::size_t size) {
  ImportOptions options;
  options.routed = {static_cast<int>(size % 3), static_cast<int>(size % 4), static_cast<int>(size % 5 == 0 ? 16 : 0)};
  try {
    const Imported dump = import_expert_counts(path, options);
    require(!dump.runs.empty(), "a run, or it is refused");
    for (const auto& run : dump.runs) {
      require(run->count() > 0, "a run has steps");
      require(run->info().n_experts > 0 && !run->info().moe_layers.empty(), "a run has experts and layers");
      require(std::ranges::is_sorted(run->steps_in(run->steps())), "steps rise");
    }
    require(!dump.account.rows.empty(), "the account has a row of counts");
  } catch (const std::runtime_error& refused) {
    require(*refused.what() != 0, "says why it is refused");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const WithinLimits limits;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string_view content = input.substr(std::min(end + 1, input.size()));
  const fs::path folder = fs::temp_directory_path() / ("moescope_fuzz_dumps_" + std::to_string(::getpid()));
  const fs::path file = folder / usable_name(input.substr(0, end));
  fs::create_directories(folder);
  std::ofstream(file, std::ios::binary) << content;
  is_expert_counts(file.string(), content.substr(0, 4096));
  read_dump(file.string(), size);
  is_expert_counts(folder.string(), {});
  read_dump(folder.string(), size);
  fs::remove_all(folder);
  return 0;
}
