#include "widgets/microscaling/tensor_list_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "widgets/plots/axis.h"

namespace moescope {

void TensorListModel::setEntries(std::vector<TensorEntry> entries) {
  beginResetModel();
  entries_ = std::move(entries);
  wanted_.clear();
  endResetModel();
}

void TensorListModel::setFigures(int row, const QuantSums& sums, bool sampled) {
  if (row >= static_cast<int>(entries_.size())) return;
  TensorEntry& entry = entries_[static_cast<std::size_t>(row)];
  entry.state = TensorEntry::Figures::known;
  entry.sampled = sampled;
  entry.sqnr_db = sums.sqnr_db();
  entry.nan_blocks = sums.e8m0_blocks[255];
  entry.underflow_share = sums.underflow_share();
  entry.clipped_share = sums.clipped_share();
  emit dataChanged(index(row, kSqnr), index(row, kClipped));
}

void TensorListModel::forgetFigures() {
  wanted_.clear();
  for (TensorEntry& entry : entries_) entry.state = TensorEntry::Figures::none;
  if (!entries_.empty()) emit dataChanged(index(0, kSqnr), index(rowCount() - 1, kClipped));
}

std::vector<int> TensorListModel::takeWanted() {
  for (const int row : wanted_) entries_[static_cast<std::size_t>(row)].state = TensorEntry::Figures::asked;
  return std::exchange(wanted_, {});
}

int TensorListModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(entries_.size());
}

int TensorListModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumns;
}

QString TensorListModel::figure(const TensorEntry& entry, int row, int column) const {
  if (!entry.usable) return QString();
  if (entry.state == TensorEntry::Figures::none && lazy_ &&
      std::find(wanted_.begin(), wanted_.end(), row) == wanted_.end()) {
    wanted_.push_back(row);
    emit figuresWanted();
  }
  if (entry.state != TensorEntry::Figures::known) return QStringLiteral("-");
  const QString about = entry.sampled ? QStringLiteral("~") : QString();
  switch (column) {
    case kSqnr:
      if (std::isnan(entry.sqnr_db)) return about + tr("NaN");
      return about + (entry.sqnr_db > 1e9 ? tr("exact") : formatValue(entry.sqnr_db, 3)) +
             (entry.nan_blocks > 0 ? tr(", NaN") : QString());
    case kUnderflow:
      return about + formatPercent(entry.underflow_share);
    default:
      return about + formatPercent(entry.clipped_share);
  }
}

QVariant TensorListModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const TensorEntry& entry = entries_[static_cast<std::size_t>(index.row())];
  if (role == Qt::TextAlignmentRole)
    return int((index.column() >= kSqnr && index.column() <= kClipped ? Qt::AlignRight : Qt::AlignLeft) |
               Qt::AlignVCenter);
  if (role == Qt::ToolTipRole)
    return !entry.usable && !entry.note.isEmpty() ? tr("%1 %2").arg(entry.source.name(), entry.note)
           : entry.usable
               ? tr("%1\n%2 %3\n~ marks figures of a sample")
                         .arg(entry.source.name(), entry.source.dtype(), entry.source.shape()) +
                     (entry.note.isEmpty() ? QString() : tr("\nIt %1").arg(entry.note)) +
                     (entry.nan_blocks > 0
                          ? tr("\n%1 blocks hold NaN or infinity: they have no figures and are left out")
                                .arg(entry.nan_blocks)
                          : QString())
               : tr("%1: %2 has no floating-point values to quantize").arg(entry.source.name(), entry.source.dtype());
  if (role != Qt::DisplayRole) return {};
  switch (index.column()) {
    case kName:
      return entry.source.name();
    case kType:
      return entry.source.dtype();
    case kShape:
      return entry.source.shape();
    default:
      return figure(entry, index.row(), index.column());
  }
}

QVariant TensorListModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical || role != Qt::DisplayRole) return {};
  const QStringList names{tr("tensor"), tr("shape"), tr("SQNR dB"), tr("to zero"), tr("clipped"), tr("type")};
  return names.value(section);
}

Qt::ItemFlags TensorListModel::flags(const QModelIndex& index) const {
  if (!index.isValid() || entries_[static_cast<std::size_t>(index.row())].usable)
    return QAbstractTableModel::flags(index);
  return Qt::NoItemFlags;
}

}  // namespace moescope
