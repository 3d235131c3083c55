// What a panel's picture says, in words above it: rich text, a line or two, nothing where there is nothing to say.
#pragma once

#include <QLabel>

namespace moescope {

class ConclusionLabel : public QLabel {
  Q_OBJECT

 public:
  explicit ConclusionLabel(QWidget* parent = nullptr);
  // May be called while a plot beside it paints: a label that grows moves the plot, so it changes afterwards.
  void say(const QString& html);
};

// "B 1.3 %" with the letter in the run's colour; for rich text.
QString runFigure(int run, const QString& figure, const QPalette& palette);

}  // namespace moescope
