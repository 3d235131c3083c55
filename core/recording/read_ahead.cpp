#include "core/recording/read_ahead.h"

#include <algorithm>
#include <utility>

namespace moescope {

namespace {

// Small, since a frame may have megabytes; not too small, since each chunk starts a thread.
constexpr std::size_t kBytesAChunk = std::size_t{2} << 20, kMostFramesAChunk = 64;

}  // namespace

ReadAhead::ReadAhead(std::vector<std::unique_ptr<Connection>> connections, const RunInfo& info,
                     std::vector<std::int64_t> ids, std::size_t frame_bytes)
    : info_(info),
      ids_(std::move(ids)),
      frames_a_chunk_(
          std::clamp<std::size_t>(kBytesAChunk / std::max<std::size_t>(1, frame_bytes), 1, kMostFramesAChunk)) {
  for (auto& connection : connections) {
    connection->on_progress([this] { return !stopped_; });
    readers_.push_back({std::move(connection), nullptr});
  }
  for (Reader& reader : readers_) start(reader);
}

ReadAhead::~ReadAhead() {
  stopped_ = true;
}

void ReadAhead::start(Reader& reader) {
  if (begun_ == ids_.size()) return;
  const auto ids = std::span(ids_).subspan(begun_, std::min(frames_a_chunk_, ids_.size() - begun_));
  begun_ += ids.size();
  chunks_.push_back({&reader, std::async(std::launch::async, [this, &reader, ids] { return read(reader, ids); })});
}

std::vector<ReadAhead::Read> ReadAhead::read(Reader& reader, std::span<const std::int64_t> ids) const {
  if (!reader.frames) reader.frames = std::make_unique<FrameReader>(*reader.connection, info_, 1);
  reader.frames->seek(ids.front(), ids.back());
  std::vector<Read> frames;
  std::int64_t id = 0;
  while (auto frame = reader.frames->next(id)) frames.push_back({id, History::pack(std::move(frame))});
  return frames;
}

std::vector<ReadAhead::Read> ReadAhead::wait(std::chrono::milliseconds most) {
  if (chunks_.front().frames.wait_for(most) != std::future_status::ready) return {};
  Chunk chunk = std::move(chunks_.front());
  chunks_.pop_front();
  std::vector<Read> frames = chunk.frames.get();
  start(*chunk.reader);
  return frames;
}

}  // namespace moescope
