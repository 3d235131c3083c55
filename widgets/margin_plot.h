// How thin the margins are at which tokens flip: all tokens and the flipped ones by the margin of run A's choice.
#pragma once

#include "core/telemetry/frame.h"
#include "widgets/plot_frame.h"

namespace moescope {

class MarginPlot : public PlotFrame {
  Q_OBJECT

 public:
  explicit MarginPlot(QWidget* parent = nullptr);

  void setHistograms(const FlipFrame::MarginHistogram& tokens, const FlipFrame::MarginHistogram& flipped, int color);
  // Half of the flips lie below this margin; NaN: nothing flipped.
  static double medianMargin(const FlipFrame::MarginHistogram& counts);

 protected:
  QMargins margins() const override { return {kAxisLabelWidth, 8, 12, kAxisLabelHeight}; }
  QString staticKey() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent*) override;

 private:
  double xOf(double bin) const;  // lower edge
  int binAt(int x) const;        // -1: outside
  Axis countAxis() const;
  QStringList describe(int bin) const;
  void paintSharesOfFlips(QPainter& painter) const;

  FlipFrame::MarginHistogram tokens_{}, flipped_{};
  int color_ = 1, first_ = 0, last_ = FlipFrame::kMarginBins - 1;
  double top_ = 10;
  QPoint mouse_{-1, -1};
};

}  // namespace moescope
