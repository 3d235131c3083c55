#include "core/numerics/block_anatomy.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

#include "core/numerics/quantize.h"
#include "core/numerics/rng.h"

namespace moescope {
namespace {

constexpr std::uint32_t kInfinityBits = 0x7F800000;

std::string number(double value) {
  return fmt::format("{:.7g}", value);
}

std::string power(int exponent) {
  return fmt::format("2^{}", exponent);
}

// "1.7578125 x 2^0"
std::string scientific(float value) {
  int exponent = 0;
  const double significand = 2 * std::frexp(value, &exponent);
  return number(significand) + " x " + power(exponent - 1);
}

std::string named(ElementFormat format) {
  std::string name = traits(format).name;
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

CodeKind kind_of(ElementFormat format, int exponent, int mantissa, float value) {
  if (std::isnan(value)) return CodeKind::nan;
  if (std::isinf(value)) return CodeKind::infinity;
  if (value == 0) return CodeKind::zero;
  return format != ElementFormat::int8 && exponent == 0 && mantissa != 0 ? CodeKind::subnormal : CodeKind::normal;
}

std::string formula_of(ElementFormat format, const CodeFields& c) {
  const FormatTraits& f = traits(format);
  const std::string sign = c.sign ? "- " : "+ ";
  const int steps = 1 << f.mantissa_bits;
  if (format == ElementFormat::int8)
    return fmt::format("{} / 64 = {}", static_cast<std::int8_t>(c.code), number(c.value));
  if (c.kind == CodeKind::nan) return "NaN";
  if (c.kind == CodeKind::infinity) return sign + "infinity";
  if (c.kind == CodeKind::zero) return sign + "0";
  const std::string fraction = fmt::format("{}/{}", c.mantissa, steps);
  const std::string bias = fmt::format(" - {})", f.bias);
  return c.kind == CodeKind::subnormal
             ? sign + "2^(1" + bias + " x " + fraction + " = " + number(c.value)
             : fmt::format("{}2^({}{} x (1 + {}) = {}", sign, c.exponent, bias, fraction, number(c.value));
}

std::vector<float> make_values(ElementFormat format) {
  std::vector<float> values;
  for (int code = 0; code < 1 << traits(format).bits; ++code) {
    const float value = decode(format, static_cast<std::uint8_t>(code));
    if (std::isfinite(value) && !(value == 0 && std::signbit(value))) values.push_back(value);
  }
  std::sort(values.begin(), values.end());
  return values;
}

std::string byte_sentence(std::uint8_t code) {
  if (code == 255) return "byte 255: NaN, the whole block decodes to NaN";
  return fmt::format("byte {}, scale {} = {}", code, power(code - 127), number(decode_e8m0(code)));
}

void describe_floor(const FormatTraits& f, int exponent, std::vector<std::string>& lines) {
  lines.push_back(fmt::format("FLOOR: the exponent of amax minus emax = {} of the format: k = {} - {} = {}", f.emax,
                              exponent, f.emax, exponent - f.emax));
}

void describe_ceil(const FormatTraits& f, float amax, int exponent, std::vector<std::string>& lines) {
  const bool power_of_two = (std::bit_cast<std::uint32_t>(amax) & 0x7FFFFF) == 0;
  const int raised = exponent + !power_of_two;
  lines.push_back(fmt::format("CEIL: amax is {}a power of two, so its exponent {}{}; minus emax = {}: k = {}",
                              power_of_two ? "" : "not ", power_of_two ? "stays " : "is raised to ", raised, f.emax,
                              raised - f.emax));
}

void describe_even(const FormatTraits& f, float amax, int exponent, std::vector<std::string>& lines) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(amax) + (1u << (22 - f.mantissa_bits));
  const int carried = static_cast<int>(bits >> 23) - 127;
  const double significand = std::ldexp(amax, -exponent);
  const double half_unit = std::ldexp(1.0, -f.mantissa_bits - 1);
  lines.push_back(fmt::format(
      "EVEN: amax is rounded to the {} mantissa bits of the format: {} + {} = {}{}{}; minus emax = {}: k = {}",
      f.mantissa_bits, number(significand), number(half_unit), number(significand + half_unit),
      carried > exponent ? " reaches 2, so the exponent is raised to " : " stays below 2, so the exponent stays ",
      carried, f.emax, carried - f.emax));
}

void describe_rceil(const FormatTraits& f, float amax, std::uint8_t code, std::vector<std::string>& lines) {
  const float ratio = amax * (1.0f / f.max);
  lines.push_back("RCEIL: amax / max = " + number(amax) + " / " + number(f.max) + " = " + scientific(ratio));
  if (code == 255) return;
  const bool exact = ratio == decode_e8m0(code);
  lines.push_back(fmt::format(
      "{}{}", exact ? "is a power of two already: 2^" : "rounds up to the next power of two: 2^", code - 127));
}

std::vector<std::string> derive_mx(const BlockAnatomy& block, std::span<const float> values) {
  const FormatTraits& f = traits(block.format.element);
  if (block.amax_at < 0) return {"all values are 0: amax = 0", byte_sentence(0) + "; every code is 0"};
  const std::string element = fmt::format("element {}", block.amax_at);
  if (!std::isfinite(block.amax)) {
    const bool nan = std::isnan(values[block.amax_at]);
    return {element + (nan ? " is NaN" : " is infinite") + ": the block has no scale", byte_sentence(255)};
  }
  std::vector<std::string> lines = {"amax = |" + element + "| = " + number(block.amax) + " = " +
                                    scientific(block.amax)};
  // The rules use the exponent field, which is 0 for subnormals.
  const int exponent = static_cast<int>(std::bit_cast<std::uint32_t>(block.amax) >> 23) - 127;
  switch (block.format.rule) {
    case ScaleRule::floor:
      describe_floor(f, exponent, lines);
      break;
    case ScaleRule::ceil:
      describe_ceil(f, block.amax, exponent, lines);
      break;
    case ScaleRule::even:
      describe_even(f, block.amax, exponent, lines);
      break;
    case ScaleRule::rceil:
      describe_rceil(f, block.amax, block.scale.code, lines);
      break;
  }
  lines.push_back((block.scale.code == 0 ? "the smallest E8M0 scale: " : "") + byte_sentence(block.scale.code));
  if (block.scale.code == 255) return lines;
  const float top = block.amax * decode_e8m0(static_cast<std::uint8_t>(254 - block.scale.code));
  const bool clips = top > f.max;
  lines.push_back("amax / scale = " + number(top) + (clips ? " > " : " <= ") + number(f.max) + ", the largest " +
                  named(block.format.element) + (clips ? ": it clips" : ": nothing clips"));
  return lines;
}

// Returns the code of the scaled value, rounded to nearest, ties to even, or stochastically to one of its neighbours.
std::uint8_t encode_scaled(const OperandFormat& format, const ElementAnatomy& e, double uniform) {
  if (format.rounding == Rounding::nearest || !std::isfinite(e.scaled)) return encode(format.element, e.scaled);
  const float chosen = uniform < e.probability_up ? e.grid.above : e.grid.below;
  return encode(format.element, std::copysign(chosen, e.scaled));
}

void add_element(QuantSums& sums, const ElementAnatomy& e) {
  const double x = e.value, q = e.dequantized;
  sums.x2 += x * x;
  sums.q2 += q * q;
  sums.xq += x * q;
  sums.err2 += e.error * e.error;
  sums.underflow += e.underflow;
  sums.clipped += e.clipped;
}

void find_amax(BlockAnatomy& block, std::span<const float> values) {
  std::uint32_t largest_bits = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFF;
    if (std::min(bits, kInfinityBits) > std::min(largest_bits, kInfinityBits)) block.amax_at = to_int(i);
    largest_bits = std::max(largest_bits, bits);
  }
  block.amax = std::bit_cast<float>(largest_bits);
}

// Returns the scaled magnitude above which a value counts as clipped. The rounding of a reciprocal may lift the scaled
// amax above the largest element by an ulp or two, which does not count.
float clip_limit(const OperandFormat& format) {
  const bool reciprocal = format.scheme == QuantScheme::nvfp4 && format.nvfp4.rule != Nvfp4Rule::divided;
  return traits(format.element).max * (reciprocal ? 1 + 0x1p-20f : 1.0f);
}

// Returns the number that is rounded to the block's scale, and writes its derivation to `lines`.
float nvfp4_wanted(const BlockAnatomy& block, float tensor_amax, std::vector<std::string>& lines) {
  const Nvfp4Scaling& scaling = block.format.nvfp4;
  const std::string amax =
      block.amax_at < 0 ? std::string("all values are 0: amax = 0")
                        : fmt::format("amax of the block = |element {}| = {}", block.amax_at, number(block.amax));
  const Nvfp4TensorScale tensor = nvfp4_tensor(scaling, tensor_amax);
  switch (scaling.rule) {
    case Nvfp4Rule::transformer_engine:
      lines = {"tensor amax = " + number(tensor_amax) + ": e = 448 x 6 / amax = " + scientific(tensor.encode), amax,
               "amax x (e / 6) = " + number(block.amax * tensor.base)};
      return block.amax * tensor.base;
    case Nvfp4Rule::torchao_one_level:
      lines = {"no scale for the tensor", amax, "amax / 6 = " + number(block.amax / 6.0f)};
      return block.amax / 6.0f;
    case Nvfp4Rule::divided:
    case Nvfp4Rule::torchao:
      break;
  }
  const float t = block.scale.tensor, unrounded_scale = block.amax / 6.0f / t;
  lines = {"tensor amax = " + number(tensor_amax) + ": t = amax / (448 x 6) = " + scientific(t), amax,
           "(amax / 6) / t = " + number(unrounded_scale)};
  return unrounded_scale;
}

std::vector<std::string> derive_nvfp4(const BlockAnatomy& block, float tensor_amax) {
  const bool floored = block.format.nvfp4.rule != Nvfp4Rule::transformer_engine;
  std::vector<std::string> lines;
  const float unrounded_scale = nvfp4_wanted(block, tensor_amax, lines);
  const CodeFields s = code_fields(ElementFormat::e4m3, block.scale.code);
  if (floored && unrounded_scale < 0x1p-6f) lines.back() += ", below the smallest block scale 2^-6";
  if (unrounded_scale > 448) lines.back() += ", above 448";
  lines.back() += fmt::format(": block scale E4M3 0x{:02X} = {}", block.scale.code, s.formula.substr(2));
  if (block.scale.code == 0) {
    lines.push_back("a scale of 0: all values of the block become 0");
    return lines;
  }
  lines.push_back((block.format.nvfp4.rule == Nvfp4Rule::transformer_engine ? "scale = s x tensor amax / (448 x 6) = "
                                                                            : "scale = t x s = ") +
                  number(block.scale.value));
  if (block.amax_at < 0) return lines;
  const float top =
      block.format.nvfp4.rule == Nvfp4Rule::divided ? block.amax / block.scale.value : block.amax * block.scale.encode;
  lines.push_back("amax / scale = " + number(top) +
                  (top > clip_limit(block.format) ? " > 6, the largest E2M1: it clips" : " <= 6: nothing clips"));
  return lines;
}

const char* sharer(ScaleGranularity granularity) {
  switch (granularity) {
    case ScaleGranularity::tensor:
      return "the tensor";
    case ScaleGranularity::row:
      return "the whole row or column";
    case ScaleGranularity::block_1x128:
      return "the block";
    case ScaleGranularity::block_128x128:
      return "the 128 x 128 block";
  }
  return "";
}

std::vector<std::string> derive_fp8(const BlockAnatomy& block, float amax) {
  const FormatTraits& f = traits(block.format.element);
  const float encode = block.scale.encode, exact = fp8_encoding_scale(f.max, false, amax);
  std::vector<std::string> lines = {std::string("amax of ") + sharer(block.format.granularity) + " = " + number(amax)};
  lines.push_back("e = max / amax = " + number(f.max) + " / " + number(std::max(amax, 1e-12f)) + " = " + number(exact));
  if (block.format.power_of_two_scale) lines.push_back("rounded down to a power of two: e = " + scientific(encode));
  lines.push_back("scale = 1 / e = " + number(block.scale.value));
  lines.push_back("largest |x| here x e = " + number(block.amax * encode) + ", and the largest " +
                  named(block.format.element) + " is " + number(f.max) + ": nothing clips");
  return lines;
}

std::vector<std::string> derive_scale(const BlockAnatomy& block, std::span<const float> values, float shared_amax) {
  const float amax = larger_amax(shared_amax, block.amax);
  switch (block.format.scheme) {
    case QuantScheme::nvfp4:
      if (block.is_nan())
        return {std::string(has_tensor_scale(block.format) ? "the tensor" : "the block") +
                " contains a NaN or an infinity: it has no scale, and all its values decode to NaN"};
      return derive_nvfp4(block, amax);
    case QuantScheme::fp8:
      if (block.is_nan())
        return {std::string(sharer(block.format.granularity)) +
                " contains a NaN or an infinity: all values with this scale become NaN"};
      return derive_fp8(block, amax);
    default:
      return derive_mx(block, values);
  }
}

void count_block(BlockAnatomy& block, std::span<const float> values) {
  QuantSums& sums = block.sums;
  sums.blocks = 1;
  sums.elements = values.size();
  ++sums.e8m0_blocks[block.scale.exponent];
  for (const float v : values) {
    sums.nonzero += v != 0;
    if (std::isfinite(v)) sums.amax = std::max(sums.amax, std::fabs(v));
  }
  if (block.is_nan()) return;
  for (const ElementAnatomy& e : block.elements) add_element(sums, e);
  sums.clipped_blocks = sums.clipped > 0;
  if (block.amax > 0) {
    sums.crest = block.amax / std::sqrt(sums.x2 / values.size());
    sums.crest_blocks = 1;
  }
}

}  // namespace

