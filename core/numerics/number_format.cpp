#include "core/numerics/number_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

namespace moescope {
namespace {

constexpr NamedFormat kFormats[] = {
    {"fp32", {}, true},
    {"bf16", kBf16Format, true},
    {"mxfp8_e4m3", mx_format(ElementFormat::e4m3), true},
    {"mxfp8_e5m2", mx_format(ElementFormat::e5m2), true},
    {"mxfp6_e2m3", mx_format(ElementFormat::e2m3), true},
    {"mxfp6_e3m2", mx_format(ElementFormat::e3m2), true},
    {"mxfp4_e2m1", mx_format(ElementFormat::e2m1), true},
    {"mxint8", mx_format(ElementFormat::int8), false},
    {"nvfp4", kNvfp4Format, true},
    {"fp8_tensor", fp8_format(ScaleGranularity::tensor), false},
    {"fp8_row", fp8_format(ScaleGranularity::row), false},
    {"fp8_1x128", fp8_format(ScaleGranularity::block_1x128), false},
    {"fp8_128x128", fp8_format(ScaleGranularity::block_128x128), false},
};

// Returns "nvfp4" with a suffix for each difference from the default scaling.
std::string nvfp4_name(const Nvfp4Scaling& scaling) {
  constexpr const char *kRules[] = {"", "_te", "_ao", "_ao1"}, *kErrors[] = {"", "_4over6_mae", "_4over6_mse"};
  std::string name = std::string("nvfp4") + kRules[static_cast<int>(scaling.rule)];
  if (scaling.square) name += "_16x16";
  name += kErrors[static_cast<int>(scaling.four_over_six)];
  if (scaling.scale_bound != 448) name += fmt::format("_{}", scaling.scale_bound);
  return name;
}

std::string name_without_rounding(const OperandFormat& format) {
  switch (format.scheme) {
    case QuantScheme::mx:
      assert(format.block == 32);
      return std::string(find_format(mx_format(format.element))->name) + '_' + scale_rule_name(format.rule);
    case QuantScheme::fp8:
      return std::string("fp8_") + element_name(format) + '_' + granularity_name(format.granularity);
    case QuantScheme::nvfp4:
      return nvfp4_name(format.nvfp4);
    case QuantScheme::fp32:
    case QuantScheme::bf16:
      break;
  }
  return element_name(format);
}

constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

struct ElementFigures {
  double sqnr_db[4];  // for bell-shaped data in MX, in the order of ScaleRule
  double underflow;   // for MX with RCEIL
  double by_128 = 0;  // gain of FP8 by an FP32 scale for each 1 x 128, dB
};
constexpr ElementFigures kElementFigures[] = {
    {{30.6, 31.5, 31.2, 31.5}, 0, 0.28}, {{25.4, 25.6, 25.6, 25.6}, 0, 0.2},  // e4m3, e5m2
    {{25.4, 25.6, 25.6, 25.6}, 0.003},   {{30.9, 30.9, 31.0, 28.8}, 0.023},   // e3m2, e2m3
    {{18.8, 18.8, 19.0, 16.8}, 0.107},   {{41.7, 41.6, 41.7, 35.7}, 0.011}};  // e2m1, int8
static_assert(std::size(kElementFigures) == kNumElementFormats, "every element format has its figures");
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

const ElementFigures& figures_of(ElementFormat element) {
  return kElementFigures[static_cast<int>(element)];
}

// Returns all formats that format_name() tells apart, rounded to nearest.
std::vector<OperandFormat> distinct_formats() {
  std::vector<OperandFormat> formats = {{}, kBf16Format};
  for (int element = 0; element < kNumElementFormats; ++element)
    for (int rule = 0; rule < 4; ++rule)
      formats.push_back(mx_format(static_cast<ElementFormat>(element), static_cast<ScaleRule>(rule)));
  for (const ElementFormat element : {ElementFormat::e4m3, ElementFormat::e5m2})
    for (int granularity = 0; granularity < 4; ++granularity)
      formats.push_back(fp8_format(static_cast<ScaleGranularity>(granularity), element));
  for (int rule = 0; rule < 4; ++rule)
    for (const bool square : {false, true})
      for (const FourOverSix choice : {FourOverSix::off, FourOverSix::mae, FourOverSix::mse})
        for (const int bound : {448, 256}) {
          formats.push_back(kNvfp4Format);
          formats.back().nvfp4 = {static_cast<Nvfp4Rule>(rule), square, choice, bound};
        }
  return formats;
}

// Returns the number of values that share a scale in a full block; 0: no scale, or a whole row or tensor.
int shared_values(const OperandFormat& format) {
  if (format.scheme == QuantScheme::mx) return format.block;
  if (format.scheme == QuantScheme::nvfp4) return format.nvfp4.square ? 16 * 16 : 16;
  if (format.scheme != QuantScheme::fp8) return 0;
  if (format.granularity == ScaleGranularity::block_1x128) return 128;
  return format.granularity == ScaleGranularity::block_128x128 ? 128 * 128 : 0;
}

double nvfp4_figure(const double (&figures)[2][2], const Nvfp4Scaling& scaling) {
  return figures[scaling.square][scaling.four_over_six != FourOverSix::off];
}

double nvfp4_sqnr(const OperandFormat& format) {
  const Nvfp4Scaling& scaling = format.nvfp4;
  double lost = 0;
  if (format.rounding == Rounding::stochastic) {
    lost = scaling.square ? kStochasticCosts : kStochasticCostsNvfp4;
    if (!scaling.square && scaling.four_over_six != FourOverSix::off) lost += kStochasticCosts4over6;
  }
  return nvfp4_figure(kNvfp4Sqnr, scaling) - lost;
}

double sqnr_by(const QuantFormat& format, ScaleRule rule) {
  if (!format.element) return kNoFigure;
  if (format.scale == QuantScale::e4m3) return nvfp4_sqnr(*format.operand);
  const ElementFigures& figures = figures_of(*format.element);
  const bool by_128 = format.scale == QuantScale::fp32 && format.block == 128;
  const bool stochastic = format.operand && format.operand->rounding == Rounding::stochastic;
  return figures.sqnr_db[static_cast<int>(rule)] + (by_128 ? figures.by_128 : 0) - (stochastic ? kStochasticCosts : 0);
}

}  // namespace

std::span<const NamedFormat> named_formats() {
  return kFormats;
}

const NamedFormat* find_format(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &NamedFormat::name);
  return found == std::end(kFormats) ? nullptr : found;
}

