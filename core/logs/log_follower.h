// Follows a training log that another program writes: a file that may not exist yet, grows, ends in half a line, is
// truncated or replaced.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/logs/follower.h"

namespace moescope {

class LogFollower : public Follower {
 public:
  static constexpr std::chrono::milliseconds kEvery{100};
  // A step that is given layer by layer is complete when another begins, or after this time without a line.
  static constexpr std::chrono::milliseconds kSettleAfter{1000};

  explicit LogFollower(std::string path, int run = 0);
  ~LogFollower() override;

  // One that looks at the file when look() is called, and not by itself.
  struct ByHand {};
  LogFollower(std::string path, ByHand);
  void look();

  const std::string& path() const override;
  // The histories grow by themselves. When the file starts again (truncated or replaced) new ones take their place, and
  // the earlier ones keep what was read. None before the first step.
  std::vector<std::shared_ptr<History>> histories() const override;
  BadLines bad() const override;
  std::vector<std::string> remarks() const override;
  std::string amount() const override;
  std::int64_t lines() const;
  int restarts() const override;
  std::string problem() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::jthread thread_;  // last: it uses the state
};

}  // namespace moescope
