#include "widgets/microscaling/block/number_line.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr double kMinSpan = 1e-6;  // least visible share of the line
constexpr double kMargin = 1.04;

}  // namespace

NumberLine::NumberLine(QWidget* parent) : PlotFrame(parent) {
  setToolTip("Wheel zooms, drag moves, double click fits");
}

void NumberLine::setPoints(std::vector<Points> rows) {
  rows_ = std::move(rows);
  double smallest = INFINITY, extent = 0;
  for (const Points& row : rows_)
    for (const float v : row.values) {
      if (v == 0) continue;
      smallest = std::min(smallest, std::fabs(static_cast<double>(v)));
      extent = std::max(extent, std::fabs(static_cast<double>(v)));
    }
  if (extent == 0) smallest = extent = 1;
  const bool changed = smallest / 2 != least_ || extent != extent_;
  least_ = smallest / 2;
  extent_ = extent;
  if (changed) fit();
  markDirty();
}

void NumberLine::setMarks(std::vector<Mark> marks) {
  marks_ = std::move(marks);
  markDirty();
}

void NumberLine::setCurrentMark(int mark) {
  current_ = mark;
  update();
}

void NumberLine::setLog(bool log) {
  if (log_ == log) return;
  log_ = log;
  fit();
}

void NumberLine::setCaption(const QString& caption) {
  caption_ = caption;
  markDirty();
}

void NumberLine::fit() {
  const bool negative = std::any_of(rows_.begin(), rows_.end(),
                                    [](const Points& row) { return !row.values.empty() && row.values.front() < 0; });
  high_ = coordinate(extent_) * kMargin;
  low_ = negative ? -high_ : log_ ? 0 : -0.02 * high_;
  markDirty();
}

double NumberLine::coordinate(double value) const {
  if (!log_) return value;
  const double size = std::fabs(value);
  return size <= least_ ? 0 : std::copysign(std::log2(size / least_), value);
}

double NumberLine::valueOf(double coordinate) const {
  if (!log_) return coordinate;
  return coordinate == 0 ? 0 : std::copysign(least_ * std::exp2(std::fabs(coordinate)), coordinate);
}

double NumberLine::xOf(double value) const {
  const QRect plot = plotRect();
  return plot.left() + (coordinate(value) - low_) / (high_ - low_) * plot.width();
}

std::vector<Tick> NumberLine::ticks() const {
  const int max_ticks = std::max(2, plotRect().width() / withType(44));
  if (!log_) return linearTicks(low_, high_, max_ticks);
  std::vector<Tick> ticks;
  const int offset = std::lround(std::log2(least_));
  const auto add = [&](int first, int last, int sign) {
    for (const Tick& t : powerOfTwoTicks(first, last, max_ticks)) {
      const double value = sign * std::exp2(t.value);
      ticks.push_back({value, sign < 0 ? QStringLiteral("\u2212") + t.label : t.label});
    }
  };
  if (high_ > 0) add(offset + std::max(1, static_cast<int>(std::ceil(low_))), offset + static_cast<int>(high_), 1);
  if (low_ < 0) add(offset + std::max(1, static_cast<int>(std::ceil(-high_))), offset + static_cast<int>(-low_), -1);
  if (low_ <= 0 && high_ >= 0) ticks.push_back({0, QStringLiteral("0")});
  return ticks;
}

// Several rows have their names at the left; a single row is named by the caption.
QMargins NumberLine::margins() const {
  int widest = 0;
  for (const Points& row : rows_) widest = std::max(widest, fontMetrics().horizontalAdvance(row.label));
  const int left_margin = rows_.size() > 1 ? widest + kSpace8 : kSpace8;
  return {left_margin, fontMetrics().height() + kSpace4, kSpace8, axisLabelHeight()};
}

void NumberLine::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  std::vector<Tick> all = ticks();
  std::ranges::sort(all, {}, &Tick::value);
  for (Tick& tick : all) tick.value = xOf(tick.value);
  paintVerticalGrid(painter, kPixels, all);
  paintBottomAxis(painter, kPixels, all, {});
  painter.setPen(mutedText(palette()));
  painter.drawText(captionRow(), Qt::AlignLeft | Qt::AlignVCenter,
                   fittingText(captionForms(caption_), painter.fontMetrics(), width()));
  if (rows_.size() < 2) return;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const int top = plot.top() + static_cast<int>(i) * rowHeight();
    painter.setPen(seriesColor(i, dark()));
    painter.drawText(QRect(0, top, plot.left() - kSpace8, rowHeight()), Qt::AlignRight | Qt::AlignVCenter,
                     rows_[i].label);
  }
}

