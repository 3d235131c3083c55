#include "core/io/output_guard.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "core/io/whole_file.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

// Compares device and inode if both files exist, otherwise the paths.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  // Paths are made absolute first, because weakly_canonical() does not change "x" and "./x" if no such file exists.
  std::error_code of_a, of_b;
  const fs::path at_a = fs::weakly_canonical(fs::absolute(a), of_a), at_b = fs::weakly_canonical(fs::absolute(b), of_b);
  return !of_a && !of_b && at_a == at_b;
}

// SQLite writes files with these endings beside a recording, and removes them.
constexpr std::array<const char*, 3> kSuffixes = {"-wal", "-shm", "-journal"};

bool is_beside(const std::string& path, const std::string& recording) {
  return std::ranges::any_of(kSuffixes, [&](const char* suffix) { return same_file(path, recording + suffix); });
}

// Returns the existing file, a recording or another database, beside which SQLite would use the name `path`; empty if
// there is none.
std::string owner_of(const std::string& path) {
  for (const std::string_view suffix : kSuffixes) {
    if (!path.ends_with(suffix)) continue;
    const std::string owner = path.substr(0, path.size() - suffix.size());
    std::error_code error;
    if (fs::is_regular_file(owner, error)) return owner;
  }
  return {};
}

bool is_stream(const OutputFile& output) {
  if (!output.stream) return false;
  std::error_code error;
  const fs::file_status status = fs::status(output.path, error);
  return output.path == "-" || (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status));
}

std::string problem_at_path(const OutputFile& output, bool overwrite) {
  std::error_code error;
  const bool there = fs::exists(fs::symlink_status(output.path, error));
  if (output.folder) return there && !fs::is_directory(output.path, error) ? "is a file, expected a folder" : "";
  if (const std::string problem = output_problem(output.path); !problem.empty()) return problem;
  return there && !overwrite ? "exists; choose another name, or give --overwrite to replace it" : "";
}

}  // namespace

void guard_outputs(const std::vector<std::string>& inputs, const std::vector<OutputFile>& outputs, bool overwrite) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputFile& output = outputs[i];
    if (output.path.empty() || is_stream(output)) continue;
    const auto refuse = [&](const std::string& why) {
      throw std::runtime_error(output.option + ' ' + output.path + ": " + why);
    };
    for (const std::string& input : inputs)
      if (!input.empty() && same_file(input, output.path))
        refuse("is also an input; choose another name");
      else if (!input.empty() && is_beside(output.path, input))
        refuse("is a name that SQLite uses beside " + input + "; choose another one");
    for (std::size_t j = 0; j < i; ++j) {
      const OutputFile& other = outputs[j];
      if (other.path.empty()) continue;
      if (same_file(other.path, output.path)) refuse("is also the file of " + other.option);
      if (is_beside(output.path, other.path) || is_beside(other.path, output.path))
        refuse("conflicts with the file of " + other.option +
               ": SQLite uses one of these names beside the other; choose another one");
    }
    if (const std::string owner = owner_of(output.path); !owner.empty() && !output.folder)
      refuse("is a name that SQLite uses beside " + owner + "; choose another one");
    if (const std::string problem = problem_at_path(output, overwrite); !problem.empty()) refuse(problem);
  }
}

}  // namespace moescope
