// Cost of failing nodes to a run on a cluster: goodput and lost steps with an injected fault, or with random faults by
// MTBF.
#pragma once

#include <QComboBox>
#include <QLabel>
#include <QPlainTextEdit>
#include <QSpinBox>

#include "core/cluster/node_health.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/lane_chart.h"
#include "widgets/plots/xy_plot.h"

namespace moescope {

class NodeHealthPanel : public Panel {
  Q_OBJECT

 public:
  explicit NodeHealthPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  NodeHealthConfig config() const;
  QWidget* makeFields();
  QSpinBox* makeSpin(const QString& name, int high, int value, const QString& tip);
  void compute();
  void fillEvents();
  void fillCurve();

  QComboBox *kind_, *view_;
  QSpinBox *step_, *mtbf_, *checkpoint_;
  LaneChart* strip_;
  XyPlot* curve_;
  QPlainTextEdit* events_;
  HealthOutcome outcome_;
  std::int64_t steps_ = 1, best_every_ = 0;  // steps of the run; best checkpoint interval, 0: not known
};

}  // namespace moescope
