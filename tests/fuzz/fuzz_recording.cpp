// libFuzzer over the reader of recordings: any bytes either open or are refused, and every run of an open recording is
// loaded or refused. The std::runtime_error of a refusal names the file. How to run: CONTRIBUTING.md.
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/recording/recording.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // SQLite needs a file with a name, next to which it can create others.
  static const std::string path = "/dev/shm/moescope_fuzz_" + std::to_string(::getpid()) + ".moescope";
  for (const char* suffix : {"-wal", "-shm", "-journal"}) std::filesystem::remove(path + suffix);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    const RecordingReader reader(path);
    for (const RunInfo& run : reader.runs()) {
      try {
        const auto history = reader.load(run.run, {}, std::size_t{4} << 20);
        if (const auto frame = history->frame_at(history->steps().last); frame && !frame->routers.empty())
          history->utilisation(frame->routers.front().layer, history->steps(), 4);
      } catch (const std::runtime_error& error) {
        require(std::string(error.what()).find(path) != std::string::npos, "the message names the file");
      }
    }
  } catch (const std::runtime_error& error) {
    require(std::string(error.what()).find(path) != std::string::npos, "the message names the file");
  }
  std::filesystem::remove(path);
  return 0;
}
