// Follows a training log that another program writes: a file that does not exist yet, grows, ends in half a line, is
// cut to nothing or replaced by another. Looks every kEvery from a thread of its own, also where the file lies on a
// network disk that tells of no changes.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/telemetry/logs/import.h"

namespace moescope {

class LogFollower {
 public:
  static constexpr std::chrono::milliseconds kEvery{100};
  // A step that is given layer by layer is complete when another begins, or after this time without a line.
  static constexpr std::chrono::milliseconds kSettleAfter{1000};

  explicit LogFollower(std::string path, int run = 0);
  ~LogFollower();

  const std::string& path() const;
  // They grow by themselves, and change to others where the file began anew (cut or replaced): what was read of the
  // earlier one is in the earlier histories. None before the first step.
  std::vector<std::shared_ptr<History>> histories() const;
  BadLines bad() const;
  std::int64_t lines() const;
  int restarts() const;         // how often the file began anew
  std::string problem() const;  // why nothing can be read at this time: "no such file"; empty: all is well

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
