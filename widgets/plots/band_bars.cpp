#include "widgets/plots/band_bars.h"

#include <QPainter>
#include <algorithm>
#include <cmath>

#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr int kBarSwatch = 18;
constexpr double kThickestRow = 26;

}  // namespace

BandBars::BandBars(QWidget* parent) : PlotFrame(parent) {}

void BandBars::setRows(std::vector<Row> rows) {
  rows_ = std::move(rows);
  double largest = 1e-9;
  QStringList spoken;
  for (const Row& row : rows_) {
    double sum = 0;
    for (const Part& part : row.parts) sum += part.value;
    largest = std::max(largest, sum);
    if (std::isfinite(row.high)) largest = std::max(largest, row.high);
    spoken << row.name + QLatin1Char(' ') + row.figure;
  }
  setAccessibleDescription(spoken.join(QStringLiteral("; ")));
  top_ = largest * 1.02;
}

void BandBars::setLegend(std::vector<LegendEntry> legend) {
  legend_ = std::move(legend);
}

int BandBars::namesWidth() const {
  int widest = 0;
  for (const Row& row : rows_)
    if (!row.heading) widest = std::max(widest, fontMetrics().horizontalAdvance(row.name));
  return std::min(widest, width() * 2 / 5) + 12;
}

int BandBars::figuresWidth() const {
  int widest = 0;
  for (const Row& row : rows_) widest = std::max(widest, fontMetrics().horizontalAdvance(row.figure));
  return std::min(widest, width() * 2 / 5) + 10;
}

QStringList BandBars::keyLabels() const {
  QStringList labels;
  for (const LegendEntry& entry : legend_) labels << entry.label;
  return labels;
}

QMargins BandBars::margins() const {
  const int line = fontMetrics().height();
  return {namesWidth(), keyHeight(keyLabels(), kBarSwatch) + 6, figuresWidth(), 2 * line + 6};
}

Axis BandBars::axis() const {
  const QRect plot = plotRect();
  return {.low = 0, .high = top_, .at_low = plot.left() + 0.0, .at_high = plot.right() + 0.0};
}

double BandBars::rowHeight() const {
  return std::min<double>(withType(kThickestRow),
                          plotRect().height() / std::max<double>(1, static_cast<double>(rows_.size())));
}

int BandBars::rowAt(QPoint position) const {
  const double row = (position.y() - plotRect().top()) / rowHeight();
  return row >= 0 && row < static_cast<double>(rows_.size()) ? static_cast<int>(row) : -1;
}

QString BandBars::staticKey() const {
  QString key = caption_ + QString::number(top_) + QString::number(namesWidth()) + QString::number(figuresWidth());
  for (const LegendEntry& entry : legend_) key += entry.label;
  return key;
}

void BandBars::paintStatic(QPainter& painter) {
  paintKey(painter);
  const QRect plot = plotRect();
  const QFontMetrics metrics(painter.font());
  for (const Tick& tick : linearTicks(0, top_, std::max(2, plot.width() / withType(70)))) {
    const int x = static_cast<int>(std::lround(axis().toPixel(tick.value)));
    painter.setPen(gridColor(palette()));
    painter.drawLine(x, plot.top(), x, plot.bottom() + 3);
    painter.setPen(palette().text().color());
    painter.drawText(QRect(x - withType(40), plot.bottom() + 3, withType(80), metrics.height()), Qt::AlignCenter,
                     format_ ? format_(tick.value) : tick.label);
  }
  painter.setPen(mutedText(palette()));
  const QRect line(4, plot.bottom() + 3 + metrics.height(), width() - 8, metrics.height());
  painter.drawText(line, Qt::AlignCenter, metrics.elidedText(caption_, Qt::ElideRight, line.width()));
}

