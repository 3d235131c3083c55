// A thread that works on the latest request only: a new request stops the running job and replaces it.
//
// Make it the last member of a widget, so that it is destroyed before the members that its jobs use.
#pragma once

#include <QObject>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace moescope {

class LatestWorker {
 public:
  using Job = std::function<void(std::stop_token)>;

  LatestWorker() = default;
  ~LatestWorker();
  LatestWorker(const LatestWorker&) = delete;
  LatestWorker& operator=(const LatestWorker&) = delete;

  void start(Job job);
  // Starts a job that calls deliver(compute(stop)) in the thread of `receiver`, unless it was stopped in the meantime.
  template <class Compute, class Deliver>
  void compute(QObject* receiver, Compute compute, Deliver deliver) {
    start([=](std::stop_token stop) mutable {
      auto result = compute(stop);
      if (stop.stop_requested()) return;
      QMetaObject::invokeMethod(
          receiver, [deliver, result = std::move(result)]() mutable { deliver(std::move(result)); },
          Qt::QueuedConnection);
    });
  }
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
