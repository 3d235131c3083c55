#include "widgets/all_to_all/placement_strip.h"

#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr double kGap = 0.12;  // of a column

}  // namespace

PlacementStrip::PlacementStrip(QWidget* parent) : PlotFrame(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
}

void PlacementStrip::setPlacement(const Placement& placement, std::vector<std::uint64_t> load_E, int ranks_per_node) {
  placement_ = placement;
  load_ = std::move(load_E);
  ranks_per_node_ = std::max(1, ranks_per_node);
  blocks_.clear();
  rank_load_.assign(static_cast<std::size_t>(placement.ranks), 0);
  for (int e = 0; e < placement.n_experts(); ++e) {
    const int first = placement.first_replica[static_cast<std::size_t>(e)];
    const int replicas = placement.first_replica[static_cast<std::size_t>(e) + 1] - first;
    const double share = static_cast<double>(load_[static_cast<std::size_t>(e)]) / std::max(1, replicas);
    for (int r = 0; r < replicas; ++r) {
      const int rank = placement.replica_rank[static_cast<std::size_t>(first + r)];
      double& height = rank_load_[static_cast<std::size_t>(rank)];
      blocks_.push_back({e, r, rank, height, height + share});
      height += share;
    }
  }
  const auto most = std::ranges::max_element(rank_load_);
  mean_ = std::accumulate(rank_load_.begin(), rank_load_.end(), 0.0) / std::max<std::size_t>(1, rank_load_.size());
  top_ = rank_load_.empty() ? 1 : std::max({1.0, *most, 1.05 * mean_});
  fullest_ = rank_load_.empty() || *most <= 1.001 * mean_ ? -1 : static_cast<int>(most - rank_load_.begin());
}

void PlacementStrip::setChosen(int expert) {
  chosen_ = expert;
  update();
}

QMargins PlacementStrip::margins() const {
  return {axisLabelWidth(), withType(18), fontMetrics().horizontalAdvance("mean") + kSpace8,
          fontMetrics().height() + 6};
}

double PlacementStrip::columnWidth() const {
  return plotRect().width() / std::max(1.0, static_cast<double>(rank_load_.size()));
}

QPointF PlacementStrip::columnCentre(int rank) const {
  return {plotRect().left() + (rank + 0.5) * columnWidth(), plotRect().center().y() + 0.0};
}

QRectF PlacementStrip::rectOf(const Block& block) const {
  const double wide = columnWidth(), left = plotRect().left() + block.rank * wide + wide * kGap / 2;
  const double top = axis().toPixel(block.to), bottom = axis().toPixel(block.from);
  return {left, top, wide * (1 - kGap), bottom - top};
}

QString PlacementStrip::staticKey() const {
  return QString::number(top_) + QLatin1Char(' ') + QString::number(rank_load_.size());
}

void PlacementStrip::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  const int line = fontMetrics().height();
  paintLeftAxis(painter, axis(), linearTicks(0, top_, std::max(2, plot.height() / withType(40))),
                "copies by rank; experts can be dragged to another rank");
  painter.setPen(palette().text().color());
  const int every = std::max(1, static_cast<int>(std::ceil(fontMetrics().horizontalAdvance("000") / columnWidth())));
  for (int rank = 0; rank < static_cast<int>(rank_load_.size()); rank += every)
    painter.drawText(QRectF(columnCentre(rank).x() - 30, plot.bottom() + 3, 60, line), Qt::AlignCenter,
                     QString::number(rank));
}

void PlacementStrip::paintData(QPainter& painter) {
  const QRect plot = plotRect();
  const QColor edge = palette().base().color();
  for (const Block& block : blocks_) {
    const QRectF rect = rectOf(block);
    const Colors& c = colors(palette());
    QColor color(block.rank == fullest_ ? c.strong_bar : c.plain_bar);
    if (block.expert % 2) color = dark() ? color.darker(120) : color.lighter(112);
    const bool replicated = placement_.first_replica[static_cast<std::size_t>(block.expert) + 1] -
                                placement_.first_replica[static_cast<std::size_t>(block.expert)] >
                            1;
    painter.fillRect(rect, color);
    if (replicated) painter.fillRect(rect, QBrush(edge, Qt::BDiagPattern));
    painter.setPen(QPen(edge, 1));
    painter.drawRect(rect);
    if (rect.height() < fontMetrics().height() || rect.width() < fontMetrics().horizontalAdvance("000")) continue;
    painter.setPen(textOn(color.rgb()));
    painter.drawText(rect, Qt::AlignCenter, QString::number(block.expert));
  }
  painter.setPen(QPen(mutedText(palette()), 0));
  for (int rank = ranks_per_node_; rank < static_cast<int>(rank_load_.size()); rank += ranks_per_node_) {
    const double x = plot.left() + rank * columnWidth();
    painter.drawLine(QPointF(x, plot.top() - 8), QPointF(x, plot.bottom()));
  }
  const double y = axis().toPixel(mean_);
  painter.setPen(QPen(palette().text().color(), 1, Qt::DashLine));
  painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
  painter.drawText(QPointF(plot.right() + kSpace4, y + fontMetrics().capHeight() / 2.0), "mean");
}

