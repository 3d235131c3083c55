// Load against gate mass for each expert of a layer: share of the assignments against share of the mixing weights (or
// of the raw scores), one point for each expert, coloured by its bias.
#pragma once

#include <QComboBox>

#include "core/recording/history/last_array.h"
#include "widgets/panel/layer_combo.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/scatter_plot.h"

namespace moescope {

class GateMassAgainstLoadPanel : public Panel {
  Q_OBJECT

 public:
  explicit GateMassAgainstLoadPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

 protected:
  QString status() const override { return frame_ ? timeStatus(frame_->step, true) : QString(); }
  Answer answer() const override;

 private:
  void refill();
  void takeFrame() const;             // takes the frame at the cursor, or the last frame before it that has gate masses
  const RouterFrame* router() const;  // router of the selected layer; nullptr: none
  const std::vector<float>& mass(const RouterFrame& router) const;

  ScatterPlot* plot_;
  QComboBox* mass_;
  mutable std::shared_ptr<const TelemetryFrame> frame_;
  mutable LastArray last_gate_{&RouterFrame::gate_mass}, last_score_{&RouterFrame::score_mass};
};

}  // namespace moescope
