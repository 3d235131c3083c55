#include "widgets/microscaling/block/block_table.h"

#include <QGuiApplication>
#include <QPainter>
#include <cmath>
#include <cstdlib>

#include "widgets/look/tokens.h"
#include "widgets/panel/format_text.h"
#include "widgets/plots/axis.h"

namespace moescope {

namespace {

constexpr int kBitsGap = 7;  // pixels between the bits of two rows

QString printed(float value) {
  return withMinus(exactText(value));
}

}  // namespace

std::optional<float> parseFloat(const QString& text) {
  const QByteArray bytes = text.trimmed().toLatin1();
  if (bytes.isEmpty()) return std::nullopt;
  char* end = nullptr;
  // strtof reads decimal numbers and the output of %a; the program's numeric locale is "C".
  const float value = std::strtof(bytes.constData(), &end);
  if (end != bytes.constData() + bytes.size()) return std::nullopt;
  return value;
}

void BlockModel::setBlock(const BlockAnatomy* block) {
  const int rows = to_int(block->elements.size());
  if (rows == rows_) {
    block_ = block;
    emit dataChanged(index(0, 0), index(rowCount() - 1, kColumns - 1));
    emit headerDataChanged(Qt::Horizontal, kScaled, kScaled);
    return;
  }
  beginResetModel();
  block_ = block;
  rows_ = rows;
  endResetModel();
}

// Shows four digits; tool tip and editor have the exact value.
QString BlockModel::text(int element, int column) const {
  const ElementAnatomy& e = block_->elements[element];
  const auto digits = [](float v) { return std::isfinite(v) ? withMinus(QString::number(v, 'g', 4)) : printed(v); };
  switch (column) {
    case kElement:
      return QString::number(element);
    case kValue:
      return digits(e.value);
    case kScaled:
      return digits(e.scaled);
    case kDecoded:
      return printed(e.decoded);
    case kDequantized:
      return digits(e.dequantized);
    case kError:
      return std::isnan(e.error) ? QStringLiteral("NaN") : withMinus(QString::number(e.error, 'g', 3));
    case kNote:
      if (std::isnan(e.dequantized)) return QString("NaN block");
      if (e.underflow) return QString("to zero");
      if (e.clipped) return QString("clipped");
      if (e.fields.kind == CodeKind::subnormal) return QString("subnormal");
      if (e.error == 0) return QString("exact");
      return QString();
  }
  return {};
}

QVariant BlockModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || !block_) return {};
  const ElementAnatomy& e = block_->elements[index.row()];
  switch (role) {
    case Qt::DisplayRole:
      return text(index.row(), index.column());
    case Qt::EditRole:
      return exactText(e.value);
    case Qt::TextAlignmentRole:
      return int(index.column() == kNote ? Qt::AlignLeft | Qt::AlignVCenter : Qt::AlignRight | Qt::AlignVCenter);
    case Qt::AccessibleTextRole:
      if (index.column() == kBits)
        return QString::number(e.fields.code, 2).rightJustified(traits(block_->format.element).bits, QLatin1Char('0'));
      return text(index.row(), index.column());
    case Qt::ForegroundRole:
      return index.column() == kElement || index.column() == kNote
                 ? QVariant(QGuiApplication::palette().placeholderText())
                 : QVariant();
    case Qt::ToolTipRole:
      return toolTip(e, index.column());
  }
  return {};
}

QString BlockModel::toolTip(const ElementAnatomy& e, int column) const {
  if (column == kValue) return QString("%1\nDouble click or F2 to edit: a number, nan, inf").arg(printed(e.value));
  return QString(
             "value / scale = %6, decoded × scale = %7, error %8\n"
             "code 0x%1: %2\n"
             "neighbours %3 and %4; the value lies %5 of the way from the lower to the upper")
      .arg(e.fields.code, 2, 16, QLatin1Char('0'))
      .arg(printedText(e.fields.formula), printed(e.grid.below), printed(e.grid.above), formatPercent(e.probability_up),
           printed(e.scaled), printed(e.dequantized), withMinus(QString::number(e.error, 'g', 9)));
}

// Returns the heading of the scaled values, with their divisor if it is a power of two; other scales are in the cards.
QString BlockModel::scaledHeading() const {
  const bool power = block_ && !block_->is_nan() && block_->format.scheme == QuantScheme::mx;
  return QStringLiteral("\u00f7 ") + (power ? formatPowerOfTwo(block_->scale.code - 127) : QString("scale"));
}

QVariant BlockModel::headerData(int section, Qt::Orientation orientation, int role) const {
  const Qt::Alignment side = section == kNote ? Qt::AlignLeft : Qt::AlignRight;
  if (role == Qt::TextAlignmentRole) return int((section == kBits ? Qt::AlignHCenter : side) | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  if (orientation == Qt::Vertical) return section;
  const QStringList names{QString(), "value", scaledHeading(), "code", "decoded", "\u00d7 scale", "error", QString()};
  return names.value(section);
}

Qt::ItemFlags BlockModel::flags(const QModelIndex& index) const {
  const Qt::ItemFlags flags = QAbstractTableModel::flags(index);
  return index.column() == kValue ? flags | Qt::ItemIsEditable : flags;
}

bool BlockModel::setData(const QModelIndex& index, const QVariant& value, int role) {
  if (role != Qt::EditRole || index.column() != kValue) return false;
  const std::optional<float> number = parseFloat(value.toString());
  if (!number) {
    emit refused(QString("'%1' is not a number; allowed: 0.5, 1e-3, 0x1p-7, nan, inf").arg(value.toString()));
    return false;
  }
  emit valueEdited(index.row(), *number);
  return true;
}

void BitsDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const {
  RowDelegate::paint(painter, option, index);
  const auto* model = qobject_cast<const BlockModel*>(index.model());
  if (!model || !model->block()) return;
  const BlockAnatomy& block = *model->block();
  const BitLayout layout = bitLayout(block.format.element);
  const QRect area = option.rect.adjusted(kSpace12, 3, -kSpace4, -kBitsGap + 3);
  painter->save();
  painter->setFont(option.font);
  paintBits(*painter, area, layout, block.elements[index.row()].fields.code, option.palette);
  painter->restore();
}

QSize BitsDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex&) const {
  const int height = option.fontMetrics.height() + kSpace4;
  return {bitsWidth({1, 5, 2}, height - kBitsGap) + kSpace24, height};
}

}  // namespace moescope
