// What DeepEP gains on a whole MoE layer: measured on 8 H200s (assets/calibration), the layer model's curve through the
// points, and one more point for the router on the screen.
#pragma once

#include <QComboBox>
#include <optional>

#include "core/cluster/layer_gains.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/xy_plot.h"

namespace moescope {

class DeepEPGainPanel : public Panel {
  Q_OBJECT

 public:
  explicit DeepEPGainPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;

 protected:
  QString status() const override;

 private:
  void refill();
  void draw();

  XyPlot* plot_;
  QComboBox *shape_, *axis_;
  std::optional<std::pair<std::string, std::vector<std::uint32_t>>> asked_;
  std::optional<LayerGains> gains_;
  bool computing_ = false;
  LatestWorker worker_;
};

}  // namespace moescope
