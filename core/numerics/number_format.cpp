#include "core/numerics/number_format.h"

#include <algorithm>
#include <cassert>

namespace moescope {
namespace {

constexpr const char* kRuleNames[] = {"floor", "rceil", "even", "ceil"};
constexpr const char* kGranularityNames[] = {"tensor", "row", "1x128", "128x128"};  // by ScaleGranularity

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
  if (scaling.scale_bound != 448) name += '_' + std::to_string(scaling.scale_bound);
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

}  // namespace

std::optional<ScaleRule> scale_rule_named(std::string_view name) {
  const auto found = std::ranges::find(kRuleNames, name);
  if (found == std::end(kRuleNames)) return std::nullopt;
  return static_cast<ScaleRule>(found - std::begin(kRuleNames));
}

const char* scale_rule_name(ScaleRule rule) {
  return kRuleNames[static_cast<int>(rule)];
}

const char* granularity_name(ScaleGranularity granularity) {
  return kGranularityNames[static_cast<int>(granularity)];
}

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
  return is_scaled(format) ? traits(format.element).name : format.scheme == QuantScheme::fp32 ? "fp32" : "bf16";
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

}  // namespace moescope
