// Follows a training log that another program writes. The file may not exist yet, may grow, end in half a line, be
// truncated or replaced.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/logs/follower.h"
#include "core/logs/open_runs.h"

namespace moescope {

class LogFollower : public Follower {
 public:
  static constexpr std::chrono::milliseconds kEvery{100};
  // A step given layer by layer is complete when the next one begins, or after this time without a new line.
  static constexpr std::chrono::milliseconds kSettleAfter{1000};

  explicit LogFollower(std::string path, int run = 0, const StatedLog& stated = {});
  ~LogFollower() override;

  // Tag of a follower without a thread, which reads the file only when look() is called.
  struct ByHand {};
  LogFollower(std::string path, ByHand, int run = 0, const StatedLog& stated = {});
  void look();

  // The histories grow while the file grows. If the file was truncated or replaced, they go on if its steps do; else
  // new histories replace them, and the earlier ones keep their steps. Empty before the first step.
  std::vector<std::shared_ptr<History>> histories() const override;
  BadLines bad() const override;
  std::vector<std::string> remarks() const override;
  std::vector<ImportAccount> accounts() const override;
  std::string amount() const override;
  std::int64_t lines() const;
  std::vector<std::string> restart_remarks() const override;
  void finish() override;
  std::string problem() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::jthread thread_;  // last member, because the thread uses the state
};

}  // namespace moescope
