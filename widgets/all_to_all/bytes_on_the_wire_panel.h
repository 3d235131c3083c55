// Bytes that the all-to-alls of a training over several processes sent, beside the bytes counted from the routing, and
// the times of the all-to-alls.
#pragma once

#include <map>

#include "widgets/panel/figure_table.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/xy_plot.h"

namespace moescope {

class BytesOnTheWirePanel : public Panel {
  Q_OBJECT

 public:
  explicit BytesOnTheWirePanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override;
  Answer answer() const override;
  void showEvent(QShowEvent* event) override;

 private:
  struct Row {                         // one for each sending rank; sums over the other ranks
    double measured = 0, counted = 0;  // bytes of the step; counted: NaN if the step has no volumes
    double ms = 0;
  };
  struct Times {
    double mean = 0, slowest = 0;  // ms
  };
  void renew();
  bool fillRows(const TelemetryFrame& frame);
  void fillTable();
  void fillPlot(const History& history);

  FigureTable* table_;
  XyPlot* plot_;
  std::vector<Row> rows_;
  std::int64_t step_ = -1;
  QString payload_;
  bool over_nodes_ = false;
  const History* times_of_ = nullptr;
  std::uint64_t times_since_ = 0;
  std::map<std::int64_t, Times> times_;  // times of the frames that were read, by step
};

}  // namespace moescope
