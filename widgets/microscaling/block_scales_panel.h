// The block scales of one quantized operand: E8M0 exponents over steps, and their histogram at the cursor beside it on
// the same axis.
#pragma once

#include <array>

#include "widgets/panel/panel.h"
#include "widgets/plots/histogram.h"
#include "widgets/plots/time_heat_map.h"

namespace moescope {

// Sampled blocks of a captured operand by their scale byte, and how many of them lose kLosingShare of their values or
// more.
struct BlockLosses {
  static constexpr double kLosingShare = 0.125;
  OperandPlace operand;
  std::array<int, 256> blocks{}, losing{};
  int sampled = 0;
  int shown = -1;  // scale byte of the block in the microscope
};

class BlockScalesPanel : public Panel {
  Q_OBJECT

 public:
  explicit BlockScalesPanel(Selection* selection, QWidget* parent = nullptr);
  // Shows the losses while their operand is selected.
  void setLosses(const BlockLosses& losses);
  ValueTable table() const override;

 protected:
  std::optional<Provenance> kind() const override { return selection_->quantFrame() ? Panel::kind() : std::nullopt; }
  QString status() const override;
  Answer answer() const override;

 private:
  void refillWaterfall();
  void refillBars();
  void updateRows();
  bool hasLosses() const { return losses_.sampled > 0 && losses_.operand == selection_->tensor(); }
  LegendScale legend() const;
  QString runWithScales() const;
  QString notice() const;  // why there is nothing to show; empty if there is something
  QStringList describe(int byte, std::int64_t step) const;
  FigureTarget scalesAt(std::int64_t step) const;

  TimeHeatMap* waterfall_;
  Histogram* bars_;
  BlockLosses losses_;
  int first_byte_ = 0, last_byte_ = -1;  // range of the axis, which only grows for the same tensor
  QString rows_of_;
};

}  // namespace moescope
