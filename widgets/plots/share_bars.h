// Named shares as horizontal bars with their figures beside them, the largest on top.
#pragma once

#include <vector>

#include "widgets/plots/plot_frame.h"

namespace moescope {

class ShareBars : public PlotFrame {
  Q_OBJECT

 public:
  struct Bar {
    QString name;
    double share = 0;  // 0..1, length of the bar
    QString figure;    // "31 %, 2.1 x"
  };

  explicit ShareBars(QWidget* parent = nullptr);
  void setBars(std::vector<Bar> bars);
  void setTitle(const QString& title) { title_ = title; }
  QSize sizeHint() const override { return {200, (kMaxBars + 1) * fontMetrics().height() + 8}; }
  QSize minimumSizeHint() const override { return {120, 3 * fontMetrics().height()}; }
  static constexpr int kMaxBars = 4;

 protected:
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;

 private:
  std::vector<Bar> bars_;
  QString title_;
};

}  // namespace moescope
