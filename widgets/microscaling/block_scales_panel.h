// The block scales of one quantized operand: E8M0 exponents over steps, and their histogram at the cursor beside it on
// the same axis.
#pragma once

#include <array>
#include <vector>

#include "widgets/panel/panel.h"
#include "widgets/plots/plot_frame.h"
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

// Horizontal bars over whole-numbered categories that run upward, so that a heat map beside them can share the axis.
class Histogram : public PlotFrame {
  Q_OBJECT

 public:
  using PlotFrame::PlotFrame;

  void setBars(int first_category, std::vector<double> shares);  // 0..1 each
  void setCategoryTicks(std::vector<Tick> ticks);  // Tick::value is the category; only the plot beside it has labels
  void setShareCaption(const QString& caption) { share_caption_ = caption; }
  // Sets the parts of the bars that are painted strong, and the category with a pointer; -1: none.
  int marked() const { return marked_; }  // category with the pointer; -1: none
  void setStrong(std::vector<double> shares, int marked) {
    strong_ = std::move(shares);
    marked_ = marked;
  }
  std::function<QStringList(int category)> describe;
  int categoryAt(int y) const;
  QSize minimumSizeHint() const override { return {80, 80}; }
  QSize sizeHint() const override { return {120, 240}; }

 protected:
  QMargins margins() const override { return {10, 10, 14, axisLabelHeight()}; }
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;

 private:
  double yOf(double category) const;  // y of the lower edge of a category
  Axis shareAxis() const { return axisAcross(0, top_share_); }

  int first_ = 0;
  std::vector<double> shares_, strong_;
  int marked_ = -1;
  double top_share_ = 1;
  std::vector<Tick> ticks_;
  QString share_caption_;
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
