// One token's path through the layers: a column for each, split by the mixing shares of its experts.
#pragma once

#include <memory>
#include <vector>

#include "core/frame/frame.h"
#include "widgets/panel/expert_colors.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

class TokenPathPlot : public PlotFrame {
  Q_OBJECT

 public:
  struct Column {
    const TokenLayer* layer;
    ExpertColors colors;
  };

  explicit TokenPathPlot(QWidget* parent = nullptr);
  void setPath(std::shared_ptr<const TokenFrame> text, int position, std::vector<Column> columns);
  void setCurrent(int layer, int expert);
  QSize minimumSizeHint() const override { return {120, 60}; }

 signals:
  void expertChosen(int layer, int expert);

 protected:
  QMargins margins() const override { return {withType(46), 3 * fontMetrics().height() / 2 + 3, 8, withType(18)}; }
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;

 private:
  struct Piece {
    QRectF box;
    int layer, expert;
    float share, score;
  };
  QStringList titles() const;  // from long to short
  std::vector<Piece> pieces() const;
  const Piece* pieceAt(QPoint position) const;

  std::shared_ptr<const TokenFrame> text_;
  int position_ = -1, layer_ = -1, expert_ = -1;
  std::vector<Column> columns_;
  std::vector<Piece> pieces_;
};

}  // namespace moescope
