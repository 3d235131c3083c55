#include "widgets/panel/latest_worker.h"

namespace moescope {

LatestWorker::~LatestWorker() {
  cancel();
  thread_.request_stop();
}

void LatestWorker::start(Job job) {
  {
    const std::lock_guard lock(mutex_);
    current_.request_stop();
    next_ = std::move(job);
    if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token closing) { run(closing); });
  }
  news_.notify_one();
}

void LatestWorker::cancel() {
  const std::lock_guard lock(mutex_);
  current_.request_stop();
  next_ = nullptr;
}

void LatestWorker::run(std::stop_token closing) {
  while (!closing.stop_requested()) {
    Job job;
    std::stop_token stop;
    {
      std::unique_lock lock(mutex_);
      if (!news_.wait(lock, closing, [this] { return next_ != nullptr; })) return;
      job = std::exchange(next_, nullptr);
      current_ = std::stop_source();
      stop = current_.get_token();
    }
    job(stop);
  }
}

}  // namespace moescope
