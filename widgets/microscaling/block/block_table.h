// A block as a table: value -> scaled -> bits -> decoded -> dequantized -> error. Values are edited in place.
#pragma once

#include <QAbstractTableModel>
#include <QTableView>
#include <optional>

#include "core/numerics/block_anatomy.h"
#include "widgets/look/row_delegate.h"

namespace moescope {

class BlockModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kElement, kValue, kScaled, kBits, kDecoded, kDequantized, kError, kNote, kColumns };
  using QAbstractTableModel::QAbstractTableModel;
  void setBlock(const BlockAnatomy* block);  // owned by the caller
  const BlockAnatomy* block() const { return block_; }

  int rowCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : rows_; }
  int columnCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : kColumns; }
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;
  bool setData(const QModelIndex& index, const QVariant& value, int role) override;

 signals:
  void valueEdited(int element, float value);
  void refused(const QString& reason);  // emitted if the input is not a number

 private:
  QString text(int element, int column) const;
  QString toolTip(const ElementAnatomy& e, int column) const;
  QString scaledHeading() const;
  const BlockAnatomy* block_ = nullptr;
  int rows_ = 0;  // number of rows last reported to the views: the block may change in place
};

// Paints the bits of the code in the colours of their fields.
class BitsDelegate : public RowDelegate {
  Q_OBJECT

 public:
  using RowDelegate::RowDelegate;
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;
};

// Parses a decimal or hexadecimal float ("1e-3", "0x1.8p-7"), "nan", "inf" or "-inf"; infinite beyond the range of
// float32. Returns nullopt for other texts.
std::optional<float> parseFloat(const QString& text);

}  // namespace moescope
