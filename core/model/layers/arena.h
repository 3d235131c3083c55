// One aligned block of memory that is divided into pieces in advance, so that nothing is allocated during a step.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "core/numerics/matrix.h"
#include "core/numerics/threads.h"

namespace moescope {

// Returns memory filled with zeros that begins on a cache line; release it with std::free. Blocks of at least a
// gigabyte are in huge pages if the system has them, because reading through few large pages is faster than through
// many small ones. Smaller blocks are not worth the time that the system takes to find huge pages.
inline void* zeroed_memory(std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20, kMinHugePageBytes = std::size_t{1} << 30;
  const std::size_t unit = bytes < kMinHugePageBytes ? 64 : kHugePage, whole = (bytes + unit - 1) / unit * unit;
  void* memory = std::aligned_alloc(unit, whole);
  if (!memory) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (unit == kHugePage) madvise(memory, whole, MADV_HUGEPAGE);  // failure only costs speed
#endif
  std::memset(memory, 0, bytes);
  return memory;
}

template <class T>
class Arena {
 public:
  // Plan an array of `count` elements, or a matrix without gaps. commit() lets the view refer to its memory.
  void plan(std::span<T>& values, std::size_t count) { add({.values = &values, .count = count}); }
  void plan(Matrix<T>& matrix, Index rows, Index cols) {
    matrix = {static_cast<T*>(nullptr), rows, cols};
    add({.matrix = &matrix, .count = static_cast<std::size_t>(matrix.size())});
  }
  void commit() {
    memory_.reset(static_cast<T*>(zeroed_memory(size_ * sizeof(T))));
    commit(memory_.get());
  }
  // Places the pieces in the memory at `first`, which holds size() elements and begins on a cache line.
  void commit(T* first) {
    for (const Piece& piece : pieces_) {
      if (piece.matrix)
        piece.matrix->data = first;
      else
        *piece.values = {first, piece.count};
      first += padded(piece.count);
    }
    pieces_.clear();
  }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kAlign = 64 / sizeof(T);
  // The view of a piece of memory: one of `values` and `matrix`.
  struct Piece {
    std::span<T>* values = nullptr;
    Matrix<T>* matrix = nullptr;
    std::size_t count = 0;
  };
  static std::size_t padded(std::size_t count) { return (count + kAlign - 1) / kAlign * kAlign; }
  void add(const Piece& piece) {
    pieces_.push_back(piece);
    size_ += padded(piece.count);
  }
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::vector<Piece> pieces_;
  std::size_t size_ = 0;
  std::unique_ptr<T, Free> memory_;
};

// Returns the calling thread's memory for the activations of a sub-layer in a forward pass that does not keep them. All
// sub-layers share this memory. Allocating new memory each time took up to a tenth of a pass over 1,500 tokens.
template <class T>
AlignedBuffer<T>& sublayer_memory() {
  thread_local AlignedBuffer<T> memory;
  return memory;
}

}  // namespace moescope
