// Recordings for tests: files under the temporary folder, and a run written into one.
#pragma once

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/recording/recording.h"
#include "tests/support/sample_frames.h"

namespace moescope {

using FramePtr = std::shared_ptr<const TelemetryFrame>;

inline std::string temporary_file(const std::string& name) {
  const auto path = std::filesystem::temp_directory_path() / ("moescope_recording_" + name);
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + suffix);
  return path;
}

inline std::string temporary_path(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("moescope_recording_" + name);
}

inline FramePtr share(TelemetryFrame frame) {
  return std::make_shared<const TelemetryFrame>(std::move(frame));
}

inline void write_run(const std::string& path, int steps, bool with_texts = false) {
  std::mt19937 rng(1);
  RecordingWriter writer(path);
  writer.add_run(sample_info({}));
  std::vector<FramePtr> frames;
  for (int step = 0; step < steps; ++step) {
    TelemetryFrame frame = sample_frame(step, {}, rng);
    if (with_texts) add_specialisation_and_texts(frame, {}, rng);
    frames.push_back(share(std::move(frame)));
  }
  writer.write(frames);
}

}  // namespace moescope
