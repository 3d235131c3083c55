#include "core/numerics/scale_rules.h"

#include <cmath>

#include "core/numerics/quantize.h"

namespace moescope {
namespace {

constexpr BlockScale kNanScale{.value = std::numeric_limits<float>::quiet_NaN(),
                               .code = 255,
                               .encode = std::numeric_limits<float>::quiet_NaN(),
                               .exponent = 255};

std::uint8_t exponent_of(float scale) {
  return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(scale) >> 23);
}

BlockScale mx_scale(const OperandFormat& format, float amax) {
  const std::uint8_t code = scale_code(format.rule, format.element, amax);
  if (code == 255) return kNanScale;
  return {.value = decode_e8m0(code),
          .code = code,
          .encode = decode_e8m0(static_cast<std::uint8_t>(254 - code)),
          .exponent = code};
}

BlockScale fp8_scale(const OperandFormat& format, float amax) {
  if (!std::isfinite(amax)) return kNanScale;
  const float encode = fp8_encoding_scale(traits(format.element).max, format.power_of_two_scale, amax);
  return {.value = 1.0f / encode, .encode = encode, .exponent = exponent_of(1.0f / encode)};
}

BlockScale nvfp4_scale(const Nvfp4Scaling& scaling, float amax, float tensor_amax) {
  if (!std::isfinite(amax) || (scaling.rule != Nvfp4Rule::torchao_one_level && !std::isfinite(tensor_amax))) {
    BlockScale nan = kNanScale;
    nan.code = 0x7F;
    return nan;
  }
  BlockScale found;
  float s = 0;
  if (scaling.rule == Nvfp4Rule::divided) {
    found.tensor = nvfp4_tensor_scale(tensor_amax);
    s = nvfp4_block_scale(amax, found.tensor);
    found.value = found.tensor * s;
  } else {
    const Nvfp4TensorScale tensor = nvfp4_tensor(scaling, tensor_amax);
    const Nvfp4BlockScale block = nvfp4_block_of(scaling, tensor, amax, false);
    s = block.s;
    found.encode = block.encode;
    found.value = block.decode;
    found.tensor = static_cast<float>(tensor.unit);
  }
  found.code = encode(ElementFormat::e4m3, s);
  found.exponent = exponent_of(found.value);
  return found;
}

}  // namespace

Nvfp4BlockScale nvfp4_block_of(const Nvfp4Scaling& scaling, const Nvfp4TensorScale& t, float amax, bool four) {
  switch (scaling.rule) {
    case Nvfp4Rule::transformer_engine:
      if (scaling.four_over_six != FourOverSix::off)
        return nvfp4_block<Nvfp4Rule::transformer_engine, true>(t, amax, four);
      return nvfp4_block<Nvfp4Rule::transformer_engine>(t, amax);
    case Nvfp4Rule::torchao:
      return nvfp4_block<Nvfp4Rule::torchao>(t, amax);
    case Nvfp4Rule::torchao_one_level:
      return nvfp4_block<Nvfp4Rule::torchao_one_level>(t, amax);
    case Nvfp4Rule::divided:
      break;
  }
  const float tensor = nvfp4_tensor_scale(t.amax), s = nvfp4_block_scale(amax, tensor), decode = tensor * s;
  return {s, 1 / decode, decode};
}

BlockScale block_scale(const OperandFormat& format, float amax, float shared_amax) {
  switch (format.scheme) {
    case QuantScheme::mx:
      return mx_scale(format, amax);
    case QuantScheme::fp8:
      return fp8_scale(format, larger_amax(shared_amax, amax));
    case QuantScheme::nvfp4:
      return nvfp4_scale(format.nvfp4, amax, larger_amax(shared_amax, amax));
    case QuantScheme::fp32:
    case QuantScheme::bf16:
      break;
  }
  return {.value = 1, .encode = 1, .exponent = 127};
}

}  // namespace moescope
