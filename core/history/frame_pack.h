// Parts of a frame as the history keeps them: a tenth of their size in memory, restored bit for bit.
//
// Counts take 1, 2 or 4 bytes each as the largest of their vector needs; E8M0 histograms only the occupied range.
// The bytes live in this process only; the format on disk is the recording's (schema.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/frame/frame.h"
#include "core/frame/operand_place.h"

namespace moescope {

// Arrays that come together, at a cadence of their own. The routers have the volumes and the wire, the gradients the
// flips against FP32; the last three are texts, of which a frame has at most one of a kind.
enum class FramePart { routers, quants, flips, gradients, specialisation, probe, sample, batch };
inline constexpr std::size_t kNumFrameParts = 8;
FramePart text_part(TextKind kind);
const TokenFrame* find_text(const TelemetryFrame& frame, TextKind kind);  // nullptr: it has none

using PackedFrame = std::vector<std::uint8_t>;
std::optional<PackedFrame> pack(const TelemetryFrame& frame, FramePart part);  // with the scalars; nothing: it has none
void unpack(const PackedFrame& packed, FramePart part, TelemetryFrame& frame);  // adds a text to the frame's

// One row out of a part, without unpacking the others; nothing: it is not there.
std::optional<RouterFrame> unpack_router(const PackedFrame& routers, int layer);
std::optional<QuantFrame> unpack_quant(const PackedFrame& quants, const OperandPlace& place);
std::optional<SpecialisationFrame> unpack_specialisation(const PackedFrame& specialisation, int layer);

}  // namespace moescope
