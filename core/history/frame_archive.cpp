#include "core/history/frame_archive.h"

#include <algorithm>

namespace moescope {

namespace {

bool has_loads(const TelemetryFrame& frame) {
  return std::any_of(frame.routers.begin(), frame.routers.end(),
                     [](const RouterFrame& router) { return !router.tokens_per_expert.empty(); });
}

struct PartFormat {
  bool (*present)(const TelemetryFrame&);
  PackedFrame (*pack)(const TelemetryFrame&);
  void (*unpack)(const PackedFrame&, TelemetryFrame&);
};

// A frame has at most one text of a kind.
template <TextKind kind>
constexpr PartFormat text_format() {
  return {[](const TelemetryFrame& frame) { return find_text(frame, kind) != nullptr; },
          [](const TelemetryFrame& frame) { return pack_text(frame, *find_text(frame, kind)); }, unpack_text};
}

// In the order of FramePart.
constexpr std::array<PartFormat, kNumFrameParts> kPartFormats = {{
    {has_loads, pack_routers, unpack_routers},
    {[](const TelemetryFrame& frame) { return !frame.quants.empty(); }, pack_quants, unpack_quants},
    {[](const TelemetryFrame& frame) { return !frame.flips.empty(); }, pack_flips, unpack_flips},
    {[](const TelemetryFrame& frame) { return !frame.gradients.empty(); }, pack_gradients, unpack_gradients},
    {[](const TelemetryFrame& frame) { return !frame.specialisation.empty(); }, pack_specialisation,
     unpack_specialisation},
    text_format<TextKind::probe>(),
    text_format<TextKind::sample>(),
    text_format<TextKind::batch>(),
}};

constexpr std::size_t index_of(FramePart part) {
  return static_cast<std::size_t>(part);
}

// Of parts that are unpacked together; the others are large and come alone.
constexpr bool is_light(FramePart part) {
  return part < FramePart::specialisation;
}

// Where the frame last unpacked for it is remembered.
constexpr std::size_t place_of(FramePart part) {
  return is_light(part) ? 0 : index_of(part);
}

}  // namespace

FramePart text_part(TextKind kind) {
  return static_cast<FramePart>(index_of(FramePart::probe) + static_cast<std::size_t>(kind));
}

const TokenFrame* find_text(const TelemetryFrame& frame, TextKind kind) {
  for (const TokenFrame& text : frame.texts) {
    if (text.kind == kind) return &text;
  }
  return nullptr;
}

PackedParts pack_parts(const TelemetryFrame& frame) {
  PackedParts parts;
  for (std::size_t i = 0; i < kNumFrameParts; ++i) {
    if (kPartFormats[i].present(frame)) parts[i] = kPartFormats[i].pack(frame);
  }
  return parts;
}

void FrameArchive::append(const FramePtr& frame, PackedParts parts) {
  for (std::size_t i = 0; i < kNumFrameParts; ++i) {
    if (!parts[i]) continue;
    kept_[i].append(frame->step, std::move(*parts[i]));
    newest_[i] = frame;
  }
}

void FrameArchive::truncate(std::int64_t step) {
  for (KeptFrames& part : kept_) part.truncate(step);
  newest_ = {};
  remembered_ = {};
}

FrameArchive::Found FrameArchive::find(FramePart part, std::int64_t step) const {
  const KeptFrames::Entry* entry = kept(part).find(step);
  if (!entry) return {};
  for (const FramePtr& frame : newest_) {
    if (frame && frame->step == entry->step) return {frame, {}};
  }
  const FramePtr& remembered = remembered_[place_of(part)];
  if (remembered && remembered->step == entry->step) return {remembered, {}};
  if (!is_light(part)) return {nullptr, {{part, entry->packed}}};
  Found found;
  for (std::size_t i = 0; is_light(static_cast<FramePart>(i)); ++i) {
    const KeptFrames::Entry* beside = kept_[i].find(entry->step);
    if (beside && beside->step == entry->step) found.packed.emplace_back(static_cast<FramePart>(i), beside->packed);
  }
  return found;
}

FrameArchive::FramePtr FrameArchive::unpack(const std::vector<PackedPart>& packed) {
  auto frame = std::make_shared<TelemetryFrame>();
  for (const auto& [part, bytes] : packed) kPartFormats[index_of(part)].unpack(*bytes, *frame);
  return frame;
}

void FrameArchive::remember(FramePart part, FramePtr frame) {
  remembered_[place_of(part)] = std::move(frame);
}

KeptFrames& FrameArchive::largest() {
  return *std::ranges::max_element(kept_, {}, &KeptFrames::bytes);
}

std::size_t FrameArchive::bytes() const {
  std::size_t bytes = 0;
  for (const KeptFrames& part : kept_) bytes += part.bytes();
  return bytes;
}

}  // namespace moescope
