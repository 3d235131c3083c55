// libFuzzer over folders of runs: those of TensorBoard, W&B and MLflow, and other files with names of runs. Each line
// of the input makes a file, "PATH CONTENT", or a link, "PATH -> TARGET"; a line with the path of an existing file
// appends to it. All runs that runs_in_folder() finds are opened, and so is the folder. How to run: CONTRIBUTING.md.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/logs/file_kind.h"
#include "core/logs/open_runs.h"
#include "core/logs/runs_in_folder.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxLines = 2000;

// True if the path stays below the folder.
bool is_usable(std::string_view path) {
  return !path.empty() && path.size() < 200 && path.front() != '/' && path.find("..") == std::string_view::npos &&
         path.find('\0') == std::string_view::npos;
}

void make(const fs::path& folder, std::string_view line) {
  const std::size_t space = std::min(line.find(' '), line.size());
  const std::string_view path = line.substr(0, space), content = line.substr(std::min(space + 1, line.size()));
  if (!is_usable(path)) return;
  const fs::path file = folder / path;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (content.starts_with("-> ") && is_usable(content.substr(3)))
    fs::create_symlink(content.substr(3), file, error);
  else if (!fs::is_symlink(file, error))
    std::ofstream(file, std::ios::binary | std::ios::app) << content << '\n';
}

void open(const std::string& path) {
  try {
    if (!holds_runs(file_kind(path))) return;
    for (const auto& run : open_runs({path}, {}, 4).histories) require(run->count() > 0, "a run has steps");
  } catch (const std::runtime_error& error) {
    require(*error.what() != 0, "says why it is refused");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const WithinLimits limits;
  const fs::path folder = fs::temp_directory_path() / ("moescope_fuzz_folder_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::string_view unread(reinterpret_cast<const char*>(data), size);
  for (std::size_t lines = 0; !unread.empty() && lines < kMaxLines; ++lines) {
    const std::size_t end = std::min(unread.find('\n'), unread.size());
    make(folder, unread.substr(0, end));
    unread.remove_prefix(std::min(end + 1, unread.size()));
  }
  for (const RunFile& run : runs_in_folder(folder.string())) open(run.path);
  open(folder.string());
  fs::remove_all(folder);
  return 0;
}
