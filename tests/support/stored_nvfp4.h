// Stores a matrix in NVFP4 and decodes it, value by value with the arithmetic of scale_rules.h: one E2M1 code per byte
// in the low bits, one E4M3 scale byte per block of 16 along rows. The scale of a square block is repeated in every
// row. Tests check that the quantization of training gives the same values.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/kernels/quantize_blocks.h"
#include "core/numerics/scale_rules.h"

namespace moescope {

struct StoredScale {
  Nvfp4BlockScale block;
  std::uint8_t code;
};

inline StoredScale stored_nvfp4_scale(const OperandFormat& format, const Nvfp4TensorScale& tensor,
                                      const BlockValues& values) {
  float amax = 0;
  for (Index r = 0; r < values.rows; ++r)
    for (Index i = 0; i < values.count; ++i) {
      const float x = std::fabs(values.x[r * values.row_stride + i]);
      if (!std::isfinite(x) || !std::isfinite(tensor.amax)) return {{}, 0x7F};
      amax = std::max(amax, x);
    }
  const bool four =
      format.nvfp4.four_over_six != FourOverSix::off && scales_to_four(format.nvfp4, tensor, amax, values);
  const Nvfp4BlockScale block = nvfp4_block_of(format.nvfp4, tensor, amax, four);
  return {block, encode(ElementFormat::e4m3, block.s)};
}

inline std::uint8_t stored_nvfp4_code(Nvfp4Rule rule, const StoredScale& scale, float x) {
  const ElementRounding f = rounding_of(ElementFormat::e2m1);
  if (scale.code == 0x7F) return f.max_code;
  return encode_number(f, rule == Nvfp4Rule::divided ? x / scale.block.decode : x * scale.block.encode);
}

// Writes the codes and scales of `in`. `tensor_amax` is used only by formats with a scale for the tensor.
inline void store_nvfp4(const OperandFormat& format, ConstMatrix<float> in, float tensor_amax, std::uint8_t* codes,
                        std::uint8_t* scales) {
  constexpr Index kBlock = 16;
  const Nvfp4TensorScale tensor = nvfp4_tensor(format.nvfp4, has_tensor_scale(format) ? tensor_amax : 1);
  const Index across = format.nvfp4.square ? kBlock : 1, per_row = (in.cols + kBlock - 1) / kBlock;
  for (Index first = 0; first < in.rows; first += across)
    for (Index b = 0; b < per_row; ++b) {
      const Index rows = std::min(across, in.rows - first), col = b * kBlock, n = std::min(kBlock, in.cols - col);
      const StoredScale scale = stored_nvfp4_scale(format, tensor, {in.row(first) + col, rows, in.stride, n, 1});
      for (Index r = first; r < first + rows; ++r) {
        scales[r * per_row + b] = scale.code;
        for (Index c = col; c < col + n; ++c)
          codes[r * in.cols + c] = stored_nvfp4_code(format.nvfp4.rule, scale, in.row(r)[c]);
      }
    }
}

// Decodes into `out`, whose rows must have no gaps.
inline void decode_stored_nvfp4(const OperandFormat& format, const std::uint8_t* codes, const std::uint8_t* scales,
                                float tensor_amax, Matrix<float> out) {
  const double unit = format.nvfp4.rule == Nvfp4Rule::divided ? static_cast<double>(nvfp4_tensor_scale(tensor_amax))
                                                              : nvfp4_tensor(format.nvfp4, tensor_amax).unit;
  for (Index r = 0; r < out.rows; ++r)
    for (Index c = 0; c < out.cols; ++c) {
      if (c > 0 && c % 16 == 0) ++scales;
      const auto scale = static_cast<float>(static_cast<double>(decode(ElementFormat::e4m3, *scales)) * unit);
      out.row(r)[c] = decode(ElementFormat::e2m1, *codes++) * scale;
      if (c + 1 == out.cols) ++scales;
    }
}

}  // namespace moescope
