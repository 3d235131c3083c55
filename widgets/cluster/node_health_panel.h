// What failing nodes cost a run on a cluster: goodput and lost steps with an injected fault, or with random ones by
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
  QString explain() const override;

 private:
  NodeHealthConfig config() const;
  void compute();

  QComboBox *kind_, *view_;
  QSpinBox *step_, *mtbf_, *checkpoint_;
  QLabel* summary_;
  LaneChart* strip_;
  XyPlot* curve_;
  QPlainTextEdit* events_;
  HealthOutcome outcome_;
};

}  // namespace moescope
