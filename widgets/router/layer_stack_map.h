// The load of all experts of several layers over steps, the layers below each other. At the left of each layer are its
// name and MaxVio, at the right the mean load of the last 50 steps as bars.
#pragma once

#include <vector>

#include "core/recording/history/router_window.h"
#include "widgets/plots/margin_bars.h"
#include "widgets/plots/time_heat_map.h"

namespace moescope {

class LayerStackMap : public TimeHeatMap {
  Q_OBJECT

 public:
  explicit LayerStackMap(Selection* selection, QWidget* parent = nullptr);

  // Called in refill(). `orders` [layer]: the expert at each place; empty: by number.
  void setLayers(std::vector<int> layers, int experts, const std::vector<std::vector<int>>& orders);
  void setWindow(const RouterWindow* window) { window_ = window; }  // kept by the owner; nullptr: none
  const std::vector<int>& layers() const { return layers_; }
  int rowOf(int layer, int expert) const;  // -1: not shown
  int layerAt(int row) const;              // -1: between two layers
  int expertAt(int row) const { return row % block(); }
  int rowCount() const { return layers_.empty() ? 0 : to_int(layers_.size()) * block() - gap(); }
  int mostLayers(int layers) const;  // number of layers, at most `layers`, that can be read
  bool showsBars() const;

 protected:
  QMargins margins() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintMarks(QPainter& painter) override;

 private:
  int gap() const { return std::max(1, experts_ / 12); }  // rows between two layers
  int block() const { return experts_ + gap(); }
  int placeOfExpert(std::size_t layer, int expert) const;
  double topOf(std::size_t layer) const { return yOf(static_cast<double>(layer) * block()); }
  double bottomOf(std::size_t layer) const { return yOf(static_cast<double>(layer) * block() + experts_); }
  int nameWidth() const;
  int expertTickStep() const;
  MarginBars barsOf(const RouterWindow& window) const;
  QRect barsArea() const;

  std::vector<int> layers_;
  int experts_ = 0;
  std::vector<std::vector<int>> orders_;
  const RouterWindow* window_ = nullptr;
};

}  // namespace moescope
