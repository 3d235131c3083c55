// Frames of a recording that nobody writes, read and packed by several threads at once, handed over in their order.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/frame/frame.h"
#include "core/history/history.h"
#include "core/io/sqlite.h"

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
  bool done() const { return taken_ == chunks(); }
  // The frames that come next, until the next call; empty: not read after `most`. Throws what FrameReader throws, at
  // its frame.
  std::span<const Read> wait(std::chrono::milliseconds most);

 private:
  struct Chunk {
    std::vector<Read> frames;
    std::exception_ptr error;
    std::size_t thread = 0;
  };
  std::size_t chunks() const;
  std::span<const std::int64_t> ids_of(std::size_t chunk) const;
  bool begin(std::size_t& chunk);  // false: nothing is left to be read
  void read(std::size_t thread);

  const RunInfo& info_;
  std::vector<std::int64_t> ids_;
  const std::size_t frames_a_chunk_;
  std::size_t taken_ = 0;  // chunks

  std::mutex mutex_;
  std::condition_variable change_;
  std::size_t begun_ = 0;
  std::size_t wanted_ = 0;  // chunks that may be begun
  std::map<std::size_t, Chunk> ready_;
  Chunk current_;  // whose frames wait() handed out
  // By thread, chunks that it read and nobody needs any more: memory is freed fastest by who allocated it.
  std::vector<std::vector<Chunk>> spent_;
  std::atomic<bool> stopped_{false};
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace moescope