void NumberLine::paintData(QPainter& painter) {
  const QRect plot = plotRect();
  painter.setClipRect(plot.adjusted(0, -4, 0, 4));
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const int base = plot.top() + static_cast<int>(i + 1) * rowHeight() - 2;
    const int tall = std::min(26, rowHeight() * (marks_.empty() ? 3 : 2) / 5);
    painter.setPen(axisColor(palette()));
    painter.drawLine(plot.left(), base, plot.right(), base);
    painter.setPen(seriesColor(i, dark()));
    int last = INT_MIN;  // if zoomed out, many points share a pixel
    for (const float v : rows_[i].values) {
      const int x = std::lround(xOf(v));
      if (x == last || x < plot.left() || x > plot.right()) continue;
      last = x;
      painter.drawLine(x, base, x, base - (v == 0 ? tall + 6 : tall));
    }
  }
  if (rows_.empty()) return;
  // Paints a line from the value (top) to its rounded value (the tip of a point).
  const int top = plot.top() + 6, tip = plot.top() + rowHeight() - 2 - std::min(26, rowHeight() * 2 / 5);
  for (const Mark& mark : marks_) {
    if (std::isnan(mark.value)) continue;
    const QPointF from(xOf(mark.value), top), to(xOf(mark.rounded), tip);
    painter.setPen(mutedText(palette()));
    painter.drawLine(from, to);
    painter.setPen(palette().text().color());
    if (mark.lost) {
      painter.drawLine(from + QPointF(-3, -3), from + QPointF(3, 3));
      painter.drawLine(from + QPointF(-3, 3), from + QPointF(3, -3));
    } else {
      painter.setBrush(palette().base());
      painter.drawEllipse(from, 2.5, 2.5);
      painter.setBrush(Qt::NoBrush);
    }
  }
}

void NumberLine::paintOverlay(QPainter& painter) {
  const QRect plot = plotRect();
  if (current_ >= 0 && current_ < static_cast<int>(marks_.size())) {
    const Mark& mark = marks_[current_];
    painter.setClipRect(plot.adjusted(0, -4, 0, 4));
    painter.setPen(cursorColor(dark()));
    if (!std::isnan(mark.value)) {
      painter.drawEllipse(QPointF(xOf(mark.value), plot.top() + 6), 5, 5);
      painter.drawLine(QPointF(xOf(mark.rounded), plot.top() + rowHeight() - 28),
                       QPointF(xOf(mark.rounded), plot.top() + rowHeight()));
    }
    painter.setClipping(false);
  }
  PlotFrame::paintOverlay(painter);
}

QStringList NumberLine::readoutAt(QPoint position) const {
  if (rows_.empty() || !plotRect().contains(position)) return {};
  const int row =
      std::clamp((position.y() - plotRect().top()) / std::max(1, rowHeight()), 0, static_cast<int>(rows_.size()) - 1);
  for (const Mark& mark : marks_)
    if (row == 0 && position.y() < plotRect().top() + rowHeight() / 3 && std::fabs(xOf(mark.value) - position.x()) < 4)
      return {mark.label, QString("%1 is stored as %2").arg(formatValue(mark.value, 7), formatValue(mark.rounded, 7))};
  const Points& points = rows_[row];
  if (points.values.empty()) return {};
  std::size_t best = 0;
  for (std::size_t i = 0; i < points.values.size(); ++i)
    if (std::fabs(xOf(points.values[i]) - position.x()) < std::fabs(xOf(points.values[best]) - position.x())) best = i;
  QStringList lines{QString("%1: %2").arg(points.label, formatValue(points.values[best], 7))};
  if (best > 0)
    lines
        << QString("gap below %1").arg(formatValue(static_cast<double>(points.values[best]) - points.values[best - 1]));
  if (best + 1 < points.values.size())
    lines
        << QString("gap above %1").arg(formatValue(static_cast<double>(points.values[best + 1]) - points.values[best]));
  return lines;
}

void NumberLine::showRange(double low, double high) {
  const double whole = 2 * coordinate(extent_) * kMargin;
  const double span = std::clamp(high - low, whole * kMinSpan, whole);
  const double middle = std::clamp((low + high) / 2, -whole / 2, whole / 2);
  low_ = middle - span / 2;
  high_ = middle + span / 2;
  markDirty();
}

void NumberLine::zoomAbout(double x, double factor) {
  const double share = (x - plotRect().left()) / std::max(1, plotRect().width());
  const double at = low_ + share * (high_ - low_), span = (high_ - low_) * factor;
  showRange(at - share * span, at + (1 - share) * span);
}

void NumberLine::panBy(double share) {
  const double move = share * (high_ - low_);
  showRange(low_ + move, high_ + move);
}

void NumberLine::wheelEvent(QWheelEvent* event) {
  zoomAbout(event->position().x(), std::pow(0.8, event->angleDelta().y() / 120.0));
  event->accept();
}

void NumberLine::mousePressEvent(QMouseEvent* event) {
  press_ = event->pos();
  press_low_ = low_;
  press_high_ = high_;
}

void NumberLine::mouseMoveEvent(QMouseEvent* event) {
  if (event->buttons() & Qt::LeftButton) {
    const double move = (press_.x() - event->pos().x()) * (press_high_ - press_low_) / std::max(1, plotRect().width());
    showRange(press_low_ + move, press_high_ + move);
  }
  PlotFrame::mouseMoveEvent(event);
}

void NumberLine::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      return zoomAbout(plotRect().center().x(), 0.8);
    case Qt::Key_Minus:
      return zoomAbout(plotRect().center().x(), 1.25);
    case Qt::Key_Left:
      return panBy(-0.1);
    case Qt::Key_Right:
      return panBy(0.1);
    case Qt::Key_Home:
      return fit();
    default:
      return PlotFrame::keyPressEvent(event);
  }
}

}  // namespace moescope
