#include "app/cli/record/recording_in_work.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "app/cli/command_line.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFramesAWrite = 64;  // frames written in one transaction
constexpr const char* kPart = ".part-";    // suffix of an unfinished file, followed by the process id

void remove_part(const std::string& part) {
  std::error_code ignored;
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) fs::remove(part + suffix, ignored);
}

// Removes unfinished files that killed commands left for the same recording.
void remove_abandoned_parts(const fs::path& out) {
  const std::string begins = out.filename().string() + kPart;
  std::error_code error;
  std::vector<fs::path> abandoned;
  for (fs::directory_iterator entry(out.has_parent_path() ? out.parent_path() : ".", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begins)) continue;
    const pid_t process = std::atoi(name.c_str() + begins.size());
    if (process > 0 && ::kill(process, 0) != 0 && errno == ESRCH) abandoned.push_back(entry->path());
  }
  for (const fs::path& part : abandoned) fs::remove(part, error);
}

}  // namespace

template <class Write>
void RecordingInWork::record(Write write) {
  try {
    write();
  } catch (const std::exception& failure) {
    throw OutputError(out_ + ": cannot be written: " + failure.what());
  }
}

RecordingInWork::RecordingInWork(std::string out)
    : out_(std::move(out)), work_(fmt::format("{}{}{}", out_, kPart, ::getpid())) {
  remove_abandoned_parts(out_);
  try {
    record([&] { writer_ = std::make_unique<RecordingWriter>(work_, Durable::when_finished); });
  } catch (const OutputError&) {
    remove_part(work_);
    throw;
  }
}

RecordingInWork::~RecordingInWork() {
  writer_.reset();
  remove_part(work_);
}

void RecordingInWork::add(const RunInfo& info) {
  record([&] { writer_->add_run(info); });
}

void RecordingInWork::add(const std::shared_ptr<const TelemetryFrame>& frame) {
  frames_.push_back(frame);
  if (frames_.size() >= kFramesAWrite) write();
}

void RecordingInWork::add(const Marker& marker) {
  markers_.push_back(marker);
}

void RecordingInWork::write() {
  record([&] { writer_->write(frames_); });
  frames_.clear();
}

void RecordingInWork::finish() {
  write();
  record([&] {
    writer_->write(markers_);
    writer_->finish();
  });
  writer_.reset();
  fs::rename(work_, out_);
}

}  // namespace moescope
