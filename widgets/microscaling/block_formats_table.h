// The formats used in training: element format, values that share a scale, scales, bits per value, range.
#pragma once

#include <QTableWidget>

namespace moescope {

class BlockFormatsTable : public QTableWidget {
  Q_OBJECT

 public:
  explicit BlockFormatsTable(QWidget* parent = nullptr);
  QString csv() const;  // the table as CSV
};

}  // namespace moescope
