#include "widgets/margin_plot.h"

#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "widgets/color_scale.h"

namespace moescope {

MarginPlot::MarginPlot(QWidget* parent) : PlotFrame(parent) {
  setMouseTracking(true);
}

void MarginPlot::setHistograms(const FlipFrame::MarginHistogram& tokens, const FlipFrame::MarginHistogram& flipped,
                               int color) {
  tokens_ = tokens;
  flipped_ = flipped;
  color_ = color;
  const auto used = [this](int bin) { return tokens_[static_cast<std::size_t>(bin)] > 0; };
  first_ = 0, last_ = FlipFrame::kMarginBins - 1;
  while (first_ < last_ - 8 && !used(first_)) ++first_;
  while (last_ > first_ + 8 && !used(last_)) --last_;
  top_ = niceRange(0, std::max(1u, *std::ranges::max_element(tokens_)), false).high;
}

double MarginPlot::medianMargin(const FlipFrame::MarginHistogram& counts) {
  const std::uint64_t all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  std::uint64_t below = 0;
  for (int bin = 0; bin < FlipFrame::kMarginBins && all > 0; ++bin) {
    below += counts[static_cast<std::size_t>(bin)];
    if (2 * below >= all) return FlipFrame::edge(bin + 1);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double MarginPlot::xOf(double bin) const {
  const QRect plot = plotRect();
  return plot.left() + (bin - first_) / (last_ + 1 - first_) * plot.width();
}

int MarginPlot::binAt(int x) const {
  const QRect plot = plotRect();
  if (x < plot.left() || x > plot.right()) return -1;
  return std::min(last_, first_ + (x - plot.left()) * (last_ + 1 - first_) / std::max(1, plot.width()));
}

Axis MarginPlot::countAxis() const {
  const QRect plot = plotRect();
  return {.low = 0, .high = top_, .at_low = plot.bottom() + 0.0, .at_high = plot.top() + 0.0};
}

QString MarginPlot::staticKey() const {
  return QStringLiteral("%1:%2:%3").arg(first_).arg(last_).arg(top_);
}

void MarginPlot::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  const QFontMetrics metrics(painter.font());
  paintLeftAxis(painter, countAxis(), integerTicks(0, static_cast<int>(top_), std::max(2, plot.height() / 26)),
                tr("tokens"));
  int right = -1000;
  for (int bin = first_; bin <= last_ + 1; ++bin) {
    const int power = (bin - FlipFrame::kMarginBins) / 2;
    if (bin % 2 != 0 || power % 2 != 0) continue;
    const int x = static_cast<int>(std::lround(xOf(bin)));
    painter.setPen(gridColor(palette()));
    painter.drawLine(x, plot.top(), x, plot.bottom() + 3);
    const QString label = formatPowerOfTwo(power);
    const int width = metrics.horizontalAdvance(label);
    const int left = std::clamp(x - width / 2, 0, this->width() - width);
    if (left < right + 6) continue;
    right = left + width;
    painter.setPen(palette().text().color());
    painter.drawText(QRect(left, plot.bottom() + 4, width + 1, metrics.height()), Qt::AlignCenter, label);
  }
  painter.setPen(mutedText(palette()));
  const QRect caption(0, plot.bottom() + 3 + metrics.height(), width(), metrics.height());
  QString text = tr("margin in run A: score of the last chosen expert minus the next, log");
  if (metrics.horizontalAdvance(text) > caption.width()) text = tr("margin of run A's choice, log");
  painter.drawText(caption, Qt::AlignCenter, metrics.elidedText(text, Qt::ElideRight, caption.width()));
}

void MarginPlot::paintData(QPainter& painter) {
  const QColor all = mutedText(palette());
  QColor faint = all;
  faint.setAlpha(110);
  for (int bin = first_; bin <= last_; ++bin) {
    const auto i = static_cast<std::size_t>(bin);
    const auto bar = [&](std::uint32_t count, const QColor& color) {
      if (count == 0) return;
      const double height = std::max(1.0, countAxis().toPixel(0) - countAxis().toPixel(count));
      painter.fillRect(QRectF(xOf(bin) + 0.5, plotRect().bottom() + 1 - height, xOf(bin + 1) - xOf(bin) - 1, height),
                       color);
    };
    bar(tokens_[i], faint);
    bar(flipped_[i], seriesColor(color_, dark()));
  }
  paintSharesOfFlips(painter);
}

// Legend with the two medians, which say "flips sit at thin margins" in numbers.
void MarginPlot::paintSharesOfFlips(QPainter& painter) const {
  const QFontMetrics metrics(painter.font());
  const QRect plot = plotRect();
  QColor faint = mutedText(palette());
  faint.setAlpha(110);
  const std::pair<QString, QColor> rows[] = {
      {tr("all, median %1").arg(formatValue(medianMargin(tokens_), 2)), faint},
      {tr("flips, median %1").arg(formatValue(medianMargin(flipped_), 2)), seriesColor(color_, dark())}};
  QRect row(plot.left() + 4, plot.top() + 1, width() - plot.left() - 4, metrics.height());
  for (const auto& [text, color] : rows) {
    painter.fillRect(QRect(row.left(), row.center().y() - 4, 10, 9), color);
    painter.setPen(palette().text().color());
    painter.drawText(row.adjusted(15, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter,
                     metrics.elidedText(text, Qt::ElideRight, row.width() - 15));
    row.translate(0, metrics.height());
  }
}

QStringList MarginPlot::describe(int bin) const {
  const auto i = static_cast<std::size_t>(bin);
  QStringList lines{
      tr("margin %1 to %2").arg(formatValue(FlipFrame::edge(bin), 2), formatValue(FlipFrame::edge(bin + 1), 2)),
      tr("%1 tokens").arg(tokens_[i])};
  if (tokens_[i] > 0)
    lines << tr("%1 flipped (%2)").arg(flipped_[i]).arg(formatPercent(double(flipped_[i]) / tokens_[i]));
  return lines;
}

void MarginPlot::paintOverlay(QPainter& painter) {
  if (const int bin = binAt(mouse_.x()); bin >= 0) paintReadout(painter, mouse_, describe(bin));
}

void MarginPlot::mouseMoveEvent(QMouseEvent* event) {
  mouse_ = event->pos();
  const int bin = binAt(mouse_.x());
  emit readoutChanged(bin >= 0 && notice().isEmpty() ? describe(bin).join(QStringLiteral("   ")) : QString());
  update();
}

void MarginPlot::leaveEvent(QEvent*) {
  mouse_ = {-1, -1};
  emit readoutChanged({});
  update();
}

}  // namespace moescope
