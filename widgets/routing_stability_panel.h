// How much of the probe text's routing is still what it was at an earlier step, layer by layer and through time.
#pragma once

#include <QComboBox>

#include "widgets/panel.h"

namespace moescope {

// A bar for each layer with its height in percent, chance as a line.
class StabilityBars : public PlotFrame {
  Q_OBJECT

 public:
  struct Bar {
    int layer;
    float stability;  // kNoValue: cannot be compared
  };
  explicit StabilityBars(QWidget* parent = nullptr) : PlotFrame(parent) { setMouseTracking(true); }
  void setBars(std::vector<Bar> bars, float baseline, int current_layer);
  std::function<QStringList(int bar)> describe;

 signals:
  void layerChosen(int layer);

 protected:
  QMargins margins() const override { return {kAxisLabelWidth, 20, 10, 22}; }
  QString staticKey() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;

 private:
  QRectF slot(std::size_t bar) const;
  int barAt(QPoint position) const;
  std::vector<Bar> bars_;
  float baseline_ = 0;
  int current_ = -1;
  QPoint mouse_{-1, -1};
};

class RoutingStabilityPanel : public Panel {
  Q_OBJECT

 public:
  explicit RoutingStabilityPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;
  QVariantMap saveState() const override;
  void restoreState(const QVariantMap& state) override;

  StabilityBars* bars() const { return bars_; }
  std::int64_t referenceStep() const { return reference_step_; }

 protected:
  QString status() const override;

 private:
  void refill();
  std::int64_t wantedReference(const History& history) const;
  QStringList describe(int bar) const;

  StabilityBars* bars_;
  QComboBox* against_;
  std::int64_t pinned_ = -1, step_ = -1, reference_step_ = -1;
  std::vector<StabilityBars::Bar> values_;
  float baseline_ = 0;
};

}  // namespace moescope
