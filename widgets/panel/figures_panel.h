// Several figures over steps as tiles with their values. A click on a tile shows its curves; "All" shows as many as
// fit.
#pragma once

#include <QComboBox>

#include "core/history/worst_layer.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/line_plot.h"
#include "widgets/plots/value_tile.h"

namespace moescope {

class FiguresPanel : public Panel {
  Q_OBJECT

 public:
  struct Figure {
    QString name;
    QString caption;  // caption of the value axis
    std::vector<std::pair<Metric, QString>> curves;
    int room = 2;    // width of its tile, relative to the others
    QString hint{};  // tool tip of its tile
    // Which layer is the worst, by the last curve. If a figure has it, the panel first shows the worst layer and names
    // it, because a mean hides one bad layer among many.
    std::optional<Worst> worst{};
    int told = 0;          // index of the curve whose value the tile shows
    QString short_name{};  // shown if the name does not fit
  };

  FiguresPanel(Selection* selection, const QString& title, std::vector<Figure> figures, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;  // with the cards of all curves in place of "{figures}"

 protected:
  // Adds reference lines to a figure and sets the least range of its axis.
  virtual void decorate(int figure, LinePlot* plot, std::vector<ReferenceLine>* references) const = 0;
  // Returns why a figure has no values although there are steps; empty if it has some.
  virtual QString whyNothing(int) const { return {}; }
  int layerOf(int figure) const;  // kWholeRun: mean
  FigureTarget target(const MetricInfo& info) const override;
  QString status() const override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void showFigure(int figure);  // shows a figure; with the number of figures, all that fit
  void showTilesWithData();
  void showOneWithData();  // shows a figure with data, unless the user has chosen one
  void refill(int figure);
  void arrange();
  bool showsWorst() const;
  void followWorst();
  std::int64_t olderStep(int figure) const;
  QStringList placeText(int figure) const;  // layer of the shown value, from long to short
  QString valueText(int figure) const;
  Metric tileMetric(int figure) const;

  std::vector<Figure> figures_;
  QComboBox* layers_;
  QWidget* body_;
  std::vector<ValueTile*> tiles_;  // a tile for each figure, and one for all
  std::vector<LinePlot*> plots_;
  std::vector<int> drawn_layers_;   // layer drawn in each plot
  const History* known_ = nullptr;  // run whose tiles are shown; only compared
  int shown_ = 0;
  bool chosen_ = false;  // the user has chosen what is shown
};

}  // namespace moescope
