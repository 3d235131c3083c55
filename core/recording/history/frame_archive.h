// The frames of a run with their arrays, in memory. Each part of a frame (frame_pack.h) is packed on its own and has
// its own cadence; each part is thinned separately.
//
// Not thread-safe: History locks it. find() returns packed parts, so that the caller can unpack them without the lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/frame/frame.h"
#include "core/frame/thinning.h"
#include "core/recording/history/frame_pack.h"

namespace moescope {

// Packed frames in the order of their steps, which are thinned if they take too much memory.
class KeptFrames {
 public:
  struct Entry {
    std::int64_t step;
    std::uint64_t ordinal;
    std::shared_ptr<const PackedFrame> packed;
  };

  void append(std::int64_t step, PackedFrame packed) {
    const std::uint64_t ordinal = entries_.empty() ? 0 : entries_.back().ordinal + 1;
    entries_.push_back({step, ordinal, std::make_shared<const PackedFrame>(std::move(packed))});
    bytes_ += bytes_of(entries_.back());
  }

  void truncate(std::int64_t step) {
    while (!entries_.empty() && entries_.back().step >= step) {
      bytes_ -= bytes_of(entries_.back());
      entries_.pop_back();
    }
  }

  bool thin() {
    const std::size_t half_count = entries_.size() / 2;
    const int level = finest_level(std::span<const Entry>(entries_).first(half_count));
    if (level < 0) return false;
    const auto end = entries_.begin() + half_count;
    const auto kept_end = std::stable_partition(
        entries_.begin(), end, [level](const Entry& entry) { return !is_dropped(entry.ordinal, level); });
    for (auto dropped = kept_end; dropped != end; ++dropped) bytes_ -= bytes_of(*dropped);
    entries_.erase(kept_end, end);
    entries_.shrink_to_fit();
    interval_ = std::max(interval_, 2 << level);
    return true;
  }

  // Returns the newest entry at or before `step`; nullptr if there is no such entry.
  const Entry* find(std::int64_t step) const {
    const auto after = std::upper_bound(entries_.begin(), entries_.end(), step,
                                        [](std::int64_t s, const Entry& entry) { return s < entry.step; });
    return after == entries_.begin() ? nullptr : &*std::prev(after);
  }

  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> steps;
    for (const Entry& entry : entries_) steps.push_back(entry.step);
    return steps;
  }
  std::size_t bytes() const { return bytes_ + entries_.capacity() * sizeof(Entry); }
  int interval() const { return interval_; }

 private:
  static std::size_t bytes_of(const Entry& entry) {
    return sizeof(PackedFrame) + 2 * sizeof(void*) + entry.packed->capacity();
  }
  std::vector<Entry> entries_;
  std::size_t bytes_ = 0;
  int interval_ = 1;
};

// Indexed by part; nullopt if the frame has no arrays of that part.
using PackedParts = std::array<std::optional<PackedFrame>, kNumFrameParts>;
inline PackedParts pack_parts(const TelemetryFrame& frame) {
  PackedParts parts;
  for (std::size_t i = 0; i < kNumFrameParts; ++i) parts[i] = pack(frame, static_cast<FramePart>(i));
  return parts;
}

class FrameArchive {
 public:
  using FramePtr = std::shared_ptr<const TelemetryFrame>;
  using PackedPart = std::pair<FramePart, std::shared_ptr<const PackedFrame>>;
  struct Found {
    FramePtr frame;                  // already unpacked; nullptr if `packed` must be unpacked
    std::vector<PackedPart> packed;  // parts to unpack; empty, with frame == nullptr: no frame found
  };

  // Steps must rise; `parts` belong to `frame`.
  void append(const FramePtr& frame, PackedParts parts) {
    for (std::size_t i = 0; i < kNumFrameParts; ++i) {
      if (!parts[i]) continue;
      frames_[i].append(frame->step, std::move(*parts[i]));
      newest_[i] = frame;
    }
  }
  // Forgets `step` and later steps.
  void truncate(std::int64_t step) {
    for (KeptFrames& part : frames_) part.truncate(step);
    newest_ = {};
    remembered_ = {};
  }
  // Returns the newest frame at or before `step` that has `part`. A large part (specialisation or a text) is returned
  // alone, any other part together with all small parts of that frame.
  Found find(FramePart part, std::int64_t step) const {
    const KeptFrames::Entry* entry = frames_of(part).find(step);
    if (!entry) return {};
    for (const FramePtr& frame : newest_) {
      if (frame && frame->step == entry->step) return {frame, {}};
    }
    const FramePtr& remembered = remembered_[place_of(part)];
    if (remembered && remembered->step == entry->step) return {remembered, {}};
    if (!is_light(part)) return {nullptr, {{part, entry->packed}}};
    Found found;
    for (std::size_t i = 0; is_light(static_cast<FramePart>(i)); ++i) {
      const KeptFrames::Entry* other_part = frames_[i].find(entry->step);
      if (other_part && other_part->step == entry->step)
        found.packed.emplace_back(static_cast<FramePart>(i), other_part->packed);
    }
    return found;
  }

  static FramePtr unpack(const std::vector<PackedPart>& packed) {
    auto frame = std::make_shared<TelemetryFrame>();
    for (const auto& [part, bytes] : packed) moescope::unpack(*bytes, part, *frame);
    return frame;
  }
  // Keeps `frame` as the one unpacked last for `part`.
  void remember(FramePart part, FramePtr frame) { remembered_[place_of(part)] = std::move(frame); }

  const KeptFrames& frames_of(FramePart part) const { return frames_[static_cast<std::size_t>(part)]; }
  // The part that takes the most memory.
  KeptFrames& largest() { return *std::ranges::max_element(frames_, {}, &KeptFrames::bytes); }
  std::size_t bytes() const {
    std::size_t bytes = 0;
    for (const KeptFrames& part : frames_) bytes += part.bytes();
    return bytes;
  }

 private:
  // True for parts that are unpacked together; the other parts are large and are unpacked alone.
  static constexpr bool is_light(FramePart part) { return part < FramePart::specialisation; }
  // Returns the index in remembered_ of the frame that was last unpacked for `part`.
  static constexpr std::size_t place_of(FramePart part) { return is_light(part) ? 0 : static_cast<std::size_t>(part); }

  std::array<KeptFrames, kNumFrameParts> frames_;
  // Unpacked frames for the cursor: the newest frame of each part, and the frame that was read last.
  std::array<FramePtr, kNumFrameParts> newest_;
  std::array<FramePtr, kNumFrameParts> remembered_;  // parts that are unpacked together use the first entry
};

}  // namespace moescope
