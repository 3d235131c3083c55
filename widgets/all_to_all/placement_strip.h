// Experts stacked on the ranks that hold them, each as high as its share of the received tokens. An expert can be
// dragged to another rank, with the mouse or, once it is chosen, with Shift and the arrow keys.
#pragma once

#include <cstdint>
#include <vector>

#include "core/parallel/placement.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

class PlacementStrip : public PlotFrame {
  Q_OBJECT

 public:
  explicit PlacementStrip(QWidget* parent = nullptr);

  // `load_E`: tokens of each expert; its replicas take equal shares.
  void setPlacement(const Placement& placement, std::vector<std::uint64_t> load_E, int ranks_per_node);
  void setChosen(int expert);  // selected expert; -1: none
  const Placement& placement() const { return placement_; }

 signals:
  void moved(int expert, int to_rank);
  void expertChosen(int expert);

 protected:
  QMargins margins() const override;
  QString staticKey() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  struct Block {
    int expert, replica, rank;
    double from, to;  // tokens, from the bottom of the column
  };
  Axis axis() const { return axisUp(0, top_); }
  double columnWidth() const;
  QPointF columnCentre(int rank) const;
  QRectF rectOf(const Block& block) const;
  const Block* blockAt(QPoint position) const;
  int rankAt(QPoint position) const;  // -1: no rank is there
  QStringList describe(const Block& block) const;

  Placement placement_;
  std::vector<std::uint64_t> load_;
  std::vector<Block> blocks_;
  std::vector<double> rank_load_;
  int ranks_per_node_ = 8, chosen_ = -1, dragged_ = -1, fullest_ = -1;
  double top_ = 1, mean_ = 0;
};

}  // namespace moescope
