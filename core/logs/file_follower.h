// Follows a file with runs, or a folder of such files, by reading it again after each change. The file may be of any
// kind: router traces, TensorBoard events, W&B's files, MLflow's stores, TransformerEngine's statistics, tables. A file
// that takes long to read is read less often, so that reading takes at most a tenth of a core's time. If the file was
// truncated or replaced and its steps go on, the earlier steps are kept.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/logs/file_stamp.h"
#include "core/logs/follower.h"
#include "core/logs/open_runs.h"

namespace moescope {

class FileFollower : public Follower {
 public:
  static constexpr std::chrono::milliseconds kEvery{500};
  // A last row without a newline is read when its writer has closed the file and nothing changed for this time.
  static constexpr std::chrono::milliseconds kLastRowAfter{1000};

  // `run`: number of the first run. Files with more than `most_runs` runs are refused with a problem(). `only`: see
  // ImportOptions.
  FileFollower(std::string path, int run, std::size_t most_runs, std::vector<std::string> only = {},
               const StatedLog& stated = {});
  // Returns new histories after each reading, unless the steps of a truncated file go on.
  std::vector<std::shared_ptr<History>> histories() const override { return locked(histories_); }
  BadLines bad() const override { return locked(bad_); }
  std::vector<std::string> remarks() const override { return locked(remarks_); }
  std::vector<ImportAccount> accounts() const override { return locked(accounts_); }
  std::vector<std::string> restart_remarks() const override { return locked(restart_remarks_); }
  void finish() override;
  std::string amount() const override;
  std::string problem() const override { return locked(problem_); }

 private:
  template <class Value>
  Value locked(const Value& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }
  using Frames = std::vector<std::shared_ptr<const TelemetryFrame>>;
  void check_file();
  bool has_last_row() const;
  void read_file(bool growing);
  Frames read_frames();
  void keep_steps();
  void replace_histories(std::vector<std::shared_ptr<History>> histories);
  void remember_form();

  ImportOptions options_;
  std::size_t most_runs_;

  mutable std::mutex mutex_;  // protects the members that other threads read
  std::vector<std::shared_ptr<History>> histories_;
  BadLines bad_;
  std::vector<std::string> remarks_, restart_remarks_;
  std::vector<ImportAccount> accounts_;
  std::string problem_;

  // Members below are used by the follower's thread only.
  std::optional<FileStamp> read_;
  std::chrono::steady_clock::time_point changed_{};
  bool is_read_to_end_ = false;           // with a last row that has no newline
  bool has_shrunk_ = false;               // since steps were read
  bool knows_form_ = false;               // see remember_form()
  bool has_rows_ = false;                 // the file has lines, so that a last one may have no newline
  std::vector<std::int64_t> kept_until_;  // by run: last step of the files before this one; empty: nothing is kept
  std::chrono::steady_clock::time_point next_{};
  std::jthread thread_;  // last member, because the thread uses the others
};

// Returns a LogFollower, which reads only new lines, for JSON lines, text logs, and files that do not exist yet or hold
// no runs yet, except for names of tables. Otherwise returns a FileFollower, which reads the whole file again.
std::unique_ptr<Follower> follow_file(const std::string& path, int run, std::size_t most_runs,
                                      std::vector<std::string> only = {}, const StatedLog& stated = {});

}  // namespace moescope
