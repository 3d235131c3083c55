#include "core/training/checkpoint_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/io/input_file.h"
#include "core/io/whole_file.h"
#include "core/io/words.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestFileName = 255;

// Returns the step of a folder with this name; -1 if it is not the name of a step's folder.
std::int64_t step_of(const std::string& name) {
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc{} && end == name.data() + name.size() && step >= 0 ? step : -1;
}

// Syncs the bytes of a file, or the names in a folder.
void sync_to_disk(const fs::path& path) {
  const int opened = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  // EINVAL: not supported by this file system.
  const bool done = opened >= 0 && (fsync(opened) == 0 || errno == EINVAL);
  const int why = errno;
  if (opened >= 0) close(opened);
  if (!done) throw std::runtime_error(path.string() + ": cannot be synced to the disk: " + std::strerror(why));
}

// Returns the files in the order of runs.txt; `files` must be sorted by name.
std::vector<std::string> in_run_order(const fs::path& runs_txt, const std::vector<std::string>& files) {
  if (!fs::exists(runs_txt)) return files;
  InputFile order(runs_txt);
  std::vector<std::string> named;
  for (std::string name; order.read_line(name, kLongestFileName);)
    named.push_back((runs_txt.parent_path() / name).string());
  std::vector<std::string> sorted = named;
  std::sort(sorted.begin(), sorted.end());
  if (sorted == files) return named;
  throw std::runtime_error(runs_txt.string() +
                           ": damaged checkpoint: it does not name the runs that are there, each once: " +
                           joined(files, ", ", [](const fs::path& file) { return file.filename().string(); }));
}

}  // namespace

std::string checkpoints_of(const std::string& recording_path) {
  if (recording_path.empty()) return {};
  return fs::path(recording_path).replace_extension(".checkpoints").string();
}

void write_checkpoint(const std::string& folder, std::int64_t step, const std::vector<RunToSave>& runs) {
  const fs::path final_path = fs::path(folder) / std::to_string(step);
  const fs::path partial = final_path.string() + ".partial", replaced = final_path.string() + ".replaced";
  try {
    fs::remove_all(partial);
    fs::create_directories(partial);
    std::string order;
    for (const RunToSave& run : runs) {
      const std::string name = run.name + ".safetensors";
      run.save((partial / name).string());
      order += name + '\n';
    }
    write_whole_file((partial / "runs.txt").string(), order);
    for (const auto& file : fs::directory_iterator(partial)) sync_to_disk(file);
    sync_to_disk(partial);
    fs::remove_all(replaced);
    if (fs::exists(final_path)) fs::rename(final_path, replaced);
    fs::rename(partial, final_path);
    sync_to_disk(folder);
    fs::remove_all(replaced);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw std::runtime_error("checkpoint " + final_path.string() + " could not be written: " + error.what());
  }
}

std::vector<std::int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (const std::int64_t step = step_of(it->path().filename().string()); step >= 0 && it->is_directory(error))
      steps.push_back(step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<std::string> checkpoint_files(const std::string& step_folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(step_folder))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::int64_t checkpoint_at(const std::vector<std::int64_t>& steps, std::int64_t step) {
  const auto later = std::ranges::upper_bound(steps, step);
  return later == steps.begin() ? steps.front() : *std::prev(later);
}

std::vector<std::string> newest_checkpoint(const std::string& folder, std::int64_t step) {
  const std::vector<std::int64_t> steps = checkpoint_steps(folder);
  if (steps.empty())
    throw std::runtime_error(folder + ": holds no checkpoint: expected a folder with <step>/<run name>.safetensors");
  const fs::path newest = fs::path(folder) / std::to_string(checkpoint_at(steps, step));
  const std::vector<std::string> files = checkpoint_files(newest.string());
  if (files.empty()) throw std::runtime_error(newest.string() + ": holds no .safetensors file");
  return in_run_order(newest / "runs.txt", files);
}

}  // namespace moescope
