// Memory of moescope-cli train over a million steps, without the training itself: recording, frame sink and history.
// Exit status 1 if memory grows without end (long_run.h).
//   bench_memory [STEPS]
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>

#include "tests/support/long_run.h"

using namespace moescope;

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 1000000;
  const auto path =
      std::filesystem::temp_directory_path() / ("moescope_memory_" + std::to_string(getpid()) + ".moescope");
  int status = 2;
  try {
    {
      LongTraining run(path.string());
      status = measure(run, steps);
      if (!run.error().empty()) throw std::runtime_error(run.error());
    }
    std::printf("recording: %.1f MiB\n", mib(std::filesystem::file_size(path)));
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_memory: %s\n", failure.what());
    status = 2;
  }
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + suffix);
  return status;
}
