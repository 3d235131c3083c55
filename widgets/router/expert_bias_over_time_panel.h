// expert_bias of one layer over steps: every expert in colour, or curves of the highest, the median, the lowest and the
// chosen expert's bias.
#pragma once

#include <QComboBox>
#include <QStackedWidget>

#include "widgets/panel/controls.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/line_plot.h"
#include "widgets/plots/time_heat_map.h"

namespace moescope {

class ExpertBiasOverTimePanel : public Panel {
  Q_OBJECT

 public:
  explicit ExpertBiasOverTimePanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

 protected:
  QString status() const override { return timeStatus(selection_->step(), true); }
  Answer answer() const override;

 private:
  std::vector<float> biasNow() const;  // biases of the layer at the cursor, or the last known biases; empty: none
  QString whyNothing() const;
  void refillMap();
  void growScale();
  void refillLines();
  // Returns the result of History::expert_bias(), which is cached for the next curve.
  const std::vector<float>& image(StepRange range, int bins) const;
  std::vector<PyramidBin> curve(StepRange range, int bins, double share, int expert) const;

  QComboBox* view_;
  QStackedWidget* stack_;
  TimeHeatMap* map_;
  LinePlot* lines_;
  double limit_ = 0;    // largest bias of the colour scale
  double largest_ = 0;  // of the layer in all open runs, so that all runs have one scale
  int scaled_layer_ = -1;
  std::vector<std::pair<std::shared_ptr<const History>, std::int64_t>> scaled_;  // runs, and their steps in largest_
  struct Image {
    const History* history = nullptr;
    std::uint64_t sequence = 0;
    int layer = -1, bins = 0;
    StepRange range;
    std::vector<float> bias;
  };
  mutable Image image_;
};

}  // namespace moescope
