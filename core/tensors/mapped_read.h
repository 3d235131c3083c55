// Reading of a memory-mapped file that another program may shorten meanwhile: the system then ends the reader with
// SIGBUS, unless it is caught.
//
// Plain reads need none of this, but a map of block scales reads two million values in runs of 64: 8 MB in runs of 256
// bytes took 90 ms by pread and 2 ms from mapped pages.
#pragma once

#include <cstddef>

namespace moescope {

// Copies; false: the pages are not there any more, and `to` holds anything. Any thread. The first call takes over the
// process's SIGBUS handler, and hands every other SIGBUS to the one before.
[[nodiscard]] bool copy_mapped(const std::byte* from, std::byte* to, std::size_t bytes);
// The same of `count` elements of `size` bytes, each `step` bytes behind the one before.
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
