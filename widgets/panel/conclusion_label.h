// The conclusion above a panel's plot: rich text of a line or two, hidden when empty.
#pragma once

#include <QLabel>

namespace moescope {

class ConclusionLabel : public QLabel {
  Q_OBJECT

 public:
  explicit ConclusionLabel(QWidget* parent = nullptr);
  // May be called while a plot paints: the label changes afterwards, since a growing label moves the plot.
  void say(const QString& html);
};

// "B 1.3 %" with the letter in the run's colour; for rich text.
class Selection;
QString runFigure(const Selection& selection, int run, const QString& figure, const QPalette& palette);

}  // namespace moescope
