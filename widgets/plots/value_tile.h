// A tile with a name above a number, and the place of the number below it if `place` is set. The number is computed
// while painting, so that hidden tiles compute nothing. Checkable tiles choose what the plot below them shows.
#pragma once

#include <QAbstractButton>
#include <QStringList>
#include <functional>

#include "core/findings/explain/explain.h"
#include "widgets/selection/selection.h"

namespace moescope {

class ValueTile : public QAbstractButton {
  Q_OBJECT

 public:
  ValueTile(Selection* selection, const QString& name, std::function<QString()> value, QWidget* parent = nullptr);
  std::function<FigureTarget()> figure;  // figure of the number, for the explain card; empty: not a single figure
  // The place of the number, from long to short: {"layer 37", "L37"}.
  void setPlace(std::function<QStringList()> place);
  bool isEmpty() const { return value_().isEmpty(); }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  QFontMetrics captionMetrics() const;

  std::function<QString()> value_;
  std::function<QStringList()> place_;  // place of the number; empty: not shown
};

}  // namespace moescope
