#include "widgets/microscaling/tensor_list_model.h"

#include <QHash>
#include <algorithm>
#include <cmath>
#include <utility>

#include "widgets/plots/axis.h"

namespace moescope {
namespace {

QStringList partsOf(const TensorEntry& entry) {
  return entry.source.name().split(QLatin1Char('.'));
}

}  // namespace

TensorListModel::CommonParts TensorListModel::commonParts() const {
  CommonParts common;
  bool begun = false;
  for (const TensorEntry& entry : entries_) {
    if (!entry.usable) continue;
    const QStringList parts = partsOf(entry);
    if (!std::exchange(begun, true)) {
      common = {parts.mid(0, parts.size() - 1), parts.mid(1)};
      continue;
    }
    const auto limit = parts.size() - 1;
    const auto front = std::mismatch(common.first.begin(), common.first.end(), parts.begin(), parts.begin() + limit);
    common.first.erase(front.first, common.first.end());
    const auto back = std::mismatch(common.last.rbegin(), common.last.rend(), parts.rbegin(), parts.rbegin() + limit);
    common.last.erase(common.last.begin(), back.first.base());
  }
  return common;
}

TensorListModel::GroupedName TensorListModel::groupedName(const TensorEntry& entry) const {
  const QString& all = entry.source.name();
  if (entry.source.captured()) return {all.section(QStringLiteral(": "), 0, 0), all.section(QStringLiteral(": "), 1)};
  QStringList parts = partsOf(entry);
  if (parts.size() > common_.first.size() && parts.mid(0, common_.first.size()) == common_.first)
    parts = parts.mid(common_.first.size());
  const auto kept_parts = parts.size() - common_.last.size();
  if (kept_parts > 0 && parts.mid(kept_parts) == common_.last) parts = parts.mid(0, kept_parts);
  if (parts.size() > 1 && parts.back() == QLatin1String("weight")) parts.removeLast();
  const QString name = parts.takeLast();
  return {parts.join(QLatin1Char('.')), name};
}

void TensorListModel::setEntries(std::vector<TensorEntry> entries) {
  beginResetModel();
  entries_ = std::move(entries);
  requested_.clear();
  common_ = commonParts();
  arrange();
  endResetModel();
}

void TensorListModel::setFilter(const QString& text) {
  beginResetModel();
  filter_ = text;
  arrange();
  endResetModel();
}

// Places each group where its first tensor is.
void TensorListModel::arrange() {
  rows_.clear();
  std::vector<std::pair<QString, std::vector<Row>>> groups;
  QHash<QString, std::size_t> known;
  for (int entry = 0; entry < to_int(entries_.size()); ++entry) {
    const TensorEntry& tensor = entries_[entry];
    if (!tensor.source.name().contains(filter_, Qt::CaseInsensitive)) continue;
    GroupedName named = groupedName(tensor);
    if (!known.contains(named.group)) {
      known.insert(named.group, groups.size());
      groups.emplace_back(named.group, std::vector<Row>());
    }
    groups[known.value(named.group)].second.push_back({entry, std::move(named.name)});
  }
  for (auto& [name, rows] : groups) {
    if (!name.isEmpty()) rows_.push_back({-1, name});
    for (Row& row : rows) rows_.push_back(std::move(row));
  }
}

void TensorListModel::setFigures(int entry, const QuantSums& sums, bool sampled) {
  if (entry >= to_int(entries_.size())) return;
  TensorEntry& tensor = entries_[entry];
  tensor.state = TensorEntry::Figures::known;
  tensor.sampled = sampled;
  tensor.sqnr_db = sums.sqnr_db();
  tensor.nan_blocks = sums.e8m0_blocks[255];
  tensor.underflow_share = sums.underflow_share();
  tensor.clipped_share = sums.clipped_share();
  if (const int row = rowOf(entry); row >= 0) emit dataChanged(index(row, kSqnr), index(row, kUnderflow));
}

void TensorListModel::forgetFigures() {
  requested_.clear();
  for (TensorEntry& entry : entries_) entry.state = TensorEntry::Figures::none;
  if (!rows_.empty()) emit dataChanged(index(0, kSqnr), index(rowCount() - 1, kUnderflow));
}

std::vector<int> TensorListModel::takeWanted() {
  for (const int entry : requested_) entries_[entry].state = TensorEntry::Figures::asked;
  return std::exchange(requested_, {});
}

QString TensorListModel::shortName(int entry) const {
  const auto [group, name] = groupedName(entries_[entry]);
  return group.isEmpty() ? name : group + QLatin1Char('.') + name;
}

QString TensorListModel::figure(const TensorEntry& entry, int number, int column) const {
  if (!entry.usable) return QString();
  if (entry.state == TensorEntry::Figures::none && lazy_ &&
      std::find(requested_.begin(), requested_.end(), number) == requested_.end()) {
    requested_.push_back(number);
    emit figuresWanted();
  }
  if (entry.state != TensorEntry::Figures::known) return QStringLiteral("-");
  const QString about = entry.sampled ? QStringLiteral("~") : QString();
  if (column == kUnderflow) return about + formatPercent(entry.underflow_share);
  if (std::isnan(entry.sqnr_db)) return about + QString("NaN");
  return about + (entry.sqnr_db > 1e9 ? QString("exact") : formatValue(entry.sqnr_db, 3)) +
         (entry.nan_blocks > 0 ? QString(", NaN") : QString());
}

QString TensorListModel::toolTip(const TensorEntry& entry) const {
  const QString& name = entry.source.name();
  if (!entry.usable && !entry.note.isEmpty()) return QString("%1 %2").arg(name, entry.note);
  if (!entry.usable) return QString("%1: %2 has no floating-point values to quantize").arg(name, entry.source.dtype());
  QStringList lines{name, QString("%1, %2").arg(entry.source.dtype(), entry.source.shape())};
  if (!entry.note.isEmpty()) lines << QString("It %1").arg(entry.note);
  if (entry.state == TensorEntry::Figures::known && entry.clipped_share > 0)
    lines << QString("clipped: %1 of the values").arg(formatPercent(entry.clipped_share));
  if (entry.sampled) lines << QString("~: figures of a sample");
  if (entry.nan_blocks > 0)
    lines << QString("%1 blocks hold NaN or infinity: they have no figures and are left out").arg(entry.nan_blocks);
  return lines.join(QLatin1Char('\n'));
}

QVariant TensorListModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const Row& row = rows_[index.row()];
  const bool heading = row.entry < 0;
  if (role == kHeadingRole) return heading;
  if (role == Qt::TextAlignmentRole)
    return int((index.column() == kName ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
  if (heading) return role == Qt::DisplayRole && index.column() == kName ? QVariant(row.text) : QVariant();
  const TensorEntry& entry = entries_[row.entry];
  if (role == Qt::ToolTipRole) return toolTip(entry);
  if (role == kShapeRole) return QString(entry.source.shape()).replace(QLatin1Char('x'), QChar(0xd7));
  if (role != Qt::DisplayRole) return {};
  return index.column() == kName ? row.text : figure(entry, row.entry, index.column());
}

QVariant TensorListModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical) return {};
  if (role == Qt::TextAlignmentRole) return int((section == kName ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  if (section == kName && !common_.first.isEmpty()) return common_.first.join(QLatin1Char('.'));
  return QStringList{"tensor", "SQNR, dB", "to zero"}.value(section);
}

Qt::ItemFlags TensorListModel::flags(const QModelIndex& index) const {
  const int entry = index.isValid() ? entryAt(index.row()) : -1;
  const bool usable = entry >= 0 && entries_[entry].usable;
  return usable ? QAbstractTableModel::flags(index) : Qt::NoItemFlags;
}

}  // namespace moescope
