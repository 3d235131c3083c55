// A table of figures without a grid; headers and cells are right-aligned. All cells show the first of their two
// forms if all have room for it, else the second; a cell without room for it is empty, so that no number is ever cut.
#pragma once

#include <QTableWidget>

namespace moescope {

class FigureTable : public QTableWidget {
  Q_OBJECT

 public:
  explicit FigureTable(const QStringList& headers, QWidget* parent = nullptr);
  void setFigure(int row, int column, const QStringList& forms, const QString& tip = {}, bool strong = false);
  // Sets the name of a row in the first column, which gets the width of the longest name.
  void setName(int row, const QString& name, const QString& tip = {}, bool strong = false);
  QString shownText(int row, int column) const;
  int leastRowHeight() const;

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  void spreadRows();
};

}  // namespace moescope
