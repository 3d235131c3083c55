// A bar for each layer with its height in percent, chance as a line.
#pragma once

#include <functional>
#include <vector>

#include "widgets/plots/plot_frame.h"

namespace moescope {

class StabilityBars : public PlotFrame {
  Q_OBJECT

 public:
  struct Bar {
    int layer;
    float stability;  // kNoValue: cannot be compared
  };
  explicit StabilityBars(QWidget* parent = nullptr) : PlotFrame(parent) { setMouseTracking(true); }
  void setBars(std::vector<Bar> bars, float baseline, int current_layer, const QString& caption);
  std::function<QStringList(int bar)> describe;
  std::function<FigureTarget(int layer)> figureOfLayer;  // figure of a layer, for the explain card
  std::optional<FigureTarget> figureAt(QPoint position) const override;

 signals:
  void layerChosen(int layer);

 protected:
  QMargins margins() const override { return {axisLabelWidth(), withType(20), 10, withType(22)}; }
  QString staticKey() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;

 private:
  QRectF slot(std::size_t bar) const;
  int barAt(QPoint position) const;
  std::vector<Bar> bars_;
  float baseline_ = 0;
  QString caption_;
  int current_ = -1;
};

}  // namespace moescope
