// Relations of the experts of a layer: a matrix of the tokens that choose both, N(i and j) / N(i) against chance; a map
// of the experts by the kinds of their tokens; and, on request, the similarity of their outputs.
#pragma once

#include <QComboBox>
#include <QStackedWidget>

#include "core/frame/expert_map.h"
#include "widgets/panel/measured_experts.h"
#include "widgets/panel/panel.h"
#include "widgets/panel/view_switch.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/plots/scatter_plot.h"
#include "widgets/text/expert_tables.h"
#include "widgets/text/measure_button.h"

namespace moescope {

class CoactivationPanel : public Panel {
  Q_OBJECT

 public:
  explicit CoactivationPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

  MeasureButton* measureButton() const { return measure_; }
  void showSimilarity(std::shared_ptr<const MeasuredSimilarity> measured);  // nullptr: not measured

 signals:
  void similarityRequested(int run, std::int64_t step);  // for a run of this program, with the weights before `step`

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  enum View { kMatrix, kMap, kSimilarity };  // entries of the switch
  bool shows(View view) const { return switch_->current() == view; }
  void makeMap();
  void makeMeasureButton();
  void showView();
  void showFigures();
  void showButton();
  // Returns the step and the similarities of the active run at the cursor; nullptr if they were not measured.
  const MeasuredSimilarity::ByStep::value_type* measured() const { return atCursor(measured_, *selection_); }
  const LayerSimilarity* similarity() const;  // in the selected layer; nullptr: not measured
  void refill();
  void refillTogether();
  void refillSimilarity();
  void refillMap();
  void showOrder(const QString& title);  // names the experts at the axes
  LegendScale legend() const;
  int topK(const SpecialisationFrame& table) const;
  void paintNumbers(QPainter& painter) const;
  QStringList describe(int row, int column) const;
  QStringList describePair(int i, int j) const;
  QStringList describeSimilarity(int i, int j) const;
  QStringList describeOnMap(int expert) const;
  Answer answerOfMap() const;
  Answer answerOfSimilarity() const;
  ValueTable tableOfMap() const;

  ViewSwitch* switch_;
  QStackedWidget* views_;
  MatrixPlot* view_;
  ScatterPlot* map_;
  QComboBox* sort_;
  MeasureButton* measure_ = nullptr;
  std::shared_ptr<const MeasuredSimilarity> measured_;
  ExpertGrid similar_;
  std::shared_ptr<const TelemetryFrame> frame_;
  std::vector<float> share_;
  std::vector<int> order_;
  float baseline_ = 0;
  std::shared_ptr<const TelemetryFrame> mapped_;
  ExpertMap places_;
};

}  // namespace moescope
