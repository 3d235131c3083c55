#include "widgets/microscaling/tensor_source.h"

#include <sys/mman.h>
#include <unistd.h>

#include <QStringList>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>

#include "core/numerics/quantize.h"

namespace moescope {
namespace {

constexpr std::size_t kTile = 512;  // side of a tile: size of the largest block

// Returns the first elements of the tiles along one side: of all tiles, or of `max_tiles` evenly spread tiles.
std::vector<std::size_t> tileBegins(std::size_t size, std::size_t max_tiles) {
  const std::size_t tiles = (size + kTile - 1) / kTile;
  const std::size_t kept_tiles = std::min(tiles, std::max<std::size_t>(1, max_tiles));
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < kept_tiles; ++i) begins.push_back(i * tiles / kept_tiles * kTile);
  return begins;
}

std::size_t covered(const std::vector<std::size_t>& begins, std::size_t size) {
  std::size_t sum = 0;
  for (const std::size_t begin : begins) sum += std::min(kTile, size - begin);
  return sum;
}

// Advises the system that blocks and tiles are read in random order. Otherwise it would read 128 kB around each of
// them.
void adviseRandomAccess(std::span<const std::byte> bytes) {
  const std::uintptr_t page = ::sysconf(_SC_PAGESIZE);
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_RANDOM);  // a failure does no harm
}

QString shapeText(const std::vector<std::size_t>& shape) {
  QStringList sizes;
  for (const std::size_t size : shape) sizes << QString::number(size);
  return shape.empty() ? QStringLiteral("scalar") : sizes.join(QStringLiteral(" x "));
}

}  // namespace

void TensorSource::Lost::set(const char* message) {
  const std::lock_guard lock(mutex);
  if (reason.isEmpty()) reason = QString::fromUtf8(message);
}

QString TensorSource::lost() const {
  if (!lost_) return {};
  const std::lock_guard lock(lost_->mutex);
  return lost_->reason;
}

TensorSource::TensorSource(const QString& name, std::size_t rows, std::size_t cols, std::vector<float> values)
    : name_(name),
      dtype_(QStringLiteral("F32")),
      shape_(shapeText({rows, cols})),
      slices_(1),
      rows_(rows),
      cols_(cols),
      row_groups_{0, rows},
      values_(std::make_shared<const std::vector<float>>(std::move(values))) {
  assert(values_->size() == rows * cols);
}

TensorSource::TensorSource(std::shared_ptr<const TensorFile> file, std::size_t index)
    : file_(std::move(file)), lost_(std::make_shared<Lost>()), index_(index) {
  const TensorView& tensor = file_->tensors()[index];
  name_ = QString::fromStdString(tensor.name);
  dtype_ = QString::fromStdString(tensor.type_text());
  shape_ = shapeText(tensor.shape);
  if (tensor.elements() == 0) return;
  adviseRandomAccess(tensor.bytes);
  const std::size_t dimensions = tensor.shape.size();
  cols_ = dimensions ? tensor.shape.back() : 1;
  rows_ = dimensions > 1 ? tensor.shape[dimensions - 2] : 1;
  slices_ = tensor.elements() / (rows_ * cols_);
  row_groups_ = {0, rows_};
}

TensorSource::TensorSource(const QString& name, std::shared_ptr<const CapturedOperand> captured)
    : name_(name),
      dtype_(QStringLiteral("F32")),
      shape_(shapeText({captured->rows, captured->cols})),
      slices_(1),
      rows_(captured->rows),
      cols_(captured->cols),
      row_groups_(captured->expert_rows.empty() ? std::vector<std::size_t>{0, captured->rows} : captured->expert_rows),
      values_(captured, &captured->values),
      captured_(std::move(captured)) {}

TensorSource TensorSource::unread(const QString& name) {
  TensorSource source;
  source.name_ = name;
  source.dtype_ = source.shape_ = QStringLiteral("-");
  return source;
}

std::size_t TensorSource::groupOf(std::size_t row) const {
  return static_cast<std::size_t>(std::upper_bound(row_groups_.begin(), row_groups_.end() - 1, row) -
                                  row_groups_.begin()) -
         1;
}

