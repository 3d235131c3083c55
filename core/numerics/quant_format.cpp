#include "core/numerics/quant_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace moescope {
namespace {

constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

constexpr std::array<std::string_view, 4> kRules = {"floor", "rceil", "even", "ceil"};
constexpr std::size_t kRceil = 1;

struct Element {
  std::string_view name;
  double largest;                 // significand of the largest number, in [1, 2)
  int mantissa_bits;              // mantissa bits of the number to which EVEN rounds amax
  std::array<double, 4> sqnr_db;  // for bell-shaped data in MX, in the order of kRules
  double underflow;               // for MX with RCEIL
  double by_128 = 0;              // gain of FP8 by an FP32 scale for each 1 x 128, dB
};
constexpr Element kElements[] = {{"e4m3", 1.75, 3, {30.6, 31.5, 31.2, 31.5}, 0, 0.28},
                                 {"e5m2", 1.75, 2, {25.4, 25.6, 25.6, 25.6}, 0, 0.2},
                                 {"e2m3", 1.875, 3, {30.9, 30.9, 31.0, 28.8}, 0.023},
                                 {"e3m2", 1.75, 2, {25.4, 25.6, 25.6, 25.6}, 0.003},
                                 {"e2m1", 1.5, 1, {18.8, 18.8, 19.0, 16.8}, 0.107}};
// First index: whether squares of 16x16 share a scale. Second index: whether 4over6 is used. With squares 4over6 gains
// nothing, because the best scale for one row is not the best for another.
constexpr double kNvfp4Sqnr[2][2] = {{20.4, 21.15}, {19.07, 19.07}};
constexpr double kNvfp4Underflow[2][2] = {{0.068, 0.079}, {0.100, 0.101}};
// SQNR that stochastic rounding costs, dB. Stochastic rounding doubles the squared error of rounding, but not that of
// clipping, so that it costs FLOOR in E4M3 only 2.5 dB.
constexpr double kStochasticCosts = 3.0;
// SQNR that stochastic rounding costs NVFP4 with 16 values per scale, dB. The block's largest value is rounded as well,
// because the scale is no power of two.
constexpr double kStochasticCostsNvfp4 = 3.2;
constexpr double kStochasticCosts4over6 =
    0.4;  // additional cost, dB: 4over6 chooses by the errors of rounding to nearest

const Element* find_element(std::string_view name) {
  const auto found = std::ranges::find(kElements, name, &Element::name);
  return found == std::end(kElements) ? nullptr : found;
}

// Splits at underscores; returns at least one word.
std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  for (std::size_t from = 0, to = 0; to != name.npos; from = to + 1) {
    to = name.find('_', from);
    words.emplace_back(name.substr(from, to - from));
  }
  return words;
}

int block_of_fp8(std::string_view share) {
  return share == "1x128" ? 128 : share == "128x128" ? 128 * 128 : 0;
}

double nvfp4_figure(const double (&figures)[2][2], const QuantFormat& format) {
  return figures[format.block == 256][format.rule == "4over6"];
}

double sqnr_by(const QuantFormat& format, std::size_t rule) {
  double lost = format.stochastic ? kStochasticCosts : 0;
  if (format.scale == QuantScale::e4m3) {
    if (format.stochastic && format.block == 16)
      lost = kStochasticCostsNvfp4 + (format.rule == "4over6" ? kStochasticCosts4over6 : 0);
    return nvfp4_figure(kNvfp4Sqnr, format) - lost;
  }
  const Element* element = find_element(format.element);
  if (!element) return kNoFigure;
  const bool by_128 = format.scale == QuantScale::fp32 && format.block == 128;
  return element->sqnr_db[rule] + (by_128 ? element->by_128 : 0) - lost;
}

}  // namespace

QuantFormat quant_format(std::string_view name) {
  QuantFormat format;
  const std::vector<std::string_view> words = words_of(name);
  format.stochastic = words.back() == "stochastic";
  const std::string_view first = words[0], second = words.size() > 1 ? words[1] : "",
                         third = words.size() > 2 ? words[2] : "";
  if (first == "bf16" || first == "fp32") {
    format.scale = QuantScale::none;
  } else if (first == "nvfp4") {
    const auto says = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
    format = {QuantScale::e4m3, "e2m1", says("4over6") ? "4over6" : "", says("16x16") ? 256 : 16, format.stochastic};
  } else if (first.starts_with("mx") && find_element(second)) {
    format = {QuantScale::power_of_two, std::string(second), std::string(third), 32, format.stochastic};
  } else if (first == "fp8" && find_element(second)) {
    format = {QuantScale::fp32, std::string(second), "", block_of_fp8(third), format.stochastic};
  } else if (find_element(first)) {
    format.element = first;
  }
  return format;
}

double bell_sqnr_db(const QuantFormat& format) {
  const auto rule = std::ranges::find(kRules, format.rule);
  return sqnr_by(format, rule == kRules.end() ? kRceil : static_cast<std::size_t>(rule - kRules.begin()));
}

double bell_sqnr_db_by_rceil(const QuantFormat& format) {
  return sqnr_by(format, kRceil);
}

double bell_underflow(const QuantFormat& format) {
  if (format.scale == QuantScale::e4m3) return nvfp4_figure(kNvfp4Underflow, format);
  const Element* element = find_element(format.element);
  return element ? element->underflow : kNoFigure;
}

double largest_cut(const QuantFormat& format) {
  switch (format.scale) {
    case QuantScale::none:
    case QuantScale::fp32:
      return 0;
    case QuantScale::e4m3:
      // A block scale of 1 + 1/16 is a tie and rounds to the even 1: amax is then 6 x 17/16 in units of the scale, and
      // becomes 6.
      return 1.0 / 17;
    case QuantScale::power_of_two:
      break;
    case QuantScale::unknown:
      return kNoFigure;
  }
  const Element& element = *find_element(format.element);
  if (format.rule == "floor") return 1 - element.largest / 2;
  // EVEN raises the scale if amax's significand is at least the midpoint between 2 and the largest significand that has
  // the format's mantissa bits.
  if (format.rule == "even") return 1 - element.largest / (2 - std::ldexp(1.0, -element.mantissa_bits - 1));
  return format.rule == "rceil" || format.rule == "ceil" ? 0 : kNoFigure;
}

}  // namespace moescope
