#include "core/recording/read_ahead.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/recording/frame_reader.h"

namespace moescope {

namespace {

// Few, since a frame may have megabytes; many, since each chunk wakes threads.
constexpr std::size_t kBytesAChunk = std::size_t{2} << 20, kMostFramesAChunk = 64;
constexpr std::size_t kChunksAThread = 4;  // that wait to be taken, or are being read

}  // namespace

ReadAhead::ReadAhead(std::vector<std::unique_ptr<Connection>> connections, const RunInfo& info,
                     std::vector<std::int64_t> ids, std::size_t frame_bytes)
    : info_(info),
      ids_(std::move(ids)),
      frames_a_chunk_(
          std::clamp<std::size_t>(kBytesAChunk / std::max<std::size_t>(1, frame_bytes), 1, kMostFramesAChunk)),
      wanted_(kChunksAThread * connections.size()),
      spent_(connections.size()),
      connections_(std::move(connections)) {
  for (std::size_t thread = 0; thread < connections_.size(); ++thread) {
    connections_[thread]->on_progress([this] { return !stopped_; });
    threads_.emplace_back([this, thread] { read(thread); });
  }
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  change_.notify_all();
}

std::size_t ReadAhead::chunks() const {
  return (ids_.size() + frames_a_chunk_ - 1) / frames_a_chunk_;
}

std::span<const std::int64_t> ReadAhead::ids_of(std::size_t chunk) const {
  const std::size_t first = chunk * frames_a_chunk_;
  return std::span(ids_).subspan(first, std::min(frames_a_chunk_, ids_.size() - first));
}

bool ReadAhead::begin(std::size_t& chunk) {
  std::unique_lock lock(mutex_);
  change_.wait(lock, [this] { return stopped_ || begun_ == chunks() || begun_ < wanted_; });
  if (stopped_ || begun_ == chunks()) return false;
  chunk = begun_++;
  return true;
}

void ReadAhead::read(std::size_t thread) {
  std::optional<FrameReader> reader;
  for (std::size_t chunk = 0; begin(chunk);) {
    Chunk read{{}, nullptr, thread};
    try {
      if (!reader) reader.emplace(*connections_[thread], info_, 1);
      const auto ids = ids_of(chunk);
      reader->seek(ids.front(), ids.back());
      std::int64_t id = 0;
      while (auto frame = reader->next(id)) read.frames.push_back({id, History::pack(std::move(frame))});
    } catch (...) {
      read.error = std::current_exception();
    }
    std::vector<Chunk> spent;  // freed without the lock
    const std::lock_guard lock(mutex_);
    ready_.emplace(chunk, std::move(read));
    spent.swap(spent_[thread]);
    change_.notify_all();
  }
}

std::span<const ReadAhead::Read> ReadAhead::wait(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  if (!current_.frames.empty()) spent_[current_.thread].push_back(std::exchange(current_, {}));
  if (!change_.wait_for(lock, most, [this] { return ready_.contains(taken_); })) return {};
  current_ = std::move(ready_.extract(taken_).mapped());
  ++taken_;
  ++wanted_;
  change_.notify_all();
  if (current_.error) std::rethrow_exception(current_.error);
  return current_.frames;
}

}  // namespace moescope
