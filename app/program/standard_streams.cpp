#include "app/program/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

namespace moescope {

// open() returns the lowest free number, so opening in order gives each stream its own number.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    [[maybe_unused]] const int opened = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace moescope
