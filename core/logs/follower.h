// Base class of the followers, which read runs while another program writes them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/history/history.h"
#include "core/logs/import.h"

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
  virtual std::vector<std::string> remarks() const = 0;  // see Imported::remarks
  virtual std::string amount() const = 0;                // amount read: "412 lines", "up to step 102"
  virtual int restarts() const { return 0; }             // times that the file was truncated or replaced
  virtual std::string problem() const = 0;               // why the file cannot be read now ("no such file"); else empty

 private:
  std::string path_;
};

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
