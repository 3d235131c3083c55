// Blocks of an operand that another program's training sampled on its device (assets/python/moescope_blocks.py).
//
// They are a marker of kind kOperandsMarker at their step, whose key is place_text() of the operand and whose text is
// JSON: {"format": name (number_format.h), "stored": true if the values are decoded codes, "what_if": {"<format>": SQNR
// of the whole operand, dB}, "cols": values of a row, "dtype": "f32" or "bf16", "values": base64url of the rows,
// little-endian}. A row is a block with the blocks before and after it along the contracting dimension. The first row
// holds the operand's largest value, so that a scale for the whole tensor follows from the rows.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/frame/frame.h"
#include "core/model/layers/operand_tap.h"

namespace moescope {

struct SampledBlocks {
  std::shared_ptr<const CapturedOperand> operand;  // rows one below the other; format fp32 if the name is not known
  bool is_stored = false;                          // the values are decoded codes, whose errors are not known
  std::vector<std::pair<std::string, double>> other_sqnr_db;  // of the whole operand in further formats
};

// Returns the sample of an operand at a step; nullopt if there is none, or if its text cannot be read.
std::optional<SampledBlocks> sampled_blocks(std::span<const Marker> markers, const RunInfo& run,
                                            const OperandPlace& place, std::int64_t step);

}  // namespace moescope
