// One aligned block of memory, divided into pieces in advance, so that nothing is allocated while a step runs.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace moescope {

template <class T>
class Arena {
 public:
  // The piece's address is known after commit().
  void plan(T*& piece, std::size_t count) {
    pieces_.push_back({&piece, size_});
    size_ += (count + kAlign - 1) / kAlign * kAlign;
  }
  void commit() {
    memory_.reset(static_cast<T*>(std::aligned_alloc(64, (size_ * sizeof(T) + 63) / 64 * 64)));
    if (!memory_) throw std::bad_alloc();
    std::memset(static_cast<void*>(memory_.get()), 0, size_ * sizeof(T));
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
