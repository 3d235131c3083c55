// Results of a pure function for the arguments that were asked last. Safe for several threads.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace moescope {

template <class Arguments, class Result>
class KeptResults {
 public:
  explicit KeptResults(std::size_t capacity) : capacity_(capacity) {}

  Result get(const Arguments& arguments, auto compute) {
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = results_.find(arguments); found != results_.end()) return found->second;
    }
    const Result result = compute();
    const std::scoped_lock lock(mutex_);
    if (results_.size() >= capacity_) results_.clear();
    results_.emplace(arguments, result);
    return result;
  }

 private:
  const std::size_t capacity_;
  std::mutex mutex_;
  std::map<Arguments, Result> results_;
};

}  // namespace moescope
