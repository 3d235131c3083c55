#include "core/tensors/code_scales.h"

#include <algorithm>
#include <utility>

namespace moescope {
namespace {

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

// Returns "128 x 128" for the last two dimensions; "" if the tensor has one scale.
std::string block_text(const CodeScaleGrid& grid, const std::vector<std::size_t>& shape) {
  if (grid.scales.elements() == 1) return {};
  std::string text;
  for (std::size_t d = shape.size() > 2 ? shape.size() - 2 : 0; d < shape.size(); ++d)
    text += (text.empty() ? " of " : " x ") + std::to_string(grid.block[d]);
  return text;
}

}  // namespace

CodeScales::CodeScales(std::vector<std::size_t> shape, CodeScaleGrid blocks, std::optional<CodeScaleGrid> second,
                       bool divides)
    : shape_(std::move(shape)), blocks_(std::move(blocks)), second_(std::move(second)), divides_(divides) {}

std::vector<float> CodeScales::row_scales(std::size_t first, std::size_t count) const {
  const auto of_grid = [&](const CodeScaleGrid& grid) {
    const std::size_t block = shape_.empty() ? 1 : grid.block.back(), col = shape_.empty() ? 0 : first % shape_.back();
    const std::size_t blocks = (col + count - 1) / block - col / block + 1;
    const std::vector<float> found = grid.scales.floats(scale_at(grid, shape_, first), blocks);
    std::vector<float> scales(count);
    for (std::size_t i = 0, b = 0; b < blocks; ++b)
      for (const std::size_t end = std::min(count, (col / block + b + 1) * block - col); i < end; ++i)
        scales[i] = found[b];
    return scales;
  };
  std::vector<float> scales = of_grid(blocks_);
  if (!second_) return scales;
  const std::vector<float> second = of_grid(*second_);
  for (std::size_t i = 0; i < count; ++i) scales[i] = divides_ ? scales[i] / second[i] : scales[i] * second[i];
  return scales;
}

void CodeScales::multiply(std::size_t first, std::span<float> codes) const {
  const std::size_t cols = shape_.empty() ? 1 : shape_.back();
  for (std::size_t done = 0; done < codes.size();) {
    const std::size_t here = std::min(cols - (first + done) % cols, codes.size() - done);
    const std::vector<float> scales = row_scales(first + done, here);
    for (std::size_t i = 0; i < here; ++i) codes[done + i] *= scales[i];
    done += here;
  }
}

std::string CodeScales::type_text() const {
  return dtype_name(blocks_.scales.dtype) + block_text(blocks_, shape_) +
         (second_ ? std::string(" x ") + dtype_name(second_->scales.dtype) : std::string());
}

}  // namespace moescope
