// The magnitudes of a block's values on an axis of powers of two: outlines before and bars after quantization. Bands
// mark magnitudes that are clipped and magnitudes that become zero; a row below the axis has the signs.
#pragma once

#include "core/numerics/block_anatomy.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

class BlockBars : public PlotFrame {
  Q_OBJECT

 public:
  explicit BlockBars(QWidget* parent = nullptr);
  // `block` is owned by the caller. `color`: index of seriesColor.
  void setBlock(const BlockAnatomy* block, int color);
  void setCurrent(int element);  // selected element; -1: none

 signals:
  void elementChosen(int element);

 protected:
  QMargins margins() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void chooseRange();
  Axis exponentAxis() const { return axisUp(low_, high_); }
  double yOf(double magnitude) const;                      // lower edge of the plot for 0
  bool isLow() const { return height() < withType(100); }  // no room for captions, key and signs
  void paintLevels(QPainter& painter) const;
  void paintLimit(QPainter& painter, double y, const QRectF& band, QRgb ground, const QStringList& label) const;
  void paintKey(QPainter& painter) const;
  QRectF slot(int element) const;
  int elementAt(QPoint position) const;

  const BlockAnatomy* block_ = nullptr;
  double largest_ = 0, smallest_ = 0;  // magnitudes above are clipped, magnitudes below become zero; 0: not known
  int low_ = -1, high_ = 1;            // exponents of the ends of the axis
  int color_ = 0;
  int current_ = -1;
};

// Returns the readout of an element: "x3 = 0.5 -> 0.46875, error -0.03125, flushed to zero".
QStringList elementReadout(const BlockAnatomy& block, int element);

}  // namespace moescope