void PlacementStrip::paintOverlay(QPainter& painter) {
  painter.setPen(QPen(palette().text().color(), 2));
  for (const Block& block : blocks_)
    if (block.expert == (dragged_ >= 0 ? dragged_ : chosen_)) painter.drawRect(rectOf(block));
  const int target = rankAt(mouse_);
  if (dragged_ >= 0 && target >= 0) {
    painter.setPen(QPen(palette().text().color(), 2, Qt::DashLine));
    const QRect plot = plotRect();
    painter.drawRect(
        QRectF(plot.left() + target * columnWidth() + 1, plot.top() - 6, columnWidth() - 2, plot.height() + 6));
    return paintReadout(painter, readoutBeside(mouse_, {QString("expert %1 to rank %2").arg(dragged_).arg(target)}));
  }
  PlotFrame::paintOverlay(painter);
}

QStringList PlacementStrip::readoutAt(QPoint position) const {
  const Block* block = blockAt(position);
  return block ? describe(*block) : QStringList();
}

const PlacementStrip::Block* PlacementStrip::blockAt(QPoint position) const {
  for (const Block& block : blocks_)
    if (rectOf(block).contains(position)) return &block;
  return nullptr;
}

int PlacementStrip::rankAt(QPoint position) const {
  const QRect plot = plotRect();
  if (position.x() < plot.left() || position.x() >= plot.right() || rank_load_.empty()) return -1;
  const int rank = static_cast<int>((position.x() - plot.left()) / columnWidth());
  return std::clamp(rank, 0, static_cast<int>(rank_load_.size()) - 1);
}

QStringList PlacementStrip::describe(const Block& block) const {
  const double load = rank_load_[static_cast<std::size_t>(block.rank)];
  const int replicas = placement_.first_replica[static_cast<std::size_t>(block.expert) + 1] -
                       placement_.first_replica[static_cast<std::size_t>(block.expert)];
  QStringList lines{QString("expert %1 on rank %2: %3 copies")
                        .arg(block.expert)
                        .arg(block.rank)
                        .arg(block.to - block.from, 0, 'f', 0)};
  if (replicas > 1) lines << QString("one of %1 replicas, which take its tokens in turn").arg(replicas);
  lines << QString("rank %1: %2 copies, %3 x the mean")
               .arg(block.rank)
               .arg(load, 0, 'f', 0)
               .arg(mean_ > 0 ? load / mean_ : 0, 0, 'f', 2);
  return lines;
}

void PlacementStrip::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return PlotFrame::mousePressEvent(event);
  mouse_ = event->pos();
  const Block* block = blockAt(mouse_);
  dragged_ = block ? block->expert : -1;
  if (block) emit expertChosen(block->expert);
  update();
}

void PlacementStrip::mouseMoveEvent(QMouseEvent* event) {
  PlotFrame::mouseMoveEvent(event);
  setCursor(dragged_ >= 0 ? Qt::ClosedHandCursor : blockAt(mouse_) ? Qt::OpenHandCursor : Qt::ArrowCursor);
}

void PlacementStrip::mouseReleaseEvent(QMouseEvent* event) {
  const int expert = std::exchange(dragged_, -1), rank = rankAt(event->pos());
  update();
  if (expert < 0 || rank < 0) return;
  const bool there =
      std::ranges::any_of(blocks_, [&](const Block& block) { return block.expert == expert && block.rank == rank; });
  if (!there) emit moved(expert, rank);
}

void PlacementStrip::keyPressEvent(QKeyEvent* event) {
  const int step = arrowOf(event).x();
  const int experts = static_cast<int>(load_.size()), ranks = static_cast<int>(rank_load_.size());
  if (step == 0 || experts == 0) return PlotFrame::keyPressEvent(event);
  if (!(event->modifiers() & Qt::ShiftModifier))
    return emit expertChosen(chosen_ < 0 ? 0 : std::clamp(chosen_ + step, 0, experts - 1));
  const auto block = std::ranges::find(blocks_, chosen_, &Block::expert);
  if (block == blocks_.end()) return;
  const int rank = block->rank + step;
  if (rank >= 0 && rank < ranks) emit moved(chosen_, rank);
}

}  // namespace moescope
