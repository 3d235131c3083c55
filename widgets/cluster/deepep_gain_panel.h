// DeepEP gain: on a whole step of the selected run's load by EP degree, as ThisImbalancePanel computes it,
// or by DeepEP on a whole MoE layer in one node: measured on 8 H200s (assets/calibration), the curve of the layer model
// through these points, and a point for the load of each open run.
#pragma once

#include <QComboBox>
#include <QStackedWidget>
#include <QTimer>
#include <optional>

#include "core/cluster/layer_model.h"
#include "core/cluster/published_runs.h"
#include "widgets/panel/figure_table.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/xy_plot.h"

namespace moescope {

class DeepEPGainPanel : public Panel {
  Q_OBJECT

 public:
  explicit DeepEPGainPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;
  // Steps of the selected run by EP degree, and the chosen degree; `steps` is empty until they are computed.
  void setSteps(std::vector<StepChoices> steps, int ep);

 protected:
  std::optional<Provenance> kind() const override;
  Answer answer() const override;

 private:
  struct Question {
    std::string model;
    std::vector<std::vector<std::uint32_t>> loads;  // of the selected layer of each run; may be empty
    bool operator==(const Question&) const = default;
  };
  struct Answer {
    std::string model;
    LayerGains gains;
    std::vector<std::optional<LayerGain>> live;  // of each run
  };
  void refill();
  void ask();
  void draw();
  void fillSteps();
  void showView();
  ValueTable stepsTable() const;
  QStringList measuredForms() const;  // measured range of the gain, from long to short
  const LayerGain* selectedGain() const;

  enum Axes { whole_step, by_copies, by_imbalance, time };  // entries of axis_
  Axes axes() const { return static_cast<Axes>(axis_->currentIndex()); }

  XyPlot* plot_;
  FigureTable* steps_table_;
  QStackedWidget* views_;
  QComboBox *shape_, *axis_;
  std::vector<StepChoices> steps_;
  int ep_ = 32;
  Question question_;
  const History* run_ = nullptr;  // the first of the live points; only compared, never dereferenced
  std::optional<Answer> answer_;
  bool computing_ = false;
  QTimer pause_;  // pause before the next load, since a run in training has a new load at every step
  LatestWorker worker_;
};

}  // namespace moescope
