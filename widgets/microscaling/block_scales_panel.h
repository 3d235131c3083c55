// The block scales of one quantized operand: E8M0 exponents over steps, and their histogram at the cursor beside it on
// the same axis.
#pragma once

#include "widgets/panel/panel.h"
#include "widgets/plots/histogram.h"
#include "widgets/plots/time_heat_map.h"

namespace moescope {

class BlockScalesPanel : public Panel {
  Q_OBJECT

 public:
  explicit BlockScalesPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

 protected:
  std::optional<Provenance> kind() const override { return selection_->quantFrame() ? Panel::kind() : std::nullopt; }
  QString status() const override;
  Answer answer() const override;

 private:
  void refillWaterfall();
  void refillBars();
  void updateRows();
  QString runWithScales() const;
  QString notice() const;  // why there is nothing to show; empty if there is something
  QStringList describe(int byte, std::int64_t step) const;
  FigureTarget scalesAt(std::int64_t step) const;

  TimeHeatMap* waterfall_;
  Histogram* bars_;
  int first_byte_ = 0, last_byte_ = -1;  // range of the axis, which only grows for the same tensor
  QString rows_of_;
};

}  // namespace moescope
