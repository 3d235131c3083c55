// Base class of the followers, which read runs while another program writes them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/logs/import.h"
#include "core/recording/history/history.h"

namespace moescope {

// Polls a file in its own thread, because network disks do not notify of changes. All functions may be called from any
// thread.
class Follower {
 public:
  explicit Follower(std::string path) : path_(std::move(path)) {}
  virtual ~Follower() = default;

  const std::string& path() const { return path_; }
  // Returns a history for each run; none before the first step. Later calls may return new histories in place of these,
  // which then keep their steps.
  virtual std::vector<std::shared_ptr<History>> histories() const = 0;
  virtual BadLines bad() const = 0;
  virtual std::vector<std::string> remarks() const = 0;     // see Imported::remarks
  virtual std::vector<ImportAccount> accounts() const = 0;  // see OpenedRuns::accounts
  // What became of the steps when the file was truncated or replaced, in the order of time.
  virtual std::vector<std::string> restart_remarks() const = 0;
  virtual std::string amount() const = 0;  // amount read: "412 lines", "up to step 102"
  // Reads a last line that has no newline, and follows the file no longer. To be called if nothing more is expected.
  virtual void finish() = 0;
  virtual std::string problem() const = 0;          // why the file cannot be read now ("no such file"); else empty
  virtual bool has_ended() const { return false; }  // true if nothing more can come: standard input was closed

 private:
  std::string path_;
};

// Remarks on a file that was truncated or replaced; `last_step`: the last step read before, -1 if there was none.
std::string truncated_text(std::int64_t last_step);
std::string kept_text(std::int64_t last_step);
std::string dropped_text(std::int64_t last_step);

// Calls look() repeatedly until `stop`.
template <class Look>
void look_every(std::chrono::milliseconds pause, const std::stop_token& stop, Look look) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  do {
    look();
  } while (!stopped.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); }));
}

}  // namespace moescope
