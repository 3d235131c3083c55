// Follows standard input, for example the output of `ssh HOST tail -F run.jsonl`.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/logs/follower.h"
#include "core/logs/standard_input.h"

namespace moescope {

// Follows the copy of standard input by the follower of its kind, which the first line decides. When the input ends, so
// does the following.
class StandardInputFollower : public Follower {
 public:
  // `run`, `most_runs`: as of follow_file(). Throws std::runtime_error as StandardInput does.
  StandardInputFollower(int run, std::size_t most_runs);

  std::vector<std::shared_ptr<History>> histories() const override { return of_lines(&Follower::histories); }
  BadLines bad() const override { return of_lines(&Follower::bad); }
  std::vector<std::string> remarks() const override;
  std::vector<ImportAccount> accounts() const override { return of_lines(&Follower::accounts); }
  std::vector<std::string> restart_remarks() const override { return of_lines(&Follower::restart_remarks); }
  std::string amount() const override;
  void finish() override;
  std::string problem() const override;
  bool has_ended() const override { return has_ended_; }

 private:
  StandardInputFollower(std::unique_ptr<StandardInput> input, int run, std::size_t most_runs);
  void read(const std::stop_token& stop);
  void begin();
  const Follower* lines() const;  // nullptr before the first line
  template <class Value>
  Value of_lines(Value (Follower::*value)() const) const {
    const Follower* follower = lines();
    return follower ? (follower->*value)() : Value();
  }

  std::unique_ptr<StandardInput> input_;
  int run_;
  std::size_t most_runs_;
  mutable std::mutex mutex_;  // protects lines_, which is set once
  std::unique_ptr<Follower> lines_;
  std::atomic<bool> has_ended_ = false;
  std::jthread thread_;  // last member, because the thread uses the others
};

}  // namespace moescope
