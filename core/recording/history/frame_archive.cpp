#include "core/recording/history/frame_archive.h"

#include <algorithm>

namespace moescope {

namespace {

constexpr std::size_t index_of(FramePart part) {
  return static_cast<std::size_t>(part);
}

// True for parts that are unpacked together; the other parts are large and are unpacked alone.
constexpr bool is_light(FramePart part) {
  return part < FramePart::specialisation;
}

// Returns the index in remembered_ of the frame that was last unpacked for `part`.
constexpr std::size_t place_of(FramePart part) {
  return is_light(part) ? 0 : index_of(part);
}

}  // namespace

PackedParts pack_parts(const TelemetryFrame& frame) {
  PackedParts parts;
  for (std::size_t i = 0; i < kNumFrameParts; ++i) parts[i] = pack(frame, static_cast<FramePart>(i));
  return parts;
}

void FrameArchive::append(const FramePtr& frame, PackedParts parts) {
  for (std::size_t i = 0; i < kNumFrameParts; ++i) {
    if (!parts[i]) continue;
    frames_[i].append(frame->step, std::move(*parts[i]));
    newest_[i] = frame;
  }
}

void FrameArchive::truncate(std::int64_t step) {
  for (KeptFrames& part : frames_) part.truncate(step);
  newest_ = {};
  remembered_ = {};
}

FrameArchive::Found FrameArchive::find(FramePart part, std::int64_t step) const {
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

FrameArchive::FramePtr FrameArchive::unpack(const std::vector<PackedPart>& packed) {
  auto frame = std::make_shared<TelemetryFrame>();
  for (const auto& [part, bytes] : packed) moescope::unpack(*bytes, part, *frame);
  return frame;
}

void FrameArchive::remember(FramePart part, FramePtr frame) {
  remembered_[place_of(part)] = std::move(frame);
}

KeptFrames& FrameArchive::largest() {
  return *std::ranges::max_element(frames_, {}, &KeptFrames::bytes);
}

std::size_t FrameArchive::bytes() const {
  std::size_t bytes = 0;
  for (const KeptFrames& part : frames_) bytes += part.bytes();
  return bytes;
}

}  // namespace moescope
