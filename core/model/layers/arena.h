// One aligned block of memory, divided into pieces in advance, so that nothing is allocated while a step runs.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "core/numerics/matrix.h"

namespace moescope {

// Begins on a cache line; freed with std::free. A gigabyte and more lies in huge pages where the system has them: what
// is gone through from end to end is read faster in few of them than in many small ones. Less memory is not worth the
// time that the system takes to find them.
inline void* zeroed_memory(std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20, kMuch = std::size_t{1} << 30;
  const std::size_t unit = bytes < kMuch ? 64 : kHugePage, whole = (bytes + unit - 1) / unit * unit;
  void* memory = std::aligned_alloc(unit, whole);
  if (!memory) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (unit == kHugePage) madvise(memory, whole, MADV_HUGEPAGE);  // refused, it costs nothing but speed
#endif
  std::memset(memory, 0, bytes);
  return memory;
}

template <class T>
class Arena {
 public:
  // The piece's address is known after commit().
  void plan(T*& piece, std::size_t count) {
    pieces_.push_back({&piece, size_});
    size_ += (count + kAlign - 1) / kAlign * kAlign;
  }
  void plan(Matrix<T>& matrix, Index rows, Index cols) {
    matrix = {static_cast<T*>(nullptr), rows, cols};
    plan(matrix.data, rows * cols);
  }
  void commit() {
    memory_.reset(static_cast<T*>(zeroed_memory(size_ * sizeof(T))));
    for (const Piece& piece : pieces_) *piece.address = memory_.get() + piece.offset;
    pieces_.clear();
  }
  T* data() { return memory_.get(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kAlign = 64 / sizeof(T);
  struct Piece {
    T** address;
    std::size_t offset;
  };
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::vector<Piece> pieces_;
  std::size_t size_ = 0;
  std::unique_ptr<T, Free> memory_;
};

}  // namespace moescope
