#include "core/training/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "core/files/input_file.h"
#include "core/files/text/words.h"
#include "core/files/whole_file.h"
#include "core/files/whole_folder.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestFileName = 255;
constexpr const char* kRunsFile = "runs.txt";

// Returns the step of a folder with this name; -1 if it is not the name of a step's folder.
std::int64_t step_of(const std::string& name) {
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc{} && end == name.data() + name.size() && step >= 0 ? step : -1;
}

bool is_checkpoint_file(std::string_view name) {
  return name.ends_with(".safetensors") || name == kRunsFile;
}

std::string step_folder(const std::string& folder, std::int64_t step) {
  return (fs::path(folder) / std::to_string(step)).string();
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
  const std::string path = step_folder(folder, step);
  try {
    WholeFolder files(path, is_checkpoint_file);
    std::string order;
    for (const RunToSave& run : runs) {
      const std::string name = run.name + ".safetensors";
      run.save(files.file(name));
      order += name + '\n';
    }
    write_whole_file(files.file(kRunsFile), order);
    files.finish();
  } catch (const std::exception& error) {
    throw std::runtime_error("checkpoint " + path + " could not be written: " + error.what());
  }
}

void remove_checkpoint(const std::string& folder, std::int64_t step) {
  remove_own_files(step_folder(folder, step), is_checkpoint_file);
}

std::vector<std::int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    fs::path name = it->path().filename();
    if (name.extension() == ".replaced") name = name.stem();  // left by a program that was killed (whole_folder.h)
    const std::int64_t step = step_of(name.string());
    if (step >= 0 && it->is_directory(error) && !checkpoint_files(folder, step).empty()) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

std::vector<std::string> checkpoint_files(const std::string& folder, std::int64_t step) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(whole_folder_at(step_folder(folder, step)), error), end; !error && it != end;
       it.increment(error))
    if (it->path().extension() == ".safetensors") files.push_back(it->path().string());
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
  const std::vector<std::string> files = checkpoint_files(folder, checkpoint_at(steps, step));
  return in_run_order(fs::path(files.front()).parent_path() / kRunsFile, files);
}

}  // namespace moescope
