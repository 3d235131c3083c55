#include "widgets/plots/percentile_plot.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>

#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

void PercentilePlot::setGroups(std::vector<Group> groups, const QString& caption) {
  groups_ = std::move(groups);
  group_caption_ = caption;
  double farthest = 2;
  for (const Group& group : groups_) {
    farthest = std::max<double>(farthest, group.values[4]);
    if (group.values[1] > 0)
      farthest = std::max(farthest, 1.0 / group.values[1]);  // the smallest value may be outside the axis
  }
  octaves_ = static_cast<int>(std::ceil(std::log2(std::min(farthest, kHighest))));
}

double PercentilePlot::xOf(std::size_t place) const {
  const QRect plot = plotRect();
  return plot.left() + static_cast<double>(place) * plot.width() / std::max<std::size_t>(1, groups_.size());
}

int PercentilePlot::placeAt(QPoint position) const {
  const QRect plot = plotRect();
  if (!plot.contains(position) || groups_.empty()) return -1;
  return std::min(to_int(groups_.size()) - 1,
                  static_cast<int>((position.x() - plot.left() + 0.5) * groups_.size() / std::max(1, plot.width())));
}

int PercentilePlot::placeOf(int id) const {
  return index_in(groups_, id, &Group::id);
}

QRectF PercentilePlot::barOf(int id) const {
  const int place = placeOf(id);
  if (place < 0) return {};
  const std::size_t at = place;
  return {xOf(at), plotRect().top() + 0.0, xOf(at + 1) - xOf(at), plotRect().height() + 0.0};
}

void PercentilePlot::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  paintLeftAxis(painter, valueAxis(), octaveTicks(octaves_), value_caption_);
  painter.setPen(QPen(mutedText(palette()), 1, Qt::DashLine));
  const int fair = to_int(std::lround(valueAxis().toPixel(1)));
  painter.drawLine(plot.left(), fair, plot.right(), fair);
  std::vector<Tick> labels;
  for (std::size_t i = 0; i < groups_.size(); ++i)
    labels.push_back({(xOf(i) + xOf(i + 1)) / 2, QString::number(groups_[i].id)});
  paintBottomAxis(painter, kPixels, labels, captionForms(group_caption_));
}

void PercentilePlot::paintData(QPainter& painter) {
  painter.setClipRect(plotRect().adjusted(0, -1, 1, 1));
  const QColor color(colors(palette()).plain_bar);
  QColor faint = color;
  faint.setAlpha(120);
  const Axis axis = valueAxis();
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const double left_x = xOf(i), width = xOf(i + 1) - left_x, middle = left_x + width / 2;
    const auto y = [&](int value) { return axis.toPixel(std::max(1e-6, double(groups_[i].values[value]))); };
    painter.setPen(QPen(color, 0));
    painter.drawLine(QPointF(middle, y(4)), QPointF(middle, y(0)));
    const double bar = std::clamp(width * 0.6, 2.0, 26.0);
    painter.fillRect(QRectF(middle - bar / 2, y(3), bar, std::max(1.0, y(1) - y(3))), faint);
    painter.fillRect(QRectF(middle - bar / 2, y(2) - 1, bar, 2), palette().text().color());
  }
}

void PercentilePlot::paintOverlay(QPainter& painter) {
  const QRectF bar = barOf(current_);
  if (!bar.isEmpty()) paintPointer(painter, QPointF(bar.center().x(), bar.bottom() + 1), true);
  PlotFrame::paintOverlay(painter);
}

QStringList PercentilePlot::readoutAt(QPoint position) const {
  const int place = describe ? placeAt(position) : -1;
  return place < 0 ? QStringList() : describe(groups_[place].id);
}

void PercentilePlot::mousePressEvent(QMouseEvent* event) {
  const int place = notice().isEmpty() ? placeAt(event->pos()) : -1;
  if (event->button() == Qt::LeftButton && place >= 0) emit groupChosen(current_ = groups_[place].id);
}

void PercentilePlot::keyPressEvent(QKeyEvent* event) {
  const int direction = arrowOf(event).x();
  if (direction == 0 || groups_.empty()) return QWidget::keyPressEvent(event);
  const int place = std::clamp(placeOf(current_) + direction, 0, to_int(groups_.size()) - 1);
  current_ = groups_[place].id;  // set here, since keys may come faster than paints
  emit groupChosen(current_);
}

}  // namespace moescope
