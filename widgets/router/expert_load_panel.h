// Load of every expert of every layer at one step: utilisation, 1 = fair, on a diverging log2 scale.
#pragma once

#include <QComboBox>

#include "widgets/panel/panel.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/router/cluster_orders.h"
#include "widgets/router/load_scale_button.h"

namespace moescope {

class ExpertLoadPanel : public Panel {
  Q_OBJECT

 public:
  explicit ExpertLoadPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;
  QVariantMap saveState() const override;
  void restoreState(const QVariantMap& state) override;

 protected:
  QString status() const override;

 private:
  enum Sort { by_id, by_load, by_cluster };
  void refill();
  void markCurrent();
  void paintNumbers(QPainter& painter) const;
  QStringList describe(int row, int column) const;
  const RouterFrame& routerAt(int row) const { return frame_->routers[row]; }
  int expertAt(int row, int column) const { return order_[row][column]; }

  MatrixPlot* view_;
  QComboBox* sort_;
  LoadScaleButton* scale_;
  std::shared_ptr<const TelemetryFrame> frame_;
  ClusterOrders clusters_;
  std::vector<int> orderOf(const RouterFrame& router, int columns);
  std::vector<std::vector<int>> order_;  // [row][column] -> expert
};

}  // namespace moescope
