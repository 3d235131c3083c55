// Figures of a quantized operand, taken apart.
#include <cmath>

#include "core/telemetry/explain_parts.h"
#include "core/telemetry/words.h"

namespace moescope::explaining {

const QuantFrame* find_quant(const TelemetryFrame& frame, const FigureTarget& target) {
  for (const QuantFrame& quant : frame.quants) {
    if (target.quant ? place_of(quant) == *target.quant : target.layer == kWholeRun || quant.layer == target.layer) {
      return &quant;
    }
  }
  return nullptr;
}

namespace {

Parts counted_share(double share, double of, const std::string& what) {
  return {num(std::round(share * of)) + " / " + num(of), what};
}

}  // namespace

Parts quant_parts(Context& at, const QuantFrame& quant) {
  const std::string& key = at.target.key;
  double blocks = 0;
  int commonest = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const std::uint32_t n = quant.e8m0_blocks[static_cast<std::size_t>(byte)];
    blocks += n;
    if (n > quant.e8m0_blocks[static_cast<std::size_t>(commonest)]) commonest = byte;
  }
  if (key == "sqnr_db") {
    if (std::isinf(at.value)) return {"", "exact: the format holds every value"};
    return {"-20 * log10(" + num(std::pow(10.0, -at.value / 20)) + ")", "the relative error ||x - q|| / ||x||"};
  }
  if (key == "relative_l2") {
    if (std::isinf(quant.sqnr_db)) return plain(at, "exact");
    return {"10 ^ (-" + num(static_cast<double>(quant.sqnr_db)) + " / 20)", "from the SQNR in dB"};
  }
  if (key == "cosine") return angle(at, "between the tensor before and after");
  if (key == "clipped_blocks" && blocks > 0)
    return counted_share(at.value, blocks, "blocks with a clipped value, of all blocks");
  if ((key == "underflow" || key == "clipped") && blocks > 0) {
    const std::string what = key == "underflow" ? "values became zero" : "values are beyond the largest number";
    return plain(at,
                 "about " + decimal(at.value * blocks * 32, 3) + " of some " + decimal(blocks * 32, 3) + " " + what);
  }
  if (key == "e8m0_blocks") {
    at.value = quant.e8m0_blocks[static_cast<std::size_t>(commonest)];
    return plain(at, "blocks with the commonest scale, 2^" + std::to_string(commonest - 127) + " (byte " +
                         std::to_string(commonest) + "), of " + grouped(static_cast<std::int64_t>(blocks)));
  }
  if (key == "amax") return plain(at, "the largest absolute value of the tensor, all its blocks");
  if (key == "crest") return plain(at, "mean over blocks; 32 equal values give 1, a lone one sqrt(32) = 5.66");
  return plain(at, key == "underflow" ? "share of the values that are not zero" : "share of all values");
}

}  // namespace moescope::explaining
