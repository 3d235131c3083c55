// Memory that grows as needed and begins on a cache line. Growing it loses its contents.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace moescope {

template <class N>
class AlignedBuffer {
 public:
  N* sized(std::size_t count) {
    constexpr std::size_t kLine = 64 / sizeof(N);
    if (memory_.size() < count + kLine) memory_.resize(count + kLine);
    void* begin = memory_.data();
    std::size_t bytes = memory_.size() * sizeof(N);
    return static_cast<N*>(std::align(64, count * sizeof(N), begin, bytes));
  }

 private:
  std::vector<N> memory_;
};

}  // namespace moescope
