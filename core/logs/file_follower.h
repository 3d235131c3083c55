// Follows files of any kind that holds runs, and folders of them, by reading them again when they have grown: router
// traces, TensorBoard events, W&B's files, MLflow's stores, TransformerEngine's statistics, tables. A file that takes
// long to read is read less often, so that this takes a tenth of a core's time at most.
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

  // `run`: the number of the first run; more than `most_runs` are refused, which problem() then says. `only`: as
  // ImportOptions has it.
  FileFollower(std::string path, int run, std::size_t most_runs, std::vector<std::string> only = {});
  ~FileFollower() override;

  const std::string& path() const override;
  // New ones each time that the file was read.
  std::vector<std::shared_ptr<History>> histories() const override;
  BadLines bad() const override;
  std::vector<std::string> remarks() const override;
  std::string amount() const override;
  int restarts() const override { return 0; }
  std::string problem() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::jthread thread_;  // last: it uses the state
};

// A log of JSON lines, which need not be there yet, is read on (log_follower.h); other kinds again and again.
std::unique_ptr<Follower> follow_file(const std::string& path, int run, std::size_t most_runs,
                                      std::vector<std::string> only = {});

}  // namespace moescope
