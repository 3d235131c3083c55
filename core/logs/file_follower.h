// Follows files of any kind with runs, and folders of them, by reading them again when they have grown: router traces,
// TensorBoard events, W&B's files, MLflow's stores, TransformerEngine's statistics, tables. A file that takes long to
// read is read less often, so that reading takes at most a tenth of a core's time.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/logs/follower.h"

namespace moescope {

class FileFollower : public Follower {
 public:
  static constexpr std::chrono::milliseconds kEvery{500};

  // `run`: number of the first run. Files with more than `most_runs` runs are refused with a problem(). `only`: see
  // ImportOptions.
  FileFollower(std::string path, int run, std::size_t most_runs, std::vector<std::string> only = {});
  ~FileFollower() override;

  const std::string& path() const override;
  // New histories after each reading.
  std::vector<std::shared_ptr<History>> histories() const override;
  BadLines bad() const override;
  std::vector<std::string> remarks() const override;
  std::string amount() const override;
  int restarts() const override { return 0; }
  std::string problem() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::jthread thread_;  // last member, because the thread uses the state
};

// Returns a LogFollower, which reads only new lines, for JSON lines and for a file that does not exist yet; else a
// FileFollower, which reads the whole file again.
std::unique_ptr<Follower> follow_file(const std::string& path, int run, std::size_t most_runs,
                                      std::vector<std::string> only = {});

}  // namespace moescope
