#include "app/cli/train/cli_train_outputs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "core/io/whole_file.h"
#include "core/logs/lines/jsonl.h"
#include "core/training/checkpoint_folder.h"

namespace moescope {

namespace fs = std::filesystem;

WatchedPath::WatchedPath(std::string path) : path_(std::move(path)) {
  struct stat now {};
  if (stat(path_.c_str(), &now) != 0) return;
  device_ = now.st_dev;
  inode_ = now.st_ino;
}

bool WatchedPath::is_there() const {
  struct stat now {};
  return path_.empty() || (stat(path_.c_str(), &now) == 0 && now.st_dev == device_ && now.st_ino == inode_);
}

JsonLines::JsonLines(const std::string& path) : path_(path) {
  if (path == "-") file_ = stdout;
  if (path.empty() || path == "-") return;
  try {
    file_ = fdopen(open_growing_file(path), "w");
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string("--jsonl ") + error.what());
  }
  there_ = WatchedPath(path);
}

JsonLines::~JsonLines() {
  if (file_ && file_ != stdout) std::fclose(file_);
}

void JsonLines::write(const TelemetryFrame& frame) {
  if (file_ && error_.empty()) write(to_json_line(frame));
}

void JsonLines::write(const RunInfo& info) {
  if (file_ && error_.empty()) write(to_json_line(info));
}

void JsonLines::write(const std::string& line) {
  const std::string text = line + '\n';
  const bool written = std::fwrite(text.data(), 1, text.size(), file_) == text.size() && std::fflush(file_) == 0;
  const int why = errno;
  if (!written) error_ = "--jsonl " + path_ + ": cannot be written: " + std::strerror(why);
  reader_is_gone_ = !written && why == EPIPE;
  if (written && !there_.is_there()) error_ = "--jsonl " + path_ + ": was removed or moved while it was written";
}

TrainCheckpoints::TrainCheckpoints(const std::string& folder) : folder_(folder) {
  if (folder.empty()) return;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || access(folder.c_str(), W_OK) != 0)
    throw std::runtime_error("--checkpoint " + folder +
                             ": cannot be written: " + (error ? error.message() : std::strerror(errno)));
  folder_there_ = WatchedPath(folder);
}

bool TrainCheckpoints::save(std::int64_t step, const Write& write) {
  try {
    write_checkpoint(folder_, step, write);
  } catch (const std::runtime_error& error) {
    error_ = error.what();
    return false;
  }
  error_.clear();
  newest_ = folder_ + '/' + std::to_string(step);
  folder_there_ = WatchedPath(folder_);
  newest_there_ = WatchedPath(newest_);
  return true;
}

std::string TrainCheckpoints::removed() {
  const bool folder_gone = !folder_there_.is_there();
  if (!folder_gone && newest_there_.is_there()) return {};
  const std::string what = folder_gone ? "--checkpoint " + folder_ : "checkpoint " + newest_;
  folder_there_ = newest_there_ = {};
  newest_.clear();
  return what + ": was removed or moved while training; the next checkpoint creates it again, earlier ones are gone";
}

}  // namespace moescope
