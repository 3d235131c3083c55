#include "app/cli/train/cli_train_outputs.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "app/cli/train/train_report.h"
#include "core/files/output_guard.h"
#include "core/files/whole_file.h"
#include "core/logs/lines/jsonl.h"
#include "core/training/checkpoint_folder.h"

namespace moescope {

namespace fs = std::filesystem;

WatchedPath::WatchedPath(std::string path) : path_(std::move(path)) {
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0) return;
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

bool WatchedPath::is_there() const {
  struct stat status {};
  return path_.empty() || (stat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_);
}

JsonLinesOutput::JsonLinesOutput(const std::string& path) : path_(path) {
  if (path == "-") file_ = stdout;
  if (path.empty() || path == "-") return;
  try {
    file_ = fdopen(open_growing_file(path), "w");
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string("--jsonl ") + error.what());
  }
  watched_path_ = WatchedPath(path);
}

JsonLinesOutput::~JsonLinesOutput() {
  if (file_ && file_ != stdout) std::fclose(file_);
}

void JsonLinesOutput::write(const TelemetryFrame& frame) {
  if (file_ && error_.empty()) write(to_json_line(frame));
}

void JsonLinesOutput::write(const RunInfo& info) {
  if (file_ && error_.empty()) write(to_json_line(info));
}

void JsonLinesOutput::write(const std::string& line) {
  const std::string text = line + '\n';
  const bool written = std::fwrite(text.data(), 1, text.size(), file_) == text.size() && std::fflush(file_) == 0;
  const int error_code = errno;
  if (!written) error_ = fmt::format("--jsonl {}: cannot be written: {}", path_, std::strerror(error_code));
  reader_is_gone_ = !written && error_code == EPIPE;
  if (written && !watched_path_.is_there()) error_ = "--jsonl " + path_ + ": was removed or moved while it was written";
}

TrainCheckpoints::TrainCheckpoints(const std::string& folder) : folder_(folder) {
  if (folder.empty()) return;
  std::error_code error;
  created_ = fs::create_directories(folder, error);
  if (error || access(folder.c_str(), W_OK) != 0)
    throw std::runtime_error(
        fmt::format("--checkpoint {}: cannot be written: {}", folder, error ? error.message() : std::strerror(errno)));
}

TrainCheckpoints::~TrainCheckpoints() {
  std::error_code ignored;  // a folder with checkpoints is kept
  if (created_) fs::remove(folder_, ignored);
}

void TrainCheckpoints::remove_earlier() {
  for (const std::int64_t step : checkpoint_steps(folder_)) remove_checkpoint(folder_, step);
}

void TrainCheckpoints::note(std::int64_t step, const std::string& problem) {
  find_removed();
  error_ = problem;
  if (problem.empty()) newest_ = fmt::format("{}/{}", folder_, step);
}

std::string TrainCheckpoints::removed() {
  find_removed();
  return std::exchange(removed_, {});
}

void TrainCheckpoints::find_removed() {
  std::error_code ignored;  // a path that cannot be read counts as removed
  if (newest_.empty() || fs::exists(newest_, ignored)) return;
  removed_ = fmt::format(
      "checkpoint {}: was removed or moved while training; the next checkpoint is written to {} again, earlier ones "
      "may be gone",
      newest_, folder_);
  newest_.clear();
}

bool continues_checkpoints(const TrainOptions& o) {
  return !o.resume.empty() && fs::weakly_canonical(o.resume) == fs::weakly_canonical(o.checkpoint);
}

void check_outputs(const TrainOptions& o, const std::vector<RunConfig>& configs) {
  check_table_name(o.table);
  std::vector<std::string> inputs{o.config, o.data.value_or(""), o.resume};
  for (const RunConfig& config : configs)
    for (const std::string& input : input_paths(config)) inputs.push_back(input);
  guard_outputs(inputs,
                {{"--out", o.out}, {.option = "--jsonl", .path = o.jsonl, .stream = true}, {"--table", o.table}},
                o.overwrite);
  if (o.checkpoint_interval > 0 && o.checkpoint.empty())
    throw std::runtime_error(fmt::format("--every {}: needs --out, or --checkpoint DIR", o.checkpoint_interval));
  if (o.checkpoint.empty()) return;
  if (fs::exists(o.checkpoint) && !fs::is_directory(o.checkpoint))
    throw std::runtime_error("--checkpoint " + o.checkpoint + ": is a file, expected a folder");
  const auto steps = checkpoint_steps(o.checkpoint);
  if (!steps.empty() && !o.overwrite && !continues_checkpoints(o))
    throw std::runtime_error(
        fmt::format("--checkpoint {}: holds checkpoints up to step {} of another training; choose another folder, "
                    "continue with --resume {}, or give --overwrite",
                    o.checkpoint, steps.back(), o.checkpoint));
}

}  // namespace moescope
