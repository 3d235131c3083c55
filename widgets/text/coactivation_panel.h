// Co-activation of the experts of a layer: N(i and j) / N(i) against chance. A second view is a map of the experts by
// the kinds of tokens that they take.
#pragma once

#include <QComboBox>
#include <QStackedWidget>

#include "core/frame/expert_map.h"
#include "widgets/panel/panel.h"
#include "widgets/panel/view_switch.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/plots/scatter_plot.h"

namespace moescope {

class CoactivationPanel : public Panel {
  Q_OBJECT

 public:
  explicit CoactivationPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  void makeMap();
  void refill();
  void refillMap();
  bool showsMap() const { return views_->currentWidget() == map_; }
  LegendScale legend() const;
  int topK(const SpecialisationFrame& table) const;
  QStringList describe(int row, int column) const;
  QStringList describeOnMap(int expert) const;
  Answer answerOfMap() const;
  QString csvOfMap() const;

  ViewSwitch* switch_;
  QStackedWidget* views_;
  MatrixPlot* view_;
  ScatterPlot* map_;
  QComboBox* sort_;
  std::shared_ptr<const TelemetryFrame> frame_;
  std::vector<float> share_;
  std::vector<int> order_;
  float baseline_ = 0;
  std::shared_ptr<const TelemetryFrame> mapped_;
  ExpertMap places_;
};

}  // namespace moescope
