// From the training thread to the histories and the recording, without the trainer ever waiting.
//
// publish() links the frame into a lock-free single-producer list and returns; one light history thread drains it,
// appends to the histories and writes the recording, one transaction per drain.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/telemetry/frame.h"
#include "core/telemetry/history.h"
#include "core/telemetry/recording.h"

namespace moescope {

class FrameSink {
 public:
  explicit FrameSink(std::string recording_path);  // empty: keep in memory only
  ~FrameSink();                                    // drains, then closes the recording

  std::shared_ptr<History> add_run(const RunInfo& info);
  void publish(TelemetryFrame frame);  // training thread only
  void publish(Marker marker);         // training thread only
  void flush();                        // returns once all that was published before is appended and written
  std::string error() const;           // a recording that failed (disk full); training goes on; empty: none

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
