// Reads the frames of a run from the tables of an untrusted recording.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "core/files/sqlite.h"
#include "core/frame/describe.h"

namespace moescope {

// Rows of a table that is read together with the table `frame`, in the order of their ids. A row belongs to the frame
// with the id (id of the row) >> 16.
class FrameRows {
 public:
  FrameRows(Connection& connection, const char* table, int run);
  // True if seek() takes no time. A table that another program copied may have lost its key; each seek would then scan
  // the whole table.
  bool seeks() const { return seeks_; }
  void seek(std::int64_t first_frame, std::int64_t last_frame);  // ids of frames
  // Calls read(row, id of the row) for each row of the frame; the row is at its fourth column. Frame ids must rise from
  // call to call.
  template <class Read>
  void visit_rows(std::int64_t frame_id, Read read) {
    while (id_ >= 0 && id_ >> 16 < frame_id) advance();
    while (id_ >= 0 && id_ >> 16 == frame_id) {
      rows_.skip();  // run
      rows_.skip();  // step
      try {
        read(rows_, id_);
      } catch (const std::runtime_error& error) {
        fail(error.what());
      }
      advance();
    }
  }

 private:
  void advance() { id_ = rows_.next() ? rows_.get_integer() : -1; }
  [[noreturn]] void fail(const char* reason) const;
  const char* table_;
  bool seeks_;
  Statement rows_;
  int run_;
  std::int64_t id_ = -1;
};

// Reads the frames in the order written. Only every `interval`th frame has its layers and arrays; every frame has the
// figures of the step.
class FrameReader {
 public:
  FrameReader(Connection& connection, const RunInfo& info, std::int64_t interval);
  bool seeks();  // true if seek() takes no time
  // Makes next() return the frames with ids from `first` to `last`, by default to the end.
  void seek(std::int64_t first, std::int64_t last = INT64_MAX);
  // Returns the next frame and sets `id`; nullptr after the last frame. Throws std::runtime_error "damaged: table
  // TABLE, id ID: WHY".
  std::shared_ptr<const TelemetryFrame> next(std::int64_t& id);

 private:
  void read_rows(std::int64_t id, TelemetryFrame& frame);

  const RunInfo& info_;
  std::int64_t interval_, n_ = 0;
  Statement frames_;
  std::array<FrameRows, kNumFrameTables> tables_;
};

}  // namespace moescope
