// Figures over steps as tiles with their values. A click on a tile shows its curves. All texts and references come from
// the rows of the figures (core/frame/figures.h).
#pragma once

#include <QComboBox>

#include "core/recording/history/router_window.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/line_plot.h"
#include "widgets/plots/value_tile.h"

namespace moescope {

class FiguresPanel : public Panel {
  Q_OBJECT

 public:
  using Figure = std::vector<Metric>;  // curves of one plot; the tile shows the first

  FiguresPanel(Selection* selection, const QString& title, std::vector<Figure> figures, QWidget* parent = nullptr);
  ValueTable table() const override;
  bool hasFigures(const History& run) const;  // whether any layer has any of them at the last step
  QString explain() const override;           // with the cards of all curves in place of "{figures}"

 protected:
  void setFiguresShown(bool shown);  // shows or hides tiles and plot
  FigureTarget target(const MetricInfo& info) const override;
  QString status() const override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  ValueTile* addTile(int figure);
  void showFigure(int figure);
  void showTilesWithData();
  void fitTiles();
  void showOneWithData();                // shows a figure with data, unless the user has chosen one
  QString whyNothing(int figure) const;  // why a figure has no values although there are steps; empty: it has
  // Layer of a figure of a run, the worst one of this figure if the worst is shown; kWholeRun: mean.
  int layerIn(const History& run, int figure) const;
  const RouterWindow& windowOf(const History& run) const;  // at the shown step
  int layerOf(int figure) const { return selection_->history() ? layerIn(*selection_->history(), figure) : kWholeRun; }
  void refill();
  bool showsWorst() const;
  void followWorst();
  std::int64_t olderStep(int figure) const;
  QStringList placeText(int figure) const;  // layer of the shown value, from long to short
  QString valueText(int figure) const {
    return selection_->history() ? valueIn(*selection_->history(), figure) : QString();
  }
  QString valueIn(const History& run, int figure) const;
  void addOtherRuns(std::vector<LineSeries>& series) const;
  Metric tileMetric(int figure) const { return figures_[figure].front(); }
  QString layersText() const;

  std::vector<Figure> figures_;
  QComboBox* layers_;
  QWidget* tile_row_;
  std::vector<ValueTile*> tiles_;
  std::vector<bool> has_data_;  // for each tile
  LinePlot* plot_;
  int drawn_layer_ = kWholeRun;
  mutable RouterWindow window_;
  mutable const History* window_run_ = nullptr;  // run and step of the window, which takes some milliseconds
  mutable std::int64_t window_step_ = -1;
  const History* known_ = nullptr;  // run whose tiles are shown; only compared
  int shown_ = 0;
  bool chosen_ = false;  // the user has chosen what is shown
};

}  // namespace moescope
