// Histogram of counts by magnitude, two bins for each factor of two. Bars of one histogram are in front of fainter bars
// of another, for example flipped tokens in front of all tokens, by margin. The last bin also holds all larger values,
// and its label says so.
#pragma once

#include <span>
#include <vector>

#include "core/frame/frame.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

// Median as text: about 0.31; "-" if nothing was counted; at least 0.71 if it is in the last bin.
QString halfOctaveMedianText(std::span<const std::uint32_t> counts);

class HalfOctavePlot : public PlotFrame {
  Q_OBJECT

 public:
  using PlotFrame::PlotFrame;

  struct Texts {
    QString value;              // name of the binned value: "margin"
    QString counted;            // "tokens", along the axis of counts
    QString caption, in_short;  // captions of the axis; the short one for little room
    QString back, front;        // names of the histograms in the legend; no front: only `back` is drawn
    bool shares = false;        // bars are shares of the totals, for histograms that count different things
  };
  void setTexts(const Texts& texts) { texts_ = texts; }
  // Counts [kHalfOctaves] or [kWideHalfOctaves]; `front` is as long as `back`, or empty. `color`: index of seriesColor.
  void setHistograms(std::span<const std::uint32_t> back, std::span<const std::uint32_t> front, int color);

 protected:
  QMargins margins() const override {  // room for the legend above the caption
    return {axisLabelWidth(), 8 + (texts_.front.isEmpty() ? 2 : 3) * fontMetrics().height(), 12, axisLabelHeight()};
  }
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;

 private:
  double xOf(double bin) const;  // x of the lower edge of a bin
  int binAt(int x) const;        // -1: outside
  Axis countAxis() const { return axisUp(0, top_); }
  double heightOf(const std::vector<std::uint32_t>& counts, int bin) const;  // drawn height: a count or a share
  int bins() const { return to_int(back_.size()); }
  bool lastIsShown() const { return last_ + 1 == bins(); }
  void paintCountLegend(QPainter& painter) const;

  Texts texts_;
  std::vector<std::uint32_t> back_ = std::vector<std::uint32_t>(kHalfOctaves), front_ = back_;
  int color_ = 1, first_ = 0, last_ = kHalfOctaves - 1;
  double top_ = 10, back_total_ = 1, front_total_ = 1;
};

}  // namespace moescope
