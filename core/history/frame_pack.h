// Frames as the history keeps them: a tenth of their size in memory, restored bit for bit.
//
// Counts take 1, 2 or 4 bytes each as the largest of their vector needs; E8M0 histograms only the occupied range.
// The bytes live in this process only; the format on disk is the recording's (schema.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/frame/frame.h"
#include "core/frame/operand_place.h"

namespace moescope {

using PackedFrame = std::vector<std::uint8_t>;

PackedFrame pack_routers(const TelemetryFrame& frame);                       // scalars and routers
PackedFrame pack_quants(const TelemetryFrame& frame);                        // scalars and quants
PackedFrame pack_flips(const TelemetryFrame& frame);                         // scalars and flips
PackedFrame pack_gradients(const TelemetryFrame& frame);                     // scalars and gradients
PackedFrame pack_specialisation(const TelemetryFrame& frame);                // scalars and specialisation
PackedFrame pack_text(const TelemetryFrame& frame, const TokenFrame& text);  // scalars and one of the frame's texts
void unpack_routers(const PackedFrame& packed, TelemetryFrame& frame);
void unpack_quants(const PackedFrame& packed, TelemetryFrame& frame);
void unpack_flips(const PackedFrame& packed, TelemetryFrame& frame);
void unpack_gradients(const PackedFrame& packed, TelemetryFrame& frame);
void unpack_specialisation(const PackedFrame& packed, TelemetryFrame& frame);
void unpack_text(const PackedFrame& packed, TelemetryFrame& frame);  // adds it to the frame's

// One layer out of pack_specialisation; false: it is not there.
bool unpack_specialisation_of(const PackedFrame& packed, int layer, SpecialisationFrame& special);

// The expert_bias of one layer out of pack_routers; false: the layer is not there or has none.
bool unpack_bias(const PackedFrame& packed, int layer, std::vector<float>& bias);

// Writes to `counts` [256] the scale histogram of one operand out of pack_quants; false: it is not there.
bool unpack_scales(const PackedFrame& packed, const OperandPlace& place, std::uint32_t* counts);

}  // namespace moescope
