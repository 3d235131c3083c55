// A weight that is stored as codes and scales: value = code x scale of its block, in float32.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensors/tensor_file.h"

namespace moescope {

// One scale for each block of a tensor.
struct CodeScaleGrid {
  TensorView scales;               // as many dimensions as the codes, or fewer
  std::vector<std::size_t> block;  // its sizes along the dimensions of the codes
};

class CodeScales {
 public:
  // `shape` is that of the codes. NVFP4 has a second scale: its blocks' scales are multiplied by it, or divided where
  // `divides`.
  CodeScales(std::vector<std::size_t> shape, CodeScaleGrid blocks, std::optional<CodeScaleGrid> second, bool divides);

  void multiply(std::size_t first, std::span<float> codes) const;  // of elements from `first` on
  std::string type_text() const;                                   // "F32 of 128 x 128", "F8_E4M3 of 1 x 16 x F32"

 private:
  // Of `count` elements of a row, which begin at element `first`.
  std::vector<float> row_scales(std::size_t first, std::size_t count) const;

  std::vector<std::size_t> shape_;
  CodeScaleGrid blocks_;
  std::optional<CodeScaleGrid> second_;
  bool divides_;
};

// Finds the codes of a file whose scales stand beside them, as publishers of models name them, and makes weights of
// both; marks scales as such, and codes of other layouts.
//   X.weight, X.weight_scale_inv           F8 and a scale for each tile (DeepSeek-V3: 128 x 128); `tile` if config.json
//                                          names another one
//   X.weight, X.weight_scale               F8 or I8 and a scale for the tensor, each row or each tile
//   (compressed-tensors,
//                                          ModelOpt); F8 and E8M0 for 32 along a row (MXFP8); U8 with two E2M1 in a
//                                          byte and E8M0 for 32 (MXFP4)
//   X.weight, .weight_scale, _scale_2      U8 with two E2M1, E4M3 for 16, and F32 that multiplies (ModelOpt's NVFP4)
//   X.weight_packed, _scale, _global_scale the same, and F32 that divides (compressed-tensors' NVFP4)
//   X.weight, X.scale                      F4 or I8 with two E2M1 and E8M0 for 32; F8 and E8M0 for each tile
//   (DeepSeek-V4) X_blocks, X_scales                     U8 [..., blocks, 16] and U8 [..., blocks]: MXFP4 of gpt-oss,
//   here X [..., 32
//                                          times blocks]
struct ScaleTile {
  std::size_t rows = 128, cols = 128;
};
void join_scales(MappedTensors& file, const ScaleTile& tile);

}  // namespace moescope
