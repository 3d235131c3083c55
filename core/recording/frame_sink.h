// Passes frames from the training thread to the histories and the recording; the trainer never waits for either.
//
// publish() puts a frame into a list and returns. A history thread takes the frames of the list, appends them to the
// histories and writes them to the recording in one transaction.
#pragma once

#include <memory>
#include <string>

#include "core/frame/frame.h"
#include "core/recording/history/history.h"
#include "core/recording/recording.h"

namespace moescope {

class FrameSink {
 public:
  // An empty path keeps frames in memory only. Throws std::runtime_error if the recording cannot be created.
  explicit FrameSink(std::string recording_path, std::size_t array_budget_bytes = std::size_t{512} << 20);
  ~FrameSink();  // writes all published frames and markers, then closes the recording

  // Callable from any thread; the order within a thread is kept. A frame is appended to the history of its run, which
  // must be added first.
  std::shared_ptr<History> add_run(const RunInfo& info);
  void remove_run(int run);  // no more frames of the run may follow; recorded frames stay
  void publish(TelemetryFrame frame);
  void publish(Marker marker);
  void publish_edited_probe(int run, TokenFrame probe);  // History::set_edited_probe(); not recorded
  // Rewinds the run to before `step`: its history drops `step` and later steps. The recording drops them when the
  // next frame is written.
  void rewind(int run, std::int64_t step);
  void flush();               // waits until everything published before is appended and written
  std::string error() const;  // why the recording failed (a full disk) while training continues; else empty

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