TensorSource TensorSource::group(std::size_t index) const {
  TensorSource part = *this;
  part.first_row_ = first_row_ + row_groups_[index];
  part.rows_ = row_groups_[index + 1] - row_groups_[index];
  part.row_groups_ = {0, part.rows_};
  part.amax_of_group_.clear();
  part.amax_of_column_.clear();
  part.shape_ = shapeText({part.rows_, part.cols_});
  return part;
}

std::size_t TensorSource::blocksDown(std::size_t block) const {
  std::size_t blocks = 0;
  for (std::size_t g = 0; g + 1 < row_groups_.size(); ++g)
    blocks += (row_groups_[g + 1] - row_groups_[g] + block - 1) / block;
  return blocks;
}

TensorSource::Rows TensorSource::blockRows(std::size_t index, std::size_t block) const {
  for (std::size_t g = 0; g + 1 < row_groups_.size(); ++g) {
    const std::size_t blocks = (row_groups_[g + 1] - row_groups_[g] + block - 1) / block;
    if (index < blocks) {
      const std::size_t first = row_groups_[g] + index * block;
      return {first, std::min(first + block, row_groups_[g + 1])};
    }
    index -= blocks;
  }
  return {rows_, rows_};
}

std::size_t TensorSource::blockAt(std::size_t row, std::size_t block) const {
  std::size_t index = 0, group = groupOf(row);
  for (std::size_t g = 0; g < group; ++g) index += (row_groups_[g + 1] - row_groups_[g] + block - 1) / block;
  return index + (row - row_groups_[group]) / block;
}

void TensorSource::readRow(std::size_t slice, std::size_t row, std::size_t col, std::size_t count, float* out) const {
  const std::size_t first = (slice * rows_ + first_row_ + row) * cols_ + col;
  if (values_) {
    std::copy_n(values_->data() + first, count, out);
    return;
  }
  try {
    const std::vector<float> values = file_->tensors()[index_].floats(first, count);
    std::copy(values.begin(), values.end(), out);
  } catch (const std::runtime_error& problem) {
    lost_->set(problem.what());
    std::fill_n(out, count, std::numeric_limits<float>::quiet_NaN());
  }
}

std::vector<float> TensorSource::readBlock(std::size_t slice, bool along_row, std::size_t line, std::size_t index,
                                           std::size_t block) const {
  if (along_row) {
    std::vector<float> values(std::min(block, cols_ - index * block));
    readRow(slice, line, index * block, values.size(), values.data());
    return values;
  }
  const Rows rows = blockRows(index, block);
  std::vector<float> values(rows.last - rows.first);
  for (std::size_t i = 0; i < values.size(); ++i) readRow(slice, rows.first + i, line, 1, &values[i]);
  return values;
}

TensorSource::Sample TensorSource::sample(std::size_t slice, std::size_t most_elements) const {
  if (grouped()) return sampleOfGroups(most_elements);
  std::vector<std::size_t> row_begins = tileBegins(rows_, rows_), col_begins = tileBegins(cols_, cols_);
  const bool whole = rows_ * cols_ <= most_elements;
  if (!whole) {
    const std::size_t tiles = std::max<std::size_t>(1, most_elements / (kTile * kTile));
    const auto side = static_cast<std::size_t>(std::sqrt(tiles));
    const std::size_t down = std::min(row_begins.size(), std::max(side, tiles / col_begins.size()));
    row_begins = tileBegins(rows_, down);
    col_begins = tileBegins(cols_, tiles / row_begins.size());
  }
  Sample sample{{}, covered(row_begins, rows_), covered(col_begins, cols_), whole, {}};
  sample.row_groups = {0, sample.rows};
  sample.values.resize(sample.rows * sample.cols);
  float* out = sample.values.data();
  for (const std::size_t row_begin : row_begins)
    for (std::size_t r = row_begin; r < std::min(row_begin + kTile, rows_); ++r)
      for (const std::size_t col_begin : col_begins) {
        const std::size_t count = std::min(kTile, cols_ - col_begin);
        readRow(slice, r, col_begin, count, out);
        out += count;
      }
  return sample;
}

