// Hardware cost of the load: rows of zeros that a grouped GEMM computes if groups are padded to 8, 16, 32 or 128 rows,
// copies that a router with a capacity factor would drop, and rows that would fill experts up to their capacity. All
// are computed from tokens_per_expert.
#pragma once

#include <QSlider>
#include <array>

#include "widgets/panel/panel.h"
#include "widgets/plots/curve_plot.h"
#include "widgets/plots/value_tile.h"

namespace moescope {

class PaddingAndCapacityPanel : public Panel {
  Q_OBJECT

 public:
  static constexpr std::array<std::uint32_t, 4> kAlignments = {8, 16, 32, 128};

  explicit PaddingAndCapacityPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  void showFigure(int figure);  // index of kAlignments, or one of the two after them: dropped copies, filler rows
  void setCapacityFactor(double factor);
  double capacityFactor() const;
  void refill();
  void drawPadding();
  void drawAgainstCapacity();
  QStringList describe(double x) const;
  QString valueText(int figure) const;
  double figureOf(const RouterFrame& router, int figure) const;
  FigureTarget figure(int which, int layer, double factor) const;

  CurvePlot* plot_;
  QSlider* factor_;
  QWidget* factor_row_;
  QLabel* factor_text_;
  std::array<ValueTile*, kAlignments.size() + 2> tiles_{};
  int shown_ = static_cast<int>(kAlignments.size());
  std::shared_ptr<const TelemetryFrame> frame_;
};

}  // namespace moescope
