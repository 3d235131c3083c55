#include "core/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/telemetry/input_file.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestFileName = 255;

// -1: not the name of a step's folder.
std::int64_t step_of(const std::string& name) {
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc{} && end == name.data() + name.size() && step >= 0 ? step : -1;
}

}  // namespace

std::string checkpoints_of(const std::string& recording_path) {
  if (recording_path.empty()) return {};
  return fs::path(recording_path).replace_extension(".checkpoints").string();
}

void write_checkpoint(const std::string& folder, std::int64_t step,
                      const std::function<void(const std::string& step_folder)>& write) {
  const fs::path final_path = fs::path(folder) / std::to_string(step);
  const fs::path partial = final_path.string() + ".partial", replaced = final_path.string() + ".replaced";
  try {
    fs::remove_all(partial);
    fs::create_directories(partial);
    write(partial.string());
    fs::remove_all(replaced);
    if (fs::exists(final_path)) fs::rename(final_path, replaced);
    fs::rename(partial, final_path);
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

void write_run_order(const std::string& step_folder, const std::vector<std::string>& run_names) {
  std::ofstream order(fs::path(step_folder) / "runs.txt");
  for (const std::string& name : run_names) order << name << ".safetensors\n";
  if (!order.flush()) throw std::runtime_error(step_folder + "/runs.txt: cannot be written");
}

std::int64_t checkpoint_at(const std::vector<std::int64_t>& steps, std::int64_t step) {
  const auto later = std::ranges::upper_bound(steps, step);
  return later == steps.begin() ? steps.front() : *std::prev(later);
}

std::vector<std::string> newest_checkpoint(const std::string& folder, std::int64_t step) {
  const std::vector<std::int64_t> steps = checkpoint_steps(folder);
  if (steps.empty())
    throw std::runtime_error(folder + ": holds no checkpoint: needed is a folder FOLDER/<step>/<run name>.safetensors");
  const fs::path newest = fs::path(folder) / std::to_string(checkpoint_at(steps, step));
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(newest))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
  if (files.empty()) throw std::runtime_error(newest.string() + ": holds no .safetensors file");
  std::sort(files.begin(), files.end());
  auto placed = files.begin();
  if (!fs::exists(newest / "runs.txt")) return files;
  InputFile order(newest / "runs.txt");
  for (std::string name; order.read_line(name, kLongestFileName);) {
    const auto found = std::find(placed, files.end(), (newest / name).string());
    if (found != files.end()) std::rotate(placed++, found, found + 1);
  }
  return files;
}

}  // namespace moescope
