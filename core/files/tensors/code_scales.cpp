#include "core/files/tensors/code_scales.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"

namespace moescope {
namespace {

void require_usable(const std::vector<float>& scales, const TensorView& tensor, bool zero_allowed) {
  for (const float scale : scales)
    if (!std::isfinite(scale) || scale < 0 || (scale == 0 && !zero_allowed))
      throw std::runtime_error(
          fmt::format("tensor '{}': a scale is {}; allowed: finite numbers {} (is the file damaged?)",
                      printable(tensor.name), scale, zero_allowed ? "from 0 on" : "above 0"));
}

// Returns the index in a grid of the scale of an element.
std::size_t scale_at(const CodeScaleGrid& grid, const std::vector<std::size_t>& shape, std::size_t element) {
  std::size_t at = 0, times = 1;
  for (std::size_t d = shape.size(); d-- > 0; element /= shape[d]) {
    const std::size_t blocks = (shape[d] + grid.block[d] - 1) / grid.block[d];
    at += element % shape[d] / grid.block[d] * times;
    times *= blocks;
  }
  return at;
}

// Returns " of 128 x 128" for the last two dimensions; "" if the tensor has one scale.
std::string block_text(const CodeScaleGrid& grid, const std::vector<std::size_t>& shape) {
  if (grid.scales.elements() == 1) return {};
  std::string text;
  for (std::size_t d = shape.size() > 2 ? shape.size() - 2 : 0; d < shape.size(); ++d)
    text += fmt::format("{}{}", text.empty() ? " of " : " x ", grid.block[d]);
  return text;
}

}  // namespace

CodeScales::CodeScales(std::vector<std::size_t> shape, CodeScaleGrid blocks, std::optional<CodeScaleGrid> second,
                       bool divides)
    : shape_(std::move(shape)), blocks_(std::move(blocks)), second_(std::move(second)), divides_(divides) {}

void CodeScales::multiply_row(std::size_t first, std::span<float> codes) const {
  const std::size_t col = shape_.empty() ? 0 : first % shape_.back();
  // Returns where the block of value i ends, counted in values of `codes`.
  const auto end_of = [&](const CodeScaleGrid& grid, std::size_t i) {
    const std::size_t block = shape_.empty() ? 1 : grid.block.back();
    return std::min(codes.size(), ((col + i) / block + 1) * block - col);
  };
  const auto scales_of = [&](const CodeScaleGrid& grid) {
    const std::size_t block = shape_.empty() ? 1 : grid.block.back();
    std::vector<float> scales =
        grid.scales.floats(scale_at(grid, shape_, first), (col + codes.size() - 1) / block - col / block + 1);
    require_usable(scales, grid.scales, &grid == &blocks_);
    return scales;
  };
  const std::vector<float> scales = scales_of(blocks_), second = second_ ? scales_of(*second_) : std::vector<float>();
  for (std::size_t i = 0, b = 0, b2 = 0; i < codes.size();) {
    std::size_t end = end_of(blocks_, i);
    float scale = scales[b];
    if (second_) {
      end = std::min(end, end_of(*second_, i));
      scale = divides_ ? scale / second[b2] : scale * second[b2];
      if (end == end_of(*second_, i)) ++b2;
    }
    if (end == end_of(blocks_, i)) ++b;
    for (; i < end; ++i) codes[i] *= scale;
  }
}

void CodeScales::multiply(std::size_t first, std::span<float> codes) const {
  const std::size_t cols = shape_.empty() ? 1 : shape_.back();
  for (std::size_t done = 0; done < codes.size();) {
    const std::size_t row_part = std::min(cols - (first + done) % cols, codes.size() - done);
    multiply_row(first + done, codes.subspan(done, row_part));
    done += row_part;
  }
}

std::string CodeScales::type_text() const {
  return dtype_name(blocks_.scales.dtype) + block_text(blocks_, shape_) +
         (second_ ? std::string(" x ") + dtype_name(second_->scales.dtype) : std::string());
}

std::optional<ScaleTile> scale_tile(const nlohmann::json& sizes) {
  constexpr std::size_t kMaxTileSide = std::size_t{1} << 20;
  ScaleTile tile{0, 0};
  if (sizes.is_array() && sizes.size() == 2 && sizes[0].is_number_unsigned() && sizes[1].is_number_unsigned()) {
    tile = {sizes[0].get<std::size_t>(), sizes[1].get<std::size_t>()};
  } else if (sizes.is_string()) {
    std::string_view cols = sizes.get_ref<const std::string&>();
    const std::string_view rows = take_until(cols, 'x');
    if (!read_number(rows, tile.rows) || !read_number(cols, tile.cols)) return std::nullopt;
  }
  const bool usable = tile.rows > 0 && tile.cols > 0 && tile.rows <= kMaxTileSide && tile.cols <= kMaxTileSide;
  return usable ? std::optional(tile) : std::nullopt;
}

}  // namespace moescope