void BandBars::paintKey(QPainter& painter) const {
  const std::vector<KeyEntry> entries = keyEntries(keyLabels(), kBarSwatch);
  for (std::size_t i = 0; i < legend_.size(); ++i) {
    const QRectF swatch = entries[i].swatch;
    if (legend_[i].band) {
      painter.setPen(QPen(palette().text().color(), 1.4));
      painter.drawLine(QLineF(swatch.left(), swatch.center().y(), swatch.right(), swatch.center().y()));
      for (const double end : {swatch.left(), swatch.right()})
        painter.drawLine(QLineF(end, swatch.top(), end, swatch.bottom()));
    } else {
      paintBar(painter, swatch, legend_[i].color, legend_[i].fill);
    }
    painter.setPen(palette().text().color());
    painter.drawText(entries[i].text, Qt::AlignLeft | Qt::AlignVCenter, legend_[i].label);
  }
}

void BandBars::paintBar(QPainter& painter, const QRectF& bar, int color, Fill fill) const {
  const QColor solid = seriesColor(color, dark());
  QColor pale = solid;
  pale.setAlpha(dark() ? 70 : 55);
  switch (fill) {
    case Fill::solid:
      painter.fillRect(bar, solid);
      return;
    case Fill::hatched:
      painter.fillRect(bar, pale);
      painter.fillRect(bar, QBrush(solid, Qt::BDiagPattern));
      break;
    case Fill::dotted:
      painter.fillRect(bar, QBrush(solid, Qt::Dense5Pattern));
      break;
    case Fill::outlined:
      break;
  }
  painter.setPen(QPen(solid, 1.5, fill == Fill::outlined ? Qt::DashLine : Qt::SolidLine));
  painter.drawRect(bar.adjusted(0.5, 0.5, -0.5, -0.5));
}

void BandBars::paintBand(QPainter& painter, double low, double high, double y, double height) const {
  const double left = axis().toPixel(low), right = axis().toPixel(high);
  painter.setPen(QPen(palette().text().color(), 1.4));
  painter.drawLine(QLineF(left, y, right, y));
  for (const double end : {left, right}) painter.drawLine(QLineF(end, y - height / 4, end, y + height / 4));
}

void BandBars::paintData(QPainter& painter) {
  const QRect plot = plotRect();
  const QFontMetrics metrics(painter.font());
  const double each = rowHeight();
  if (each <= 0) return;
  double y = plot.top(), named = -metrics.height();
  for (const Row& row : rows_) {
    const bool room_for_text = y - named >= 0.7 * metrics.height();
    if (room_for_text) named = y;
    const int baseline_box = std::max(metrics.height(), static_cast<int>(each));
    const int top = static_cast<int>(y + (each - baseline_box) / 2);
    painter.setPen(row.heading ? mutedText(palette()) : palette().text().color());
    const int room = row.heading ? width() - 12 : plot.left() - 10;
    if (room_for_text)
      painter.drawText(QRect(6, top, room, baseline_box), Qt::AlignLeft | Qt::AlignVCenter,
                       metrics.elidedText(row.name, Qt::ElideRight, room));
    double sum = 0;
    for (const Part& part : row.parts) {
      if (!(part.value > 0)) continue;
      const double from = axis().toPixel(sum), to = axis().toPixel(sum + part.value);
      paintBar(painter, QRectF(from, y + each * 0.12, std::max(1.0, to - from), each * 0.76), part.color, part.fill);
      sum += part.value;
    }
    if (std::isfinite(row.low) && std::isfinite(row.high)) paintBand(painter, row.low, row.high, y + each / 2, each);
    painter.setPen(palette().text().color());
    if (room_for_text)
      painter.drawText(QRect(plot.right() + 6, top, width() - plot.right() - 8, baseline_box),
                       Qt::AlignLeft | Qt::AlignVCenter,
                       metrics.elidedText(row.figure, Qt::ElideRight, width() - plot.right() - 8));
    y += each;
  }
}

QStringList BandBars::readoutAt(QPoint position) const {
  const int row = describe ? rowAt(position) : -1;
  return row < 0 ? QStringList() : describe(row);
}

}  // namespace moescope
