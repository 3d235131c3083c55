// How even the load is, over steps: MaxVio of the batch and of the window with the level of pure chance, coefficient
// of variation, normalised entropy, dead experts.
#pragma once

#include <QComboBox>
#include <array>

#include "widgets/line_plot.h"
#include "widgets/panel.h"
#include "widgets/value_tile.h"

namespace moescope {

class BalancePanel : public Panel {
  Q_OBJECT

 public:
  explicit BalancePanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;
  QVariantMap saveState() const override;
  void restoreState(const QVariantMap& state) override;

  static constexpr int kFigures = 4;
  void showFigure(int figure);  // kFigures: as many of them as there is room for
  void setOneLayer(bool one);   // the chosen layer instead of the mean over layers

 protected:
  QString status() const override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void refill(int figure);
  void arrange();
  int layer() const;  // kWholeRun: mean
  QString valueText(int figure) const;

  QComboBox* layers_;
  QWidget* body_;
  std::array<ValueTile*, kFigures + 1> tiles_{};
  std::array<LinePlot*, kFigures> plots_{};
  int shown_ = 0;
};

}  // namespace moescope
