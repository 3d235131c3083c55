// Frames of a run out of the tables of a recording of unknown origin.
#pragma once

#include <cstdint>
#include <memory>

#include "core/frame/frame.h"
#include "core/io/sqlite.h"

namespace moescope {

// A table read along with `frame`: rows in the order of their id, each belonging to frame id >> 16.
class FrameRows {
 public:
  FrameRows(Connection& connection, const char* table, int run);
  // Whether seek() costs nothing. A table copied by another program may have lost its key, and each would scan all of
  // it.
  bool seeks() const { return seeks_; }
  void seek(std::int64_t first_frame, std::int64_t last_frame);  // ids
  // Calls `read` with each row of that frame, at its fourth column, and with the row's id.
  template <class Read>
  void of_frame(std::int64_t frame_id, Read read) {
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
  [[noreturn]] void fail(const char* why) const;
  const char* table_;
  bool seeks_;
  Statement rows_;
  int run_;
  std::int64_t id_ = -1;
};

// In the order written; all but the figures of the step itself only of every `every`th frame.
class FrameReader {
 public:
  FrameReader(Connection& connection, const RunInfo& info, std::int64_t every);
  bool seeks();  // whether seek() costs nothing
  // Goes to the frames with ids from `first` to `last`, by default all that follow.
  void seek(std::int64_t first, std::int64_t last = INT64_MAX);
  // nullptr: no more. Sets `id`. Throws std::runtime_error "damaged: table TABLE, id ID: WHY".
  std::shared_ptr<const TelemetryFrame> next(std::int64_t& id);

 private:
  template <class Row>
  Row get(Statement& statement) const;
  void read_rows(std::int64_t id, TelemetryFrame& frame);
  template <class Do>
  void each_table(Do what);

  const RunInfo& info_;
  std::int64_t every_, n_ = 0;
  Statement frames_;
  FrameRows routers_, volumes_, quants_, flips_, gradients_, specialisation_, texts_, text_layers_, wires_;
};

}  // namespace moescope
