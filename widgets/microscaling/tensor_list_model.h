// Tensors as a table, grouped by module: short name with shape, and figures once they are computed. Rows are headings
// of groups, and tensors whose names contain the filter.
#pragma once

#include <QAbstractTableModel>
#include <QStringList>
#include <vector>

#include "core/numerics/block_quantize.h"
#include "widgets/microscaling/tensor_source.h"

namespace moescope {

struct TensorEntry {
  TensorSource source;
  bool usable = true;   // floating-point and not empty
  bool scales = false;  // the values are the scales of another tensor
  QString note;         // why the tensor is not usable, or the kind of its values
  enum class Figures { none, asked, known, failed } state = Figures::none;
  bool sampled = false;
  std::uint32_t nan_blocks = 0;  // NaN blocks, which the figures leave out
  double sqnr_db = 0, underflow_share = 0, clipped_share = 0;
};

class TensorListModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kName, kSqnr, kUnderflow, kColumns };
  enum Role { kShapeRole = Qt::UserRole, kHeadingRole };
  using QAbstractTableModel::QAbstractTableModel;

  void setEntries(std::vector<TensorEntry> entries);
  const std::vector<TensorEntry>& entries() const { return entries_; }
  void setFilter(const QString& text);
  void setFigures(int entry, const QuantSums& sums, bool sampled);
  void forgetFigures();           // forgets all figures, after a change of format
  std::vector<int> takeWanted();  // displayed entries without figures
  void setLazy(bool lazy) { lazy_ = lazy; }

  // Entry of a row; -1: the row is a heading
  int entryAt(int row) const { return row >= 0 && row < rowCount() ? rows_[row].entry : -1; }
  // row of an entry; -1: the filter hides it
  int rowOf(int entry) const { return index_in(rows_, entry, &Row::entry); }
  QString shortName(int entry) const;  // name without the parts that all names share

  int rowCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : to_int(rows_.size()); }
  int columnCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : kColumns; }
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;

 signals:
  void figuresWanted() const;

 private:
  // The first and last parts, between dots, that all names share.
  struct CommonParts {
    QStringList first, last;
  };
  struct GroupedName {
    QString group, name;  // "experts.45", "w2"; for a captured operand the run and the operand
  };
  struct Row {
    int entry = -1;  // -1: a heading
    QString text;    // heading, or name within its group
  };
  CommonParts commonParts() const;
  GroupedName groupedName(const TensorEntry& entry) const;
  void arrange();
  QString figure(const TensorEntry& entry, int number, int column) const;
  QString toolTip(const TensorEntry& entry) const;

  std::vector<TensorEntry> entries_;
  std::vector<Row> rows_;
  CommonParts common_;
  QString filter_;
  // Entries without figures that a view has read. Views read visible rows only, so that only their figures are
  // computed.
  mutable std::vector<int> requested_;
  bool lazy_ = true;
};

}  // namespace moescope
