// Follows runs while another program writes them. The file may not exist yet, may grow, end in half a line, be
// truncated or replaced. "-" is standard input, for example the output of `ssh HOST tail -F run.jsonl`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/logs/followed.h"
#include "core/logs/standard_input.h"

namespace moescope {

// Polls the file in its own thread, because network disks do not notify of changes. All functions may be called from
// any thread.
class Follower {
 public:
  // `run`: number of the first run. Files with more than `most_runs` runs are refused with a problem(). `only`: see
  // ImportOptions. Throws std::runtime_error as StandardInput does.
  explicit Follower(std::string path, int run = 0, std::size_t most_runs = SIZE_MAX, std::vector<std::string> only = {},
                    const StatedLog& stated = {});

  const std::string& path() const { return path_; }
  // Returns a history for each run; none before the first step. Later calls may return new histories in place of these,
  // which then keep their steps.
  std::vector<std::shared_ptr<History>> histories() const { return value_of(&Followed::histories); }
  BadLines bad() const { return value_of(&Followed::bad); }
  std::vector<std::string> remarks() const;                                              // see Imported::remarks
  std::vector<ImportAccount> accounts() const { return value_of(&Followed::accounts); }  // see OpenedRuns::accounts
  // What became of the steps when the file was truncated or replaced, in the order of time.
  std::vector<std::string> restart_remarks() const { return value_of(&Followed::restart_remarks); }
  std::string amount() const;  // amount read: "412 lines", "up to step 102"
  // Reads a last line that has no newline, and follows the file no longer. To be called if nothing more is expected.
  void finish();
  std::string problem() const;                   // why the file cannot be read now ("no such file"); else empty
  bool has_ended() const { return has_ended_; }  // true if nothing more can come: standard input was closed

 private:
  void follow(const std::stop_token& stop);
  void begin(const std::stop_token* stop = nullptr);
  template <class Value>
  Value value_of(Value (Followed::*value)() const) const {
    const std::lock_guard begun(mutex_);
    if (!followed_) return Value();
    const std::lock_guard lock(followed_->mutex);
    return (followed_.get()->*value)();
  }

  std::unique_ptr<StandardInput> input_;
  std::string path_;
  ImportOptions options_;
  mutable std::mutex mutex_;            // protects followed_, which only the thread replaces
  std::unique_ptr<Followed> followed_;  // nullptr: standard input has no line yet
  std::atomic<bool> has_ended_ = false;
  bool is_begun_again_ = false;  // because ranks were found to take turns
  std::jthread thread_;          // last member, because the thread uses the others
};

}  // namespace moescope
