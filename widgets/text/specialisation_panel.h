// Use of a layer's experts by domain: lift over the expert's share of all text. A click on a domain names its experts.
#pragma once

#include <QComboBox>

#include "widgets/panel/panel.h"
#include "widgets/plots/matrix_plot.h"

namespace moescope {

class SpecialisationPanel : public Panel {
  Q_OBJECT

 public:
  explicit SpecialisationPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  void refill();
  void paintNumbers(QPainter& painter) const;
  const SpecialisationFrame* table() const;
  std::vector<int> columnOrder(const SpecialisationFrame& table, const std::vector<float>& lift) const;
  QStringList describe(int row, int column) const;
  Answer expertsOf(std::size_t domain) const;

  MatrixPlot* view_;
  QComboBox* order_;
  std::shared_ptr<const TelemetryFrame> frame_;
  std::vector<float> lift_, share_, base_;
  std::vector<int> columns_;  // expert of each column
  int domain_ = -1;           // that was clicked
};

// The table of a layer in a frame; nullptr: none.
const SpecialisationFrame* specialisationOf(const TelemetryFrame* frame, int layer);
// Legend of lift on the colours of utilisation: 1 neutral, blue below, orange above.
LegendScale liftLegend(bool dark);
QString liftText(float lift);  // text of a cell; empty: no value
QString domainName(const RunInfo& info, std::size_t domain);

}  // namespace moescope
