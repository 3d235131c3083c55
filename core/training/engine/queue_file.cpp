#include "core/training/engine/queue_file.h"

#include <fmt/core.h>

#include <filesystem>
#include <set>
#include <stdexcept>

#include "core/config/config_toml.h"
#include "core/files/input_file.h"
#include "core/files/text/json_text.h"
#include "core/files/whole_file.h"
#include "core/training/engine/lock_step.h"
#include "core/training/engine/run_groups.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr int kQueueFormat = 1;
constexpr std::uint64_t kMaxQueueBytes = std::uint64_t{4} << 20;  // a config with its comments takes 20 kB
constexpr const char *kFormatKey = "moescope_queue", *kStepsKey = "steps", *kFinishedKey = "finished_groups",
                     *kRunsKey = "runs";

[[noreturn]] void refuse_queue(const std::string& reason) {
  throw std::runtime_error("is not a queue of candidates that can be continued: " + reason);
}

const nlohmann::json& entry_of(const nlohmann::json& file, const char* key) {
  const auto found = file.find(key);
  if (found == file.end()) refuse_queue(std::string("it has no ") + key);
  return *found;
}

std::int64_t whole_number(const nlohmann::json& file, const char* key, std::int64_t min, std::int64_t max) {
  const nlohmann::json& entry = entry_of(file, key);
  const bool whole = entry.is_number_integer();
  if (!whole || entry.get<std::int64_t>() < min || entry.get<std::int64_t>() > max)
    refuse_queue(fmt::format("{} is not a whole number from {} to {}", key, min, max));
  return entry.get<std::int64_t>();
}

RunConfig config_from(const nlohmann::json& entry, std::size_t place) {
  const std::string which = fmt::format("run {}", place + 1);
  if (!entry.is_string()) refuse_queue(which + " is not a text");
  ParsedConfig parsed = parse_config(entry.get_ref<const std::string&>(), which);
  if (!parsed.problems.empty()) refuse_queue(parsed.problems.front().text());
  return std::move(parsed.config);
}

void require_one_queue(const std::vector<RunConfig>& runs) {
  if (runs.size() < 2 || runs.size() > 1 + kMaxCandidates)
    refuse_queue(fmt::format("it holds {} runs, not run A and 1 to {} candidates", runs.size(), kMaxCandidates));
  std::set<std::string> names;
  for (const RunConfig& run : runs) {
    if (!names.insert(run.name).second) refuse_queue("two of its runs are named " + run.name);
    if (const std::string problem = lock_step_problem(runs.front(), run); !problem.empty()) refuse_queue(problem);
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

QueueState parse_queue(std::string_view json) {
  nlohmann::json file;
  try {
    file = parse_json(json);
  } catch (const BadJson& problem) {
    refuse_queue(problem.what());
  }
  if (!file.is_object()) refuse_queue("it is no JSON object");
  if (const auto format = whole_number(file, kFormatKey, 0, kMaxGroupSteps); format != kQueueFormat)
    refuse_queue(fmt::format("it is of format {}, and this program reads format {}", format, kQueueFormat));
  QueueState state;
  state.steps = whole_number(file, kStepsKey, 1, kMaxGroupSteps);
  state.finished = to_int(whole_number(file, kFinishedKey, 0, kMaxCandidates));
  const nlohmann::json& runs = entry_of(file, kRunsKey);
  if (!runs.is_array()) refuse_queue("its runs are not a list");
  for (const nlohmann::json& run : runs) state.runs.push_back(config_from(run, state.runs.size()));
  require_one_queue(state.runs);
  return state;
}

QueueState load_queue(const std::string& path) {
  const std::string text = read_file(path, kMaxQueueBytes, "queue of candidates");
  try {
    return parse_queue(text);
  } catch (const std::runtime_error& problem) {
    throw std::runtime_error(path + ": " + problem.what());
  }
}

void save_queue(const std::string& path, const QueueState& state) {
  nlohmann::ordered_json file{{kFormatKey, kQueueFormat}, {kStepsKey, state.steps}, {kFinishedKey, state.finished}};
  for (const RunConfig& run : state.runs) file[kRunsKey].push_back(to_toml(run));
  write_whole_file(path, file.dump(1) + '\n');
}

}  // namespace moescope
