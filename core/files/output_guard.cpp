#include "core/files/output_guard.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/files/folder_walk.h"
#include "core/files/unreadable.h"
#include "core/files/whole_file.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

// Compares device and inode if both files exist, otherwise the paths.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  // Paths are made absolute first, because weakly_canonical() does not change "x" and "./x" if no such file exists.
  std::error_code error_a, error_b;
  const fs::path at_a = fs::weakly_canonical(fs::absolute(a), error_a),
                 at_b = fs::weakly_canonical(fs::absolute(b), error_b);
  return !error_a && !error_b && at_a == at_b;
}

constexpr int kDeepestInput = 64;  // levels of folders

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

using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> id_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return FileId{status.st_dev, status.st_ino};
}

// The files below those inputs that are folders.
class InputFolders {
 public:
  explicit InputFolders(const std::vector<std::string>& inputs) {
    std::error_code error;
    for (const std::string& input : inputs)
      if (!input.empty() && fs::is_directory(input, error)) folders_.push_back(input);
  }
  // Returns the folder that holds this file, under any name; empty if there is none.
  std::string folder_of(const std::string& file) {
    const std::optional<FileId> id = id_of(file);
    if (!id || folders_.empty()) return {};
    if (!read_) read();
    const auto found = files_.find(*id);
    return found == files_.end() ? std::string() : found->second;
  }

 private:
  // Reads the folders only when an output exists, because they may be large.
  void read() {
    read_ = true;
    for (const std::string& folder : folders_)
      visit_files_below(folder, kDeepestInput, [&](const fs::path& file) {
        if (const auto id = id_of(file.string())) files_.emplace(*id, folder);
        return true;
      });
  }
  std::vector<std::string> folders_;
  std::map<FileId, std::string> files_;
  bool read_ = false;
};

// Returns the files that an output writes, as far as they are known.
std::vector<std::string> written_files(const OutputFile& output) {
  std::vector<std::string> files = {output.path};
  for (const std::string& name : output.files) files.push_back((fs::path(output.path) / name).string());
  return files;
}

// Returns the input that is or holds a file of the output, with the reason to refuse the output; empty if there is
// none.
std::string problem_of_inputs(const std::vector<std::string>& inputs, InputFolders& folders, const std::string& file) {
  for (const std::string& input : inputs) {
    if (input.empty()) continue;
    if (same_file(input, file)) return "is also an input; choose another name";
    if (is_beside(file, input)) return "is a name that SQLite uses beside " + input + "; choose another one";
  }
  if (const std::string folder = folders.folder_of(file); !folder.empty())
    return "is a file of the input " + folder + "; choose another name";
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
  const bool present = fs::exists(fs::symlink_status(output.path, error));
  if (output.folder || !output.files.empty()) {
    if (present && !fs::is_directory(output.path, error)) return "is a file, expected a folder";
    for (const std::string& name : output.files)
      if (!overwrite && fs::exists(fs::symlink_status(fs::path(output.path) / name, error)))
        return "holds " + name + "; choose another folder, or give --overwrite to replace it";
    return {};
  }
  if (const std::string problem = output_problem(output.path); !problem.empty()) return problem;
  const std::string parent = fs::path(output.path).parent_path().string(), folder = parent.empty() ? "." : parent;
  if (::access((folder + "/.").c_str(), W_OK) != 0) return "folder " + folder + ": " + std::strerror(errno);
  return present && !overwrite ? "exists; choose another name, or give --overwrite to replace it" : "";
}

}  // namespace

void guard_outputs(const std::vector<std::string>& inputs, const std::vector<OutputFile>& outputs, bool overwrite) {
  InputFolders folders(inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputFile& output = outputs[i];
    if (output.path.empty() || is_stream(output)) continue;
    const auto refuse_file = [&](const std::string& file, const std::string& reason) {
      throw std::runtime_error(output.option + (output.option.empty() ? "" : " ") + file + ": " + reason);
    };
    const auto refuse = [&](const std::string& reason) { refuse_file(output.path, reason); };
    if (output.path == "-") refuse("is not standard output here; give the name of a file");
    for (const std::string& file : written_files(output))
      if (const std::string problem = problem_of_inputs(inputs, folders, file); !problem.empty())
        refuse_file(file, problem);
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
