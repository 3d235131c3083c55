// The frames of a run with their arrays, in memory. Each part of a frame (frame_pack.h) is packed on its own and has
// its own cadence; each part is thinned separately (kept_frames.h).
//
// Not thread-safe: History locks it. find() returns packed parts, so that the caller can unpack them without the lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/frame/frame.h"
#include "core/recording/history/frame_pack.h"
#include "core/recording/history/kept_frames.h"

namespace moescope {

// Indexed by part; nullopt if the frame has no arrays of that part.
using PackedParts = std::array<std::optional<PackedFrame>, kNumFrameParts>;
PackedParts pack_parts(const TelemetryFrame& frame);

class FrameArchive {
 public:
  using FramePtr = std::shared_ptr<const TelemetryFrame>;
  using PackedPart = std::pair<FramePart, std::shared_ptr<const PackedFrame>>;
  struct Found {
    FramePtr frame;                  // already unpacked; nullptr if `packed` must be unpacked
    std::vector<PackedPart> packed;  // parts to unpack; empty, with frame == nullptr: no frame found
  };

  void append(const FramePtr& frame, PackedParts parts);  // steps must rise; `parts` belong to `frame`
  void truncate(std::int64_t step);                       // forgets `step` and later steps
  // Returns the newest frame at or before `step` that has `part`. A large part (specialisation or a text) is returned
  // alone, any other part together with all small parts of that frame.
  Found find(FramePart part, std::int64_t step) const;
  static FramePtr unpack(const std::vector<PackedPart>& packed);
  void remember(FramePart part, FramePtr frame);  // keeps `frame` as the one unpacked last for `part`

  const KeptFrames& frames_of(FramePart part) const { return frames_[static_cast<std::size_t>(part)]; }
  KeptFrames& largest();  // the part that takes the most memory
  std::size_t bytes() const;

 private:
  std::array<KeptFrames, kNumFrameParts> frames_;
  // Unpacked frames for the cursor: the newest frame of each part, and the frame that was read last.
  std::array<FramePtr, kNumFrameParts> newest_;
  std::array<FramePtr, kNumFrameParts> remembered_;  // parts that are unpacked together use the first entry
};

}  // namespace moescope
