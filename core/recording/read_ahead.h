// Reads and packs frames with several threads and returns them in order. No program may be writing to the recording.
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
  // Starts a thread for each connection. `ids`: rising ids of the frames of the run; `frame_bytes`: approximate size of
  // a frame in the file.
  ReadAhead(std::vector<std::unique_ptr<Connection>> connections, const RunInfo& info, std::vector<std::int64_t> ids,
            std::size_t frame_bytes);
  ~ReadAhead();  // stops reading
  bool done() const { return chunks_.empty(); }
  // Returns the next frames; empty if they are not read within `most`. Throws the error of FrameReader at the frame
  // that caused it.
  std::vector<Read> wait(std::chrono::milliseconds most);

 private:
  struct Reader {
    std::unique_ptr<Connection> connection;
    std::unique_ptr<FrameReader> frames;
  };
  struct Chunk {
    Reader* reader;  // reads one chunk at a time
    std::future<std::vector<Read>> frames;
  };
  void start(Reader& reader);  // starts the next chunk, if one is left
  std::vector<Read> read(Reader& reader, std::span<const std::int64_t> ids) const;

  const RunInfo& info_;
  const std::vector<std::int64_t> ids_;
  const std::size_t frames_a_chunk_;
  std::size_t begun_ = 0;  // frames whose reading has started
  std::atomic<bool> stopped_{false};
  std::vector<Reader> readers_;
  std::deque<Chunk> chunks_;  // in order; last member, because the threads use the members above
};

}  // namespace moescope
