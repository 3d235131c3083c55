#include "core/io/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace moescope {

// The lowest number that is free is taken, so in their order each gets its own.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    [[maybe_unused]] const int opened = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace moescope
