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

class ByteAffinityPanel : public Panel {
  Q_OBJECT

 public:
  explicit ByteAffinityPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override { return frame_ ? timeStatus(frame_->step, false) : QString(); }
  Answer answer() const override;

 private:
  void refill();
  void refillStrip();
  void paintNumbers(QPainter& painter) const;
  QStringList describe(int row, int column) const;

  MatrixPlot* view_;
  ByteStrip* strip_;
  std::shared_ptr<const TelemetryFrame> frame_;
  std::vector<float> lift_;  // [class, expert]
};

}  // namespace moescope
