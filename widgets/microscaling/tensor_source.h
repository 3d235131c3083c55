// A tensor to show: a captured operand in memory, or a tensor of a mapped file, of which only the needed values are
// read.
//
// Rows of a captured operand belong to experts: blocks down a column start again with each expert.
//
// A tensor is shown as `slices` matrices of rows x cols. The last two dimensions are rows and cols, the others are
// slices (for example the experts of a grouped weight), so that no block of a column crosses from one expert into the
// next.
#pragma once

#include <QString>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "core/files/tensors/tensor_file.h"
#include "core/model/layers/operand_tap.h"
#include "core/numerics/block_anatomy.h"

namespace moescope {

class TensorSource {
 public:
  TensorSource() = default;
  // `values`: rows x cols, row-major.
  TensorSource(const QString& name, std::size_t rows, std::size_t cols, std::vector<float> values);
  TensorSource(std::shared_ptr<const TensorFile> file, std::size_t index);
  TensorSource(const QString& name, std::shared_ptr<const CapturedOperand> captured);
  static TensorSource unread(const QString& name);  // an entry of a file that cannot be read as a tensor

  bool valid() const { return rows_ > 0 && cols_ > 0; }
  const QString& name() const { return name_; }
  const QString& dtype() const { return dtype_; }
  const QString& shape() const { return shape_; }
  std::size_t slices() const { return slices_; }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }

  // First row of every expert, and the end; {0, rows} if there are no experts.
  const std::vector<std::size_t>& rowGroups() const { return row_groups_; }
  bool grouped() const { return row_groups_.size() > 2; }
  std::size_t groupOf(std::size_t row) const;
  TensorSource group(std::size_t index) const;  // the rows of one group as a tensor
  // The captured operand; nullptr if the tensor was not captured.
  std::shared_ptr<const CapturedOperand> captured() const { return captured_; }

  // Number of blocks of `block` values down a column. No block crosses from one group into the next.
  std::size_t blocksDown(std::size_t block) const;
  struct Rows {
    std::size_t first, last;  // last exclusive
  };
  Rows blockRows(std::size_t index, std::size_t block) const;
  std::size_t blockAt(std::size_t row, std::size_t block) const;

  // Largest magnitude of the values that share a tensor-wide scale with this row: of the row's group, or of a sample if
  // the file is large. Computed once.
  float tensorAmax(std::size_t slice, std::size_t row) const;
  // Largest magnitude of the values, also outside a block, that determine its scale: of the tensor (see tensorAmax()),
  // of the whole row or column (a sample of a long column), or of the tile of 128 x 128 around it. 0 if the block has
  // its own scale.
  float sharedAmax(std::size_t slice, const OperandFormat& format, BlockAxis axis, std::size_t line,
                   std::size_t index) const;

  // Why values could not be read and are NaN: another program truncated the file, or its checksum is wrong. Empty if
  // all could be read. Shared by all copies.
  QString lost() const;

  // Reads `count` values of a row from `col` on into `out`.
  void readRow(std::size_t slice, std::size_t row, std::size_t col, std::size_t count, float* out) const;
  // Reads a block of `block` values, or fewer at the end. `index`: block along the axis; `line`: row or column across
  // it.
  std::vector<float> readBlock(std::size_t slice, bool along_row, std::size_t line, std::size_t index,
                               std::size_t block) const;

  // The whole slice, or a sample of evenly spread tiles of 512 x 512, so that blocks of every size stay whole.
  struct Sample {
    std::vector<float> values;
    std::size_t rows = 0, cols = 0;
    bool whole = true;
    std::vector<std::size_t> row_groups;  // row groups of the sample
  };
  Sample sample(std::size_t slice, std::size_t most_elements) const;

 private:
  float columnAmax(std::size_t slice, std::size_t group, std::size_t column) const;
  Sample sampleOfGroups(std::size_t most_elements) const;

  QString name_, dtype_, shape_;
  std::size_t slices_ = 0, rows_ = 0, cols_ = 0;
  std::vector<std::size_t> row_groups_ = {0, 0};
  std::shared_ptr<const std::vector<float>> values_;
  std::size_t first_row_ = 0;  // first row in values_
  std::shared_ptr<const CapturedOperand> captured_;
  mutable std::size_t amax_slice_ = 0;
  mutable std::vector<float> amax_of_group_;  // largest magnitudes by group; empty: not computed
  mutable std::size_t columns_slice_ = 0, columns_group_ = 0;
  mutable std::vector<float> amax_of_column_;  // largest magnitudes by column of that group; empty: not computed
  std::shared_ptr<const TensorFile> file_;
  struct Lost {
    std::mutex mutex;
    QString reason;
    void set(const char* message);
  };
  std::shared_ptr<Lost> lost_;  // why values of a file could not be read
  std::size_t index_ = 0;
};

}  // namespace moescope