float TensorSource::tensorAmax(std::size_t slice, std::size_t row) const {
  constexpr std::size_t kMaxElements = std::size_t{4} << 20;
  const std::size_t groups = row_groups_.size() - 1;
  if (amax_of_group_.empty() || amax_slice_ != slice) {
    amax_slice_ = slice;
    amax_of_group_.assign(groups, 0);
    for (std::size_t g = 0; g < groups; ++g) {
      const TensorSource part = grouped() ? group(g) : *this;
      if (!part.valid()) continue;
      const Sample sample = part.sample(slice, kMaxElements);
      for (const float value : sample.values) amax_of_group_[g] = larger_amax(amax_of_group_[g], std::fabs(value));
    }
  }
  return amax_of_group_[groupOf(row)];
}

float TensorSource::columnAmax(std::size_t slice, std::size_t group, std::size_t column) const {
  constexpr std::size_t kMaxElements = std::size_t{16} << 20;
  if (amax_of_column_.empty() || columns_slice_ != slice || columns_group_ != group) {
    columns_slice_ = slice;
    columns_group_ = group;
    amax_of_column_.assign(cols_, 0);
    const std::size_t first = row_groups_[group], last = row_groups_[group + 1];
    const std::size_t step = std::max<std::size_t>(1, (last - first) * cols_ / kMaxElements);
    std::vector<float> values(cols_);
    for (std::size_t row = first; row < last; row += step) {
      readRow(slice, row, 0, cols_, values.data());
      for (std::size_t c = 0; c < cols_; ++c)
        amax_of_column_[c] = larger_amax(amax_of_column_[c], std::fabs(values[c]));
    }
  }
  return amax_of_column_[column];
}

float TensorSource::sharedAmax(std::size_t slice, const OperandFormat& format, BlockAxis axis, std::size_t line,
                               std::size_t index) const {
  if (!shares_scale(format)) return 0;
  const std::size_t size = block_size(format);
  const bool along_row = axis == BlockAxis::row;
  const std::size_t row = along_row ? line : blockRows(index, size).first;
  if (has_tensor_scale(format)) return tensorAmax(slice, row);
  const std::size_t group = groupOf(row);
  if (format.granularity == ScaleGranularity::row && !along_row) return columnAmax(slice, group, line);
  Rows rows{row, row + 1};
  std::size_t col = 0, count = cols_;
  if (format.granularity == ScaleGranularity::block_128x128) {
    rows.first = row - (row - row_groups_[group]) % size;
    rows.last = std::min(rows.first + size, row_groups_[group + 1]);
    col = along_row ? index * size : line / size * size;
    count = std::min(size, cols_ - col);
  }
  float amax = 0;
  std::vector<float> values(count);
  for (std::size_t r = rows.first; r < rows.last; ++r) {
    readRow(slice, r, col, count, values.data());
    for (const float value : values) amax = larger_amax(amax, std::fabs(value));
  }
  return amax;
}

// Returns a sample of whole experts, evenly spread.
TensorSource::Sample TensorSource::sampleOfGroups(std::size_t most_elements) const {
  const std::size_t groups = row_groups_.size() - 1;
  std::size_t step = 1;
  const auto rows_at = [&](std::size_t stride) {
    std::size_t rows = 0;
    for (std::size_t g = 0; g < groups; g += stride) rows += row_groups_[g + 1] - row_groups_[g];
    return rows;
  };
  while (step < groups && rows_at(step) * cols_ > most_elements) ++step;
  Sample sample{{}, rows_at(step), cols_, step == 1, {0}};
  sample.values.reserve(sample.rows * cols_);
  for (std::size_t g = 0; g < groups; g += step) {
    const std::size_t first = row_groups_[g], rows = row_groups_[g + 1] - first;
    const float* begin = values_->data() + (first_row_ + first) * cols_;
    sample.values.insert(sample.values.end(), begin, begin + rows * cols_);
    sample.row_groups.push_back(sample.row_groups.back() + rows);
  }
  return sample;
}

}  // namespace moescope
