// A weight that is stored as codes and scales: value = code x scale of its block, in float32.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/files/tensors/tensor_file.h"

namespace moescope {

// One scale for each block of a tensor.
struct CodeScaleGrid {
  TensorView scales;               // as many dimensions as the codes, or fewer
  std::vector<std::size_t> block;  // size of a block along each dimension of the codes
};

class CodeScales {
 public:
  // `shape` is the shape of the codes. `second` is NVFP4's second scale, by which the scales of the blocks are
  // multiplied, or divided if `divides`.
  CodeScales(std::vector<std::size_t> shape, CodeScaleGrid blocks, std::optional<CodeScaleGrid> second, bool divides);

  // Multiplies the elements from `first` on. Throws std::runtime_error if a scale is negative or not finite, or the
  // second scale is 0.
  void multiply(std::size_t first, std::span<float> codes) const;
  std::string type_text() const;  // "F32 of 128 x 128", "F8_E4M3 of 1 x 16 x F32"
  const std::vector<std::size_t>& block() const { return blocks_.block; }

 private:
  // Multiplies codes of one row, beginning at element `first`, by their scales.
  void multiply_row(std::size_t first, std::span<float> codes) const;

  std::vector<std::size_t> shape_;
  CodeScaleGrid blocks_;
  std::optional<CodeScaleGrid> second_;
  bool divides_;
};

struct ScaleTile {
  std::size_t rows = 128, cols = 128;
};
// Returns the tile for a value of config.json such as [128, 128] or "128x128"; nullopt if it is none.
std::optional<ScaleTile> scale_tile(const nlohmann::json& sizes);

// Finds codes whose scales are in other tensors of the file, and joins codes and scales to weights. Marks the tensors
// of scales, and codes of other layouts (TensorView::holds). The layouts are those of publishers of models:
//   X.weight, X.weight_scale_inv: F8, a scale for each tile (DeepSeek-V3: 128 x 128; `tile` is that of config.json)
//   X.weight, X.weight_scale (compressed-tensors, ModelOpt): F8 or I8, a scale for the tensor, each row or each tile;
//     F8, E8M0 for 32 along a row (MXFP8); U8 with two E2M1 in a byte, E8M0 for 32 (MXFP4)
//   X.weight, .weight_scale, _scale_2 (ModelOpt's NVFP4): U8 with two E2M1, E4M3 for 16, F32 that multiplies
//   X.weight_packed, _scale, _global_scale (compressed-tensors' NVFP4): U8 with two E2M1, E4M3 for 16, F32 that divides
//   X.weight, X.scale (DeepSeek-V4): F4 or I8 with two E2M1, E8M0 for 32; F8, E8M0 for each tile
//   X_blocks, X_scales (MXFP4 of gpt-oss): U8 [..., blocks, 16], U8 [..., blocks]; X has [..., 32 times blocks]
void join_scales(MappedTensors& file, const ScaleTile& tile);

}  // namespace moescope
