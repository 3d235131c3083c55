// The values of a block as pairs of bars: original and dequantized.
#pragma once

#include "core/numerics/block_anatomy.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

class BlockBars : public PlotFrame {
  Q_OBJECT

 public:
  explicit BlockBars(QWidget* parent = nullptr);
  void setBlock(const BlockAnatomy* block);  // owned by the caller
  void setCurrent(int element);              // selected element; -1: none

 signals:
  void elementChosen(int element);

 protected:
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  Axis valueAxis() const;
  bool isLow() const;  // true if the plot is too low for a row with caption and key
  void paintKey(QPainter& painter) const;
  QRectF slot(int element) const;
  int elementAt(QPoint position) const;

  const BlockAnatomy* block_ = nullptr;
  int current_ = -1;
};

// Returns the readout of an element: "x3 = 0.5 -> 0.46875, error -0.03125, flushed to zero".
QStringList elementReadout(const BlockAnatomy& block, int element);

}  // namespace moescope
