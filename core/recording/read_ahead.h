// Frames of a recording that nobody writes, read and packed by several threads at once, handed over in their order.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <span>
#include <vector>

#include "core/history/history.h"
#include "core/io/sqlite.h"
#include "core/recording/frame_reader.h"

namespace moescope {

class ReadAhead {
 public:
  struct Read {
    std::int64_t id;
    std::shared_ptr<History::Packed> frame;
  };
  // A thread for each connection. `ids`: of the frames of the run, rising; `frame_bytes`: of a frame in the file,
  // about.
  ReadAhead(std::vector<std::unique_ptr<Connection>> connections, const RunInfo& info, std::vector<std::int64_t> ids,
            std::size_t frame_bytes);
  ~ReadAhead();  // ends the reading
  bool done() const { return chunks_.empty(); }
  // The frames that come next; empty: not read after `most`. Throws what FrameReader throws, at its frame.
  std::vector<Read> wait(std::chrono::milliseconds most);

 private:
  struct Reader {
    std::unique_ptr<Connection> connection;
    std::unique_ptr<FrameReader> frames;
  };
  struct Chunk {
    Reader* reader;  // which reads one at a time
    std::future<std::vector<Read>> frames;
  };
  void start(Reader& reader);  // the next chunk, if one is left
  std::vector<Read> read(Reader& reader, std::span<const std::int64_t> ids) const;

  const RunInfo& info_;
  const std::vector<std::int64_t> ids_;
  const std::size_t frames_a_chunk_;
  std::size_t begun_ = 0;  // frames
  std::atomic<bool> stopped_{false};
  std::vector<Reader> readers_;
  std::deque<Chunk> chunks_;  // in order; last: their threads use all of the above
};

}  // namespace moescope
