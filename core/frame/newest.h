// Keeps the newest of the values added during a run, so that old values do not fill memory or the screen.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace moescope {

template <class T, std::size_t kMax>
class Newest {
 public:
  void push_back(T value) {
    if (values_.size() == kMax) values_.erase(values_.begin());
    values_.push_back(std::move(value));
  }
  bool empty() const { return values_.empty(); }
  std::size_t size() const { return values_.size(); }
  T& back() { return values_.back(); }
  const T& back() const { return values_.back(); }
  const T& operator[](std::size_t i) const { return values_[i]; }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  auto rbegin() const { return values_.rbegin(); }
  auto rend() const { return values_.rend(); }

 private:
  std::vector<T> values_;
};

}  // namespace moescope
