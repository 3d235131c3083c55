// A recording that a command writes from start to end. It is written beside its final name and renamed at the end, so
// that a file of that name is always complete.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/recording/recording.h"

namespace moescope {

// Throws OutputError if the recording cannot be written. finish() throws std::filesystem::filesystem_error.
class RecordingInWork {
 public:
  explicit RecordingInWork(std::string out);
  ~RecordingInWork();  // removes an unfinished recording
  RecordingInWork(const RecordingInWork&) = delete;
  RecordingInWork& operator=(const RecordingInWork&) = delete;
  void add(const RunInfo& info);
  void add(const std::shared_ptr<const TelemetryFrame>& frame);
  void add(const Marker& marker);
  void finish();

 private:
  void write();
  template <class Write>
  void record(Write write);
  std::string out_, work_;
  std::unique_ptr<RecordingWriter> writer_;
  std::vector<std::shared_ptr<const TelemetryFrame>> frames_;
  std::vector<Marker> markers_;
};

}  // namespace moescope
