// Reading of a memory-mapped file that another program may shorten meanwhile: the system then ends the reader with
// SIGBUS, unless it is caught.
#pragma once

#include <cstddef>

namespace moescope {

// Copies; false: the pages are not there any more, and `to` holds anything. Any thread. The first call takes over the
// process's SIGBUS handler, and hands every other SIGBUS to the one before.
[[nodiscard]] bool copy_mapped(const std::byte* from, std::byte* to, std::size_t bytes);

}  // namespace moescope
