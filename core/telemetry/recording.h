// A run on disk: SQLite in WAL mode, one transaction per drained batch of frames, so that a killed process loses at
// most the step in flight. Schema: see kSchema in recording.cpp, documented column by column.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/telemetry/frame.h"
#include "core/telemetry/history.h"

namespace moescope {

// Every failure throws std::runtime_error with the path and SQLite's own words.
class RecordingWriter {
 public:
  explicit RecordingWriter(const std::string& path);  // creates; refuses to overwrite a file that is not a recording
  ~RecordingWriter();
  void add_run(const RunInfo& info);
  void write(std::span<const std::shared_ptr<const TelemetryFrame>> frames);  // one transaction
  void write(const Marker& marker);

 private:
  struct Database;
  std::unique_ptr<Database> db_;
};

// Opens while a writer still appends, too.
class RecordingReader {
 public:
  explicit RecordingReader(const std::string& path);
  ~RecordingReader();
  const std::vector<RunInfo>& runs() const;
  // Fills a history of `run`; `progress` gets 0..1 and returns false to cancel.
  std::shared_ptr<History> load(int run, const std::function<bool(double)>& progress = {}) const;

 private:
  struct Database;
  std::unique_ptr<Database> db_;
};

}  // namespace moescope
