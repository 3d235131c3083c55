#include "core/training/engine/queue_file.h"

#include <fmt/core.h>

#include <filesystem>
#include <set>

#include "core/config/config_rules.h"
#include "core/config/config_toml.h"
#include "core/files/input_file.h"
#include "core/files/text/toml_section.h"
#include "core/files/whole_file.h"
#include "core/training/engine/lock_step.h"
#include "core/training/engine/run_groups.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxQueueBytes = std::uint64_t{4} << 20;  // a config takes 4 kB

std::int64_t required_integer(TomlSection& file, const char* key, std::int64_t min, std::int64_t max) {
  file.require(key);
  return file.integer(key, min, min, max);
}

void require_one_queue(TomlSection& file, const std::vector<RunConfig>& runs) {
  if (runs.size() < 2 || runs.size() > 1 + kMaxCandidates)
    return file.problem(
        "run", fmt::format("there are {}; allowed: run A and 1 to {} candidates", runs.size(), kMaxCandidates));
  std::set<std::string> names;
  for (const RunConfig& run : runs) {
    if (!names.insert(run.name).second) file.problem("run", "two runs are named " + run.name);
    if (const std::string problem = lock_step_problem(runs.front(), run); !problem.empty())
      file.problem("run", problem);
  }
}

}  // namespace

std::string queue_file_of(const std::string& recording) {
  return fs::path(recording).replace_extension(kQueueSuffix).string();
}

std::string recording_of_queue(const std::string& queue_file) {
  return fs::path(queue_file).replace_extension(".moescope").string();
}

std::string queue_file_beside(const std::string& group_recording) {
  const fs::path path(group_recording);
  const std::string stem = path.stem().string();
  const std::size_t dash = stem.rfind('-');
  const std::string number = dash == std::string::npos ? "" : stem.substr(dash + 1);
  if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) return {};
  const std::string queue = (path.parent_path() / (stem.substr(0, dash) + kQueueSuffix)).string();
  return fs::is_regular_file(queue) ? queue : std::string();
}

QueueState parse_queue(std::string_view text, std::string_view file_name) {
  QueueState state;
  read_valid_toml(text, file_name, [&](TomlSection& file) {
    state.steps = required_integer(file, "steps", 1, kMaxGroupSteps);
    state.finished = to_int(required_integer(file, "finished_groups", 0, kMaxCandidates));
    file.for_each_section("run", [&](TomlSection& run) { state.runs.push_back(read_config(run)); });
    if (file.problems().found.empty()) require_one_queue(file, state.runs);
  });
  return state;
}

QueueState load_queue(const std::string& path) {
  return parse_queue(read_file(path, kMaxQueueBytes, "queue of candidates"), path);
}

void save_queue(const std::string& path, const QueueState& state) {
  std::string text =
      fmt::format("# Queue of candidates of MoEScope\nsteps = {}\nfinished_groups = {}\n", state.steps, state.finished);
  for (const RunConfig& run : state.runs) {
    text += "\n[[run]]\n";
    for (const ConfigField& field : config_fields())
      if (!field.derived) text += fmt::format("{} = {}\n", field.key, toml_value(field.get(run)));
  }
  write_whole_file(path, text);
}

}  // namespace moescope
