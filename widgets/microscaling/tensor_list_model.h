// Tensors as a table, grouped by module: short name with shape, and their figures once computed. Rows are headings of
// groups and tensors of which the name contains the filter.
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
  bool scales = false;  // of another tensor
  QString note;         // why it is not usable, or what its values are
  enum class Figures { none, asked, known, failed } state = Figures::none;
  bool sampled = false;
  std::uint32_t nan_blocks = 0;  // left out of the figures
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
  void forgetFigures();           // of all: the format changed
  std::vector<int> takeWanted();  // entries whose figures were displayed and are not known yet
  void setLazy(bool lazy) { lazy_ = lazy; }

  int entryAt(int row) const;          // -1: a heading
  int rowOf(int entry) const;          // -1: filtered out
  QString shortName(int entry) const;  // without what all names begin and end with

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;

 signals:
  void figuresWanted() const;

 private:
  // What all names have in common, in whole parts between dots.
  struct CommonParts {
    QStringList first, last;
  };
  struct GroupedName {
    QString group, name;  // "experts.45", "w2"; of an operand of a run the run and the operand
  };
  struct Row {
    int entry = -1;  // -1: a heading
    QString text;    // of the heading, or the name within its group
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
  // A view only reads visible rows, so figures are computed for those alone.
  mutable std::vector<int> wanted_;
  bool lazy_ = true;
};

}  // namespace moescope
