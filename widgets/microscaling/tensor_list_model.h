// Tensors as a table: name, type, shape, and their figures once computed.
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "core/numerics/block_quantize.h"
#include "widgets/microscaling/tensor_source.h"

namespace moescope {

struct TensorEntry {
  TensorSource source;
  bool usable = true;  // floating-point and not empty
  QString note;        // why it is not usable, or what its values are
  enum class Figures { none, asked, known, failed } state = Figures::none;
  bool sampled = false;
  std::uint32_t nan_blocks = 0;  // left out of the figures
  double sqnr_db = 0, underflow_share = 0, clipped_share = 0;
};

class TensorListModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kName, kShape, kSqnr, kUnderflow, kClipped, kType, kColumns };
  using QAbstractTableModel::QAbstractTableModel;

  void setEntries(std::vector<TensorEntry> entries);
  const std::vector<TensorEntry>& entries() const { return entries_; }
  void setFigures(int row, const QuantSums& sums, bool sampled);
  void forgetFigures();           // of all: the format changed
  std::vector<int> takeWanted();  // rows whose figures were displayed and are not known yet
  void setLazy(bool lazy) { lazy_ = lazy; }

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;

 signals:
  void figuresWanted() const;

 private:
  QString figure(const TensorEntry& entry, int row, int column) const;

  std::vector<TensorEntry> entries_;
  // A view only reads visible rows, so figures are computed for those alone.
  mutable std::vector<int> wanted_;
  bool lazy_ = true;
};

}  // namespace moescope
