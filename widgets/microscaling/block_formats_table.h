// The formats that training uses: element format, what shares a scale, the scales, bits per value, range.
#pragma once

#include <QTableWidget>

namespace moescope {

class BlockFormatsTable : public QTableWidget {
  Q_OBJECT

 public:
  explicit BlockFormatsTable(QWidget* parent = nullptr);
  QString csv() const;  // what the table shows
};

}  // namespace moescope
