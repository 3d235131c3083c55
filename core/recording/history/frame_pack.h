// Packs the parts of a frame for the history, to a tenth of their size in memory. Unpacking restores every bit.
//
// Counts take 1, 2 or 4 bytes each, depending on the largest of their vector; E8M0 histograms store the occupied range
// only. Packed bytes never leave this process; schema.h describes the format on disk.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/frame/frame.h"
#include "core/numerics/gemm_operand.h"

namespace moescope {

// Arrays that are recorded together and have their own cadence. The part `routers` includes the all-to-all volumes and
// the wire; `gradients` includes the flips against FP32 and the roundings of the router. The last three are texts; a
// frame has at most one text of a kind.
enum class FramePart { routers, quants, flips, gradients, specialisation, probe, sample, batch };
inline constexpr std::size_t kNumFrameParts = 8;
FramePart text_part(TextKind kind);
const TokenFrame* find_text(const TelemetryFrame& frame, TextKind kind);  // nullptr if the frame has no such text

using PackedFrame = std::vector<std::uint8_t>;
// Packs a part and the scalars; nullopt if the frame does not have the part.
std::optional<PackedFrame> pack(const TelemetryFrame& frame, FramePart part);
void unpack(const PackedFrame& packed, FramePart part, TelemetryFrame& frame);  // a text is added to frame's texts

// Unpacks one row of a part, without the others; nullopt if the part does not have the row.
std::optional<RouterFrame> unpack_router(const PackedFrame& routers, int layer);
std::optional<QuantFrame> unpack_quant(const PackedFrame& quants, const OperandPlace& place);
std::optional<SpecialisationFrame> unpack_specialisation(const PackedFrame& specialisation, int layer);

}  // namespace moescope