CodeFields code_fields(ElementFormat format, std::uint8_t code) {
  const FormatTraits& f = traits(format);
  code &= static_cast<std::uint8_t>((1 << f.bits) - 1);
  CodeFields fields;
  fields.code = code;
  fields.sign = code >> (f.bits - 1);
  const int magnitude = code & ((1 << (f.bits - 1)) - 1);
  const int mantissa_bits = format == ElementFormat::int8 ? 7 : f.mantissa_bits;
  fields.exponent = magnitude >> mantissa_bits;
  fields.mantissa = magnitude & ((1 << mantissa_bits) - 1);
  fields.value = decode(format, code);
  fields.kind = kind_of(format, fields.exponent, fields.mantissa, fields.value);
  fields.formula = formula_of(format, fields);
  return fields;
}

const std::vector<float>& representable_values(ElementFormat format) {
  using Tables = std::array<std::vector<float>, kNumElementFormats>;
  static const Tables kValues = [] {
    Tables all;
    for (int i = 0; i < kNumElementFormats; ++i) all[i] = make_values(static_cast<ElementFormat>(i));
    return all;
  }();
  return kValues[static_cast<int>(format)];
}

Neighbours neighbours(ElementFormat format, float y) {
  if (std::isnan(y)) return {y, y};
  // INT8's -128 can be decoded but is never produced.
  const std::vector<float>& all = representable_values(format);
  const auto first = all.begin() + (format == ElementFormat::int8 ? 1 : 0);
  const auto above = std::lower_bound(first, all.end(), y);
  if (above == all.end()) return {all.back(), all.back()};
  if (*above == y || above == first) return {*above, *above};
  return {*(above - 1), *above};
}

