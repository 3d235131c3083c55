// Load of every expert of the chosen layer over steps, on the scale of the expert load.
#pragma once

#include "widgets/panel/layer_combo.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/time_heat_map.h"
#include "widgets/router/cluster_orders.h"
#include "widgets/router/fullest_experts.h"
#include "widgets/router/load_scale_button.h"

namespace moescope {

class LoadOverTimePanel : public Panel {
  Q_OBJECT

 public:
  explicit LoadOverTimePanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override;
  Answer answer() const override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  enum Sort { by_id, by_load, by_cluster };
  void addViews();
  void refill();
  void refillFullest();
  const RouterFrame* router() const;  // router of the selected layer at the cursor; nullptr: none
  QStringList describe(int expert, std::int64_t step) const;
  QString columnText(int expert, std::int64_t step) const;

  // Summary of the steps that share a pixel.
  Summary summary() const { return summary_->currentIndex() == 0 ? Summary::mean : Summary::farthest; }
  std::vector<int> order();

  TimeHeatMap* plot_;
  FullestExperts* fullest_;
  mutable std::shared_ptr<const TelemetryFrame> frame_;
  ClusterOrders clusters_;
  QComboBox *summary_, *sort_;
  LoadScaleButton* scale_;
};

}  // namespace moescope
