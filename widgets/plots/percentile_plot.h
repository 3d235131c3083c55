// The distribution of values in each group, side by side: a thin line from the smallest to the largest value, a bar
// from the 10th to the 90th percentile, a notch at the median. The axis is logarithmic around 1, for the loads of
// layers.
#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "widgets/plots/plot_frame.h"

namespace moescope {

class PercentilePlot : public PlotFrame {
  Q_OBJECT

 public:
  struct Group {
    int id = 0;                     // a layer
    std::array<float, 5> values{};  // smallest, 10 %, median, 90 %, largest
  };

  using PlotFrame::PlotFrame;
  void setGroups(std::vector<Group> groups, const QString& caption);
  void setValueCaption(const QString& caption) { value_caption_ = caption; }
  void setCurrent(int id) { current_ = id; }
  std::function<QStringList(int id)> describe;
  QRectF barOf(int id) const;  // the whole column of a group; empty: there is none

 signals:
  void groupChosen(int id);

 protected:
  QMargins margins() const override { return {axisLabelWidth(), 10, 10, axisLabelHeight()}; }
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  static constexpr double kHighest = 16;  // upper limit of the end of the axis
  Axis valueAxis() const { return axisUp(std::exp2(-octaves_), std::exp2(octaves_), true); }
  double xOf(std::size_t place) const;  // left edge of the column at `place`
  int placeAt(QPoint position) const;   // -1: none
  int placeOf(int id) const;

  std::vector<Group> groups_;
  QString group_caption_, value_caption_;
  int current_ = -1;
  int octaves_ = 2;  // the axis reaches from 2^-octaves_ to 2^octaves_
};

}  // namespace moescope
