// Explanations of figures of a quantized operand.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/files/text/words.h"
#include "core/findings/explain/explain_parts.h"

namespace moescope::explaining {

const QuantFrame* find_quant(const TelemetryFrame& frame, const FigureTarget& target) {
  for (const QuantFrame& quant : frame.quants)
    if (target.quant ? *target.quant == quant : target.layer == kWholeRun || quant.layer == target.layer) return &quant;
  return nullptr;
}

namespace {

double blocks_of(const QuantFrame& quant) {
  double blocks = 0;
  for (const std::uint32_t n : quant.e8m0_blocks) blocks += n;
  return blocks;
}

Parts sqnr(const Context& at, const QuantFormat& format) {
  if (std::isinf(at.value)) return {"", "exact: the format represents every value"};
  Parts parts{"-20 * log10(" + num(std::pow(10.0, -at.value / 20)) + ")", "the relative error ||x - q|| / ||x||"};
  const double bell = bell_sqnr_db(format);
  if (std::isfinite(bell) && format.scale != QuantScale::unknown)
    parts.note += "; bell-shaped data have about " + decimal(bell, 3) + " dB in this format";
  return parts;
}

// Blocks at the end of a row may be shorter, so the number of blocks gives an upper limit of the number of values.
Parts clipped_values(const Context& at, const QuantFormat& format, double blocks) {
  const std::string what = "share of all values that are beyond the largest number after scaling";
  if (format.block == 0 || blocks <= 0 || at.value <= 0) return plain(at, what);
  const double values = blocks * format.block;
  return plain(at, fmt::format("{}; about {} of the {} that {} blocks of {} contain at most", what,
                               decimal(at.value * values, 3), grouped(static_cast<std::int64_t>(values)),
                               grouped(static_cast<std::int64_t>(blocks)), format.block));
}

Parts commonest_scale(Context& at, const QuantFrame& quant, const QuantFormat& format) {
  const auto commonest = std::ranges::max_element(quant.e8m0_blocks);
  const auto byte = commonest - quant.e8m0_blocks.begin();
  const std::string power = fmt::format("2^{}", byte - 127);
  at.value = *commonest;
  std::string scale = fmt::format("most frequent scale, {} (byte {})", power, byte);
  if (byte == 255)
    scale = "most frequent scale, NaN";
  else if (format.scale != QuantScale::power_of_two)
    scale = fmt::format("most frequent scales, from {} to under 2^{}", power, byte - 126);
  return plain(at, "blocks with the " + scale + ", of " + grouped(static_cast<std::int64_t>(blocks_of(quant))));
}

Parts crest(const Context& at, const QuantFormat& format) {
  if (format.block == 0)
    return plain(
        at,
        "mean over sets of values that share a scale; n equal values give 1, a single non-zero value gives sqrt(n)");
  const std::string n = std::to_string(format.block);
  return plain(at, "mean over blocks; " + n + " equal values give 1, a single non-zero value gives sqrt(" + n +
                       ") = " + decimal(std::sqrt(format.block), 3));
}

}  // namespace

Parts quant_parts(Context& at, const QuantFrame& quant) {
  const FigureKey key = at.target.key;
  const QuantFormat& format = quant.format;
  const double blocks = blocks_of(quant);
  if (key == "sqnr_db") return sqnr(at, format);
  if (key == "relative_l2") {
    if (std::isinf(quant.sqnr_db)) return plain(at, "exact");
    return {"10 ^ (-" + num(quant.sqnr_db) + " / 20)", "from the SQNR in dB"};
  }
  if (key == "cosine") return angle(at, "between the tensor before and after quantization");
  if (key == "clipped_blocks" && blocks > 0)
    return {num(std::round(at.value * blocks)) + " / " + num(blocks), "blocks with a clipped value, of all blocks"};
  if (key == "clipped") return clipped_values(at, format, blocks);
  if (key == "e8m0_blocks") return commonest_scale(at, quant, format);
  if (key == "amax") return plain(at, "the largest absolute value of the tensor, over all its blocks");
  if (key == "crest") return crest(at, format);
  return plain(at, key == "underflow" ? "share of the non-zero values that became zero" : "share of all values");
}

}  // namespace moescope::explaining
