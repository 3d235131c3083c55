// Several figures over steps as tiles with their values; a click on one shows its curves, "All" as many as fit.
#pragma once

#include <QComboBox>

#include "widgets/panel/panel.h"
#include "widgets/plots/line_plot.h"
#include "widgets/plots/value_tile.h"

namespace moescope {

class FiguresPanel : public Panel {
  Q_OBJECT

 public:
  struct Figure {
    QString name;
    QString caption;  // along the value axis
    std::vector<std::pair<Metric, QString>> curves;
    int room = 2;    // width of its tile, relative to the others
    QString hint{};  // tool tip of its tile
  };

  FiguresPanel(Selection* selection, const QString& title, std::vector<Figure> figures, QWidget* parent = nullptr);
  QString csv() const override;
  QVariantMap saveState() const override;
  void restoreState(const QVariantMap& state) override;

 protected:
  // Adds reference lines to a figure and sets the least range of its axis.
  virtual void decorate(int figure, LinePlot* plot, std::vector<ReferenceLine>* references) const = 0;
  // Why a figure has no values although there are steps; empty: it has some.
  virtual QString whyNothing(int) const { return {}; }
  QString figureCards() const;  // the explanations of all curves
  int layer() const;            // kWholeRun: mean
  FigureTarget target(const MetricInfo& info) const override;
  QString status() const override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void showFigure(int figure);  // count of figures: all that fit
  void refill(int figure);
  void arrange();
  QString valueText(int figure) const;

  std::vector<Figure> figures_;
  QComboBox* layers_;
  QWidget* body_;
  std::vector<ValueTile*> tiles_;  // and one for all
  std::vector<LinePlot*> plots_;
  int shown_ = 0;
};

}  // namespace moescope
