// A tile with a name over a number, and below that where it is from, if that is told. The number is read
// while painting, so that hidden tiles compute nothing. Checkable tiles choose what the plot below shows.
#pragma once

#include <QAbstractButton>
#include <QStringList>
#include <functional>

#include "core/explain/explain.h"
#include "widgets/selection/selection.h"

namespace moescope {

class ValueTile : public QAbstractButton {
  Q_OBJECT

 public:
  ValueTile(Selection* selection, const QString& name, std::function<QString()> value, QWidget* parent = nullptr);
  std::function<FigureTarget()> figure;    // what the number is, for the explain card; empty: not a single figure
  void setShortName(const QString& name);  // shown where the name has no room
  // Where the number is from, from long to short: {"layer 37", "L37"}.
  void setPlace(std::function<QStringList()> place);
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  QFontMetrics captionMetrics() const;

  QStringList names_;  // long to short
  std::function<QString()> value_;
  std::function<QStringList()> place_;  // empty: not told
};

}  // namespace moescope