const NamedFormat* find_format(const OperandFormat& format) {
  const auto found = std::ranges::find(kFormats, format, &NamedFormat::format);
  return found == std::end(kFormats) ? nullptr : found;
}

std::string format_name(const OperandFormat& format) {
  const bool drawn = format.rounding == Rounding::stochastic && format.scheme != QuantScheme::fp32;
  return name_without_rounding(format) + (drawn ? "_stochastic" : "");
}

const char* element_name(const OperandFormat& format) {
  if (is_scaled(format)) return traits(format.element).name;
  if (format.scheme == QuantScheme::fp32) return "fp32";
  return "bf16";
}

double bits_per_value(const OperandFormat& format) {
  const double element = traits(format.element).bits;
  switch (format.scheme) {
    case QuantScheme::fp32:
      return 32;
    case QuantScheme::bf16:
      return 16;
    case QuantScheme::mx:
    case QuantScheme::nvfp4:
      return element + 8.0 / block_size(format);
    case QuantScheme::fp8:
      break;
  }
  if (format.granularity == ScaleGranularity::block_1x128) return element + 32.0 / 128;
  if (format.granularity == ScaleGranularity::block_128x128) return element + 32.0 / (128 * 128);
  return element;
}

QuantFormat quant_format(const OperandFormat& format) {
  constexpr QuantScale kScales[] = {QuantScale::none, QuantScale::none, QuantScale::fp32, QuantScale::power_of_two,
                                    QuantScale::e4m3};  // by QuantScheme
  QuantFormat known{kScales[static_cast<int>(format.scheme)], format, {}, shared_values(format)};
  if (is_scaled(format)) known.element = format.element;
  known.operand->power_of_two_scale = false;
  known.operand->hadamard = 0;
  known.operand->rotation = RotationForm::drawn;
  known.name = format_name(format);
  return known;
}

namespace {

using FormatsByName = std::map<std::string, QuantFormat, std::less<>>;

const FormatsByName& formats_by_name() {
  static const FormatsByName formats = [] {
    FormatsByName found;
    for (const OperandFormat& format : distinct_formats())
      for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
        OperandFormat rounded = format;
        if (format.scheme != QuantScheme::fp32) rounded.rounding = rounding;
        found.emplace(format_name(rounded), quant_format(rounded));
      }
    for (const NamedFormat& named : named_formats()) found.emplace(named.name, quant_format(named.format));
    found.emplace("fp8_tensorwise", quant_format(fp8_format(ScaleGranularity::tensor)));  // torchao's name
    return found;
  }();
  return formats;
}

}  // namespace

QuantFormat quant_format(std::string_view name) {
  const auto found = formats_by_name().find(name);
  if (found != formats_by_name().end()) return found->second;
  QuantFormat unknown;
  unknown.element = element_named(name);
  unknown.name = name;
  return unknown;
}

double bell_sqnr_db(const QuantFormat& format) {
  return sqnr_by(format, format.operand ? format.operand->rule : ScaleRule::rceil);
}

double bell_sqnr_db_by_rceil(const QuantFormat& format) {
  return sqnr_by(format, ScaleRule::rceil);
}

double bell_underflow(const QuantFormat& format) {
  if (!format.element) return kNoFigure;
  if (format.scale == QuantScale::e4m3) return nvfp4_figure(kNvfp4Underflow, format.operand->nvfp4);
  return figures_of(*format.element).underflow;
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
  const FormatTraits& element = traits(*format.element);
  const double significand = std::ldexp(element.max, -element.emax);  // of the largest number
  switch (format.operand->rule) {
    case ScaleRule::floor:
      return 1 - significand / 2;
    case ScaleRule::even:
      // EVEN raises the scale if amax's significand is at least the midpoint between 2 and the largest significand that
      // has the format's mantissa bits.
      return 1 - significand / (2 - std::ldexp(1.0, -element.mantissa_bits - 1));
    case ScaleRule::rceil:
    case ScaleRule::ceil:
      break;
  }
  return 0;
}

}  // namespace moescope
