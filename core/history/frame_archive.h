// The frames of a run with their arrays, in memory: packed (frame_pack.h), in parts that come at cadences of their own,
// each thinned by itself (kept_frames.h).
//
// Not locked: History does that. Frames are handed out packed, so that they are unpacked without the lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/frame/frame.h"
#include "core/history/frame_pack.h"
#include "core/history/kept_frames.h"

namespace moescope {

// By part; nothing where the frame has no such arrays.
using PackedParts = std::array<std::optional<PackedFrame>, kNumFrameParts>;
PackedParts pack_parts(const TelemetryFrame& frame);

class FrameArchive {
 public:
  using FramePtr = std::shared_ptr<const TelemetryFrame>;
  using PackedPart = std::pair<FramePart, std::shared_ptr<const PackedFrame>>;
  struct Found {
    FramePtr frame;                  // unpacked already; else nullptr, and
    std::vector<PackedPart> packed;  // what to unpack; empty: no frame was found
  };

  void append(const FramePtr& frame, PackedParts parts);  // of that frame; steps rise
  void truncate(std::int64_t step);                       // forgets `step` and later
  // The newest frame at or before `step` that has `part`. Large parts (specialisation and texts) come alone, the others
  // with each other.
  Found find(FramePart part, std::int64_t step) const;
  static FramePtr unpack(const std::vector<PackedPart>& packed);
  void remember(FramePart part, FramePtr frame);  // as the last one that was unpacked for `part`

  const KeptFrames& kept(FramePart part) const { return kept_[static_cast<std::size_t>(part)]; }
  KeptFrames& largest();  // the part that takes the most room
  std::size_t bytes() const;

 private:
  std::array<KeptFrames, kNumFrameParts> kept_;
  // Unpacked frames, for the cursor: the newest of each part, and the last one read.
  std::array<FramePtr, kNumFrameParts> newest_;
  std::array<FramePtr, kNumFrameParts> remembered_;  // parts that come together share the first
};

}  // namespace moescope
