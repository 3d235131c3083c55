// What DeepEP gains on a whole MoE layer: measured on 8 H200s (assets/calibration), the layer model's curve through the
// points, and the router that one looks at as one more place on the axis.
#pragma once

#include <QComboBox>
#include <optional>

#include "core/cluster/layer_model.h"
#include "widgets/latest_worker.h"
#include "widgets/panel.h"
#include "widgets/xy_plot.h"

namespace moescope {

struct LayerGain {
  QString name;  // of the routing
  double copies, rank_max_over_mean;
  double measured, modelled;        // standard / DeepEP time of the layer; measured NaN: only modelled
  double measured_ms, modelled_ms;  // DeepEP layer
};

struct LayerGains {
  std::vector<LayerGain> measured, by_groups, by_skew;  // the latter two: modelled curves
  std::optional<LayerGain> live;                        // modelled
};

// `model`: "671B" or "16B". `live_load`: tokens_per_expert seen here, may be empty. Pure; for a worker.
LayerGains layer_gains(const std::string& model, const std::vector<std::uint32_t>& live_load);

class MeasuredLayersPanel : public Panel {
  Q_OBJECT

 public:
  explicit MeasuredLayersPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;
  const std::optional<LayerGains>& gains() const { return gains_; }
  XyPlot* plot() const { return plot_; }

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
