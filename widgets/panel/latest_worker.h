// A thread that works on the latest request only: a new request stops the running job and replaces it.
//
// Make it the last member of a widget, so that it is destroyed before the members that its jobs use. A job delivers its
// result with QMetaObject::invokeMethod(widget, ..., Qt::QueuedConnection).
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace moescope {

class LatestWorker {
 public:
  using Job = std::function<void(std::stop_token)>;

  LatestWorker() = default;
  ~LatestWorker();
  LatestWorker(const LatestWorker&) = delete;
  LatestWorker& operator=(const LatestWorker&) = delete;

  void start(Job job);
  void cancel();  // requests the running job to stop, and drops a waiting job

 private:
  void run(std::stop_token closing);

  std::mutex mutex_;
  std::condition_variable_any news_;
  Job next_;
  std::stop_source current_;
  std::jthread thread_;  // started with the first job
};

}  // namespace moescope
