// Horizontal bars over whole-numbered categories that run upward, so that a heat map beside them can share the axis.
#pragma once

#include <vector>

#include "widgets/plots/plot_frame.h"

namespace moescope {

class Histogram : public PlotFrame {
  Q_OBJECT

 public:
  using PlotFrame::PlotFrame;

  void setBars(int first_category, std::vector<double> shares);  // 0..1 each
  void setCategoryTicks(std::vector<Tick> ticks);  // Tick::value is the category; only the plot beside it has labels
  void setShareCaption(const QString& caption) { share_caption_ = caption; }
  // Sets the parts of the bars that are painted strong, and the category with a pointer; -1: none.
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

}  // namespace moescope
