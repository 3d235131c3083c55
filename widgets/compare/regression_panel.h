// Whether the active run, or the first candidate if the baseline is active, is as good as the other open runs: a map of
// the distance from these runs by layer and step, the figures that left the noise band of these runs, in the order in
// which they left it, and the settings that differ (core/findings/comparison/regression_gate.h).
#pragma once

#include "core/findings/comparison/regression_gate.h"
#include "widgets/compare/judged_runs.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/sign.h"
#include "widgets/panel/figure_table.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/time_heat_map.h"

namespace moescope {

class RegressionPanel : public Panel {
  Q_OBJECT

 public:
  RegressionPanel(Selection* selection, const JudgedRuns* runs, QWidget* parent = nullptr);
  ValueTable table() const override;

 signals:
  // The verdict in a word ("Regressed"; empty without a verdict) and the first exit: "since step 8: MaxVio, layer 7".
  void judged(int run, const QString& word, Sign sign, const QString& place);

 protected:
  QString status() const override;
  Answer answer() const override;
  void showEvent(QShowEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;

 private:
  void addMap();
  void chooseRows();
  void showFigure(int table_row);  // shows the figure of this row of the table in the map, and marks its layer
  void refillMap();
  void fitMap();  // hides the map in a low panel
  const GateSeries& row(int place) const { return report_.series[rows_[place]]; }
  // Index of the block of a step; nullopt: the step is not judged.
  std::optional<std::size_t> blockOf(std::int64_t step) const;
  QStringList describe(int place, std::int64_t step) const;
  int judgedRun() const;
  std::vector<HistoryPtr> otherRuns() const;
  QString othersText(const QString& several) const;  // letter of the only other run, else `several`
  // What follows the word: " since step 8: MaxVio (batch), layer 7", or ": 60 figures in the band", from long to short.
  QStringList placeForms() const;
  QString figureName(const GateExit& exit) const;
  void judge();  // judges new steps, or another run, in the background
  void show(GateReport report);

  const JudgedRuns* runs_;
  GateReport report_;
  std::vector<std::size_t> rows_;       // series of the layers in the map: those of one figure
  std::vector<std::size_t> order_;      // exits in the rows of the table: figures with a better side first
  const MetricInfo* mapped_ = nullptr;  // figure of the layers that the user chose for the map
  double z_at_end_ = 1;                 // |z| at the ends of the map's colours
  std::uint64_t shown_reports_ = 0;
  bool is_judged_ = false;
  const History* judged_ = nullptr;  // compared only
  std::uint64_t judged_sequence_ = 0;
  TimeHeatMap* map_;
  FigureTable* figures_;
  FittedLabel* settings_;
  LatestWorker worker_;
};

}  // namespace moescope
