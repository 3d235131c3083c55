// Lift of the bytes that experts get: kinds of bytes by expert, and the bytes of one expert.
#pragma once

#include "core/frame/specialisation.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/matrix_plot.h"

namespace moescope {

// Bytes of one expert as boxes with their glyphs, the most preferred first, coloured by lift.
class ByteStrip : public PlotFrame {
  Q_OBJECT

 public:
  using PlotFrame::PlotFrame;
  void setBytes(const QString& title, std::vector<TokensOfExpert> bytes) {
    title_ = title;
    bytes_ = std::move(bytes);
  }
  QSize minimumSizeHint() const override { return {120, 44}; }

 protected:
  QMargins margins() const override { return {6, withType(18), 6, 2}; }
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;

 private:
  QSize boxSize() const;
  QString title_;
  std::vector<TokensOfExpert> bytes_;
};

class ByteAffinityView : public QWidget {
  Q_OBJECT

 public:
  explicit ByteAffinityView(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const;
  QStringList answers() const;  // which expert gets which bytes, from long to short; empty: no data
  std::int64_t step() const;    // step of the shown counts; -1: none

 private:
  void refill();
  void refillStrip();
  void paintNumbers(QPainter& painter) const;
  QStringList describe(int row, int column) const;

  Selection* selection_;
  MatrixPlot* view_;
  ByteStrip* strip_;
  std::shared_ptr<const TelemetryFrame> frame_;
  std::vector<float> lift_;  // [class, expert]
};

}  // namespace moescope