BlockAnatomy block_anatomy(const OperandFormat& format, std::span<const float> values, std::int64_t draw,
                           float shared_amax) {
  assert(is_scaled(format));
  BlockAnatomy block;
  block.format = format;
  find_amax(block, values);
  block.scale = block_scale(format, block.amax, shared_amax);
  block.derivation = derive_scale(block, values, shared_amax);
  const bool divides = format.scheme == QuantScheme::nvfp4 && format.nvfp4.rule == Nvfp4Rule::divided,
             nan_block = block.is_nan();
  const RandomStream stream(draw, "block microscope");
  for (std::size_t i = 0; i < values.size(); ++i) {
    ElementAnatomy e;
    e.value = values[i];
    e.scaled = divides ? e.value / block.scale.value : e.value * block.scale.encode;
    e.grid = neighbours(format.element, e.scaled);
    if (e.grid.above > e.grid.below)
      e.probability_up =
          (static_cast<double>(e.scaled) - e.grid.below) / (static_cast<double>(e.grid.above) - e.grid.below);
    e.fields = code_fields(format.element, encode_scaled(format, e, stream.uniform(i)));
    e.decoded = e.fields.value;
    e.dequantized = nan_block ? std::numeric_limits<float>::quiet_NaN() : e.decoded * block.scale.value;
    e.error = static_cast<double>(e.dequantized) - e.value;
    e.underflow = !nan_block && e.value != 0 && e.dequantized == 0;
    // A scaled FP8 value exceeds the maximum only by the rounding of its scale, which does not count.
    e.clipped = !nan_block && format.scheme != QuantScheme::fp8 && std::fabs(e.scaled) > clip_limit(format);
    block.elements.push_back(std::move(e));
  }
  count_block(block, values);
  return block;
}

}  // namespace moescope
