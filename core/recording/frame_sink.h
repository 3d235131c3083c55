// Passes frames from the training thread to the histories and the recording; the trainer never waits for either.
//
// publish() puts the frame into a list and returns; one light history thread takes what is there, appends to the
// histories and writes the recording, in one transaction.
#pragma once

#include <memory>
#include <string>

#include "core/frame/frame.h"
#include "core/history/history.h"
#include "core/recording/recording.h"

namespace moescope {

class FrameSink {
 public:
  // Empty path: keep in memory only. Throws std::runtime_error when the recording cannot be made.
  explicit FrameSink(std::string recording_path, std::size_t array_budget_bytes = std::size_t{512} << 20);
  ~FrameSink();  // drains, then closes the recording

  // Any thread; the order within one thread is kept. A frame is appended to the history of its run, which must have
  // been added before.
  std::shared_ptr<History> add_run(const RunInfo& info);
  void remove_run(int run);  // no more frames of it will come; what is recorded stays
  void publish(TelemetryFrame frame);
  void publish(Marker marker);
  // Rewinds the run to before `step`: its history drops `step` and later ones at once, the recording with the next
  // frame.
  void rewind(int run, std::int64_t step);
  void flush();               // returns once everything published before is appended and written
  std::string error() const;  // why the recording failed (disk full), while training goes on; empty: it did not

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
