// Reads a memory-mapped file that another program may shorten at the same time. The system then sends SIGBUS, which
// ends the program unless it is caught.
//
// Plain reads need none of this, but a map of block scales reads two million values in runs of 64: 8 MB in runs of 256
// bytes took 90 ms by pread and 2 ms from mapped pages.
#pragma once

#include <cstddef>

namespace moescope {

// Copies bytes. Returns false if the pages no longer exist; the contents of `to` are then unspecified. May be called
// from any thread. The first call installs a handler for SIGBUS, which passes every other SIGBUS to the previous
// handler.
[[nodiscard]] bool copy_mapped(const std::byte* from, std::byte* to, std::size_t bytes);
// Copies `count` elements of `size` bytes, each `step` bytes behind the previous one. Returns false as copy_mapped()
// does.
[[nodiscard]] bool gather_mapped(const std::byte* from, std::size_t step, std::size_t size, std::size_t count,
                                 std::byte* to);

// Runs read(argument), which may touch mapped pages; false: they are not there any more, and it was left in the middle.
// It must own nothing and hold no lock.
[[nodiscard]] bool read_mapped(void (*read)(const void*), const void* argument);
template <class Read>
[[nodiscard]] bool read_mapped(const Read& read) {
  return read_mapped([](const void* r) { (*static_cast<const Read*>(r))(); }, &read);
}

}  // namespace moescope
