// Follows a file with runs, or a folder of such files, by reading it again after each change. The file may be of any
// kind: router traces, TensorBoard events, W&B's files, MLflow's stores, TransformerEngine's statistics, tables. A file
// that takes long to read is read less often, so that reading takes at most a tenth of a core's time.
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

namespace moescope {

class FileFollower : public Follower {
 public:
  static constexpr std::chrono::milliseconds kEvery{500};

  // `run`: number of the first run. Files with more than `most_runs` runs are refused with a problem(). `only`: see
  // ImportOptions.
  FileFollower(std::string path, int run, std::size_t most_runs, std::vector<std::string> only = {});
  // Returns new histories after each reading.
  std::vector<std::shared_ptr<History>> histories() const override;
  BadLines bad() const override;
  std::vector<std::string> remarks() const override;
  std::string amount() const override;
  std::string problem() const override;

 private:
  void check_file();
  void read_file();

  ImportOptions options_;
  std::size_t most_runs_;

  mutable std::mutex mutex_;  // protects the members that other threads read
  std::vector<std::shared_ptr<History>> histories_;
  BadLines bad_;
  std::vector<std::string> remarks_;
  std::string problem_;

  // Members below are used by the follower's thread only.
  std::optional<FileStamp> read_;
  std::chrono::steady_clock::time_point next_{};
  std::jthread thread_;  // last member, because the thread uses the others
};

// Returns a LogFollower, which reads only new lines, for JSON lines, text logs, and files that do not exist yet or hold
// no runs yet. Otherwise returns a FileFollower, which reads the whole file again.
std::unique_ptr<Follower> follow_file(const std::string& path, int run, std::size_t most_runs,
                                      std::vector<std::string> only = {});

}  // namespace moescope
