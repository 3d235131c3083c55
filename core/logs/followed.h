// The two ways to read a file that grows: its new lines only, or the whole file again.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "core/logs/open_runs.h"

namespace moescope {

// A step given layer by layer is complete when the next one begins, or after this time without a new line. So is a last
// line without a newline, if its writer has closed the file.
inline constexpr std::chrono::milliseconds kSettleAfter{1000};

// look() and finish() are called by one thread. Other threads call the other functions, and must lock `mutex`
// meanwhile.
class Followed {
 public:
  Followed(std::string path, ImportOptions options) : path_(std::move(path)), options_(std::move(options)) {}
  virtual ~Followed() = default;
  virtual std::chrono::milliseconds pause() const = 0;      // between two looks
  virtual void look(const std::stop_token& stop) = 0;       // reads what is new
  virtual void finish() = 0;                                // as of Follower
  virtual bool has_ranks_in_turn() const { return false; }  // as of LogReader: the whole file is to be read

  mutable std::mutex mutex;
  virtual std::vector<std::shared_ptr<History>> histories() const = 0;
  virtual BadLines bad() const = 0;
  virtual std::vector<std::string> remarks() const = 0;
  virtual std::vector<ImportAccount> accounts() const = 0;
  virtual std::string amount() const = 0;
  std::string problem() const { return problem_; }
  std::vector<std::string> restart_remarks() const { return restart_remarks_; }

 protected:
  std::string path_;
  ImportOptions options_;
  // Protected by `mutex`:
  std::string problem_;
  std::vector<std::string> restart_remarks_;
};

// For JSON lines and text logs: reads only new lines.
std::unique_ptr<Followed> follow_lines(const std::string& path, ImportOptions options);
// For a file of any kind, or a folder: reads it again after each change, but for at most a tenth of a core's time. If
// the file was truncated or replaced and its steps go on, the earlier steps are kept.
std::unique_ptr<Followed> follow_whole(const std::string& path, ImportOptions options);

// A change of a file, or of a folder of files, and the end of its writer are detected without reading it.
struct FileStamp {
  std::uintmax_t bytes = 0;
  std::int64_t files = 0;
  std::filesystem::file_time_type newest = std::filesystem::file_time_type::min();
  bool operator==(const FileStamp&) const = default;
};

// Returns the stamp of a file, or one stamp for all files below a folder. Includes SQLite's write-ahead log, since a
// database grows there first. Ignores files that cannot be read.
FileStamp stamp_of(const std::string& path);

// True if no program has the file open for writing. False if that is not known, as for a file on another machine or of
// another user.
bool is_closed_by_writers(const std::string& path);

// Remarks on a file that was truncated or replaced; `last_step`: the last step read before, -1 if there was none.
std::string truncated_text(std::int64_t last_step);
std::string kept_text(std::int64_t last_step);
std::string dropped_text(std::int64_t last_step);

}  // namespace moescope
