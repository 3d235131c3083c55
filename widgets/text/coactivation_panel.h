// Co-activation of the experts of a layer: N(i and j) / N(i) against chance.
#pragma once

#include <QComboBox>

#include "widgets/panel/panel.h"
#include "widgets/plots/matrix_plot.h"

namespace moescope {

class CoactivationPanel : public Panel {
  Q_OBJECT

 public:
  explicit CoactivationPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  void refill();
  LegendScale legend() const;
  int topK(const SpecialisationFrame& table) const;
  QStringList describe(int row, int column) const;

  MatrixPlot* view_;
  QComboBox* sort_;
  std::shared_ptr<const TelemetryFrame> frame_;
  std::vector<float> share_;
  std::vector<int> order_;
  float baseline_ = 0;
};

}  // namespace moescope
