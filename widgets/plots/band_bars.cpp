#include "widgets/plots/band_bars.h"

#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr int kBarSwatch = 12;
constexpr double kTallestRow = 76;

QStringList columnsOf(const QString& figure) {
  return figure.split(QLatin1Char('\t'));
}

int widthOf(const std::vector<int>& columns) {
  return std::accumulate(columns.begin(), columns.end(), to_int(columns.size()) * kSpace12);
}

}  // namespace

void BandBars::setRows(std::vector<Row> rows) {
  rows_ = std::move(rows);
  double largest = 1e-9;
  QStringList spoken;
  for (const Row& row : rows_) {
    double sum = 0;
    for (const Part& part : row.parts) sum += part.value;
    largest = std::max(largest, sum);
    if (std::isfinite(row.high)) largest = std::max(largest, row.high);
    spoken << row.name + QLatin1Char(' ') + columnsOf(row.figure).join(QStringLiteral(", "));
  }
  setAccessibleDescription(spoken.join(QStringLiteral("; ")));
  top_ = largest * 1.02;
}

int BandBars::namesWidth() const {
  int widest = 0;
  for (const Row& row : rows_)
    if (!row.heading) widest = std::max(widest, fontMetrics().horizontalAdvance(row.name));
  return std::min(widest + 2, width() * 2 / 5) + kSpace8;
}

std::vector<int> BandBars::figureColumns() const {
  std::vector<int> widths;
  for (const Row& row : rows_) {
    const QStringList columns = columnsOf(row.figure);
    widths.resize(std::max<std::size_t>(widths.size(), static_cast<std::size_t>(columns.size())));
    for (int i = 0; i < columns.size(); ++i) {
      int& width = widths[i];
      width = std::max(width, fontMetrics().horizontalAdvance(columns[i]) + 1);
    }
  }
  while (widths.size() > 1 && widthOf(widths) > width() / 2) widths.pop_back();
  return widths;
}

QMargins BandBars::margins() const {
  const int above = keyBeside(caption_, labelsOf(legend_, &LegendEntry::label), kBarSwatch).height;
  // The axis stands below the last row, also in a high plot.
  const int unused_height = height() - above - to_int(rows_.size()) * withType(kTallestRow);
  return {namesWidth(), above, widthOf(figureColumns()), std::max(fontMetrics().height() + kSpace4, unused_height)};
}

QColor BandBars::colorOf(int color) const {
  if (color >= 0) return seriesColor(color, dark());
  return QColor(color == kPlain ? colors(palette()).plain_bar : colors(palette()).strong_bar);
}

int BandBars::rowAt(QPoint position) const {
  const double row = (position.y() - plotRect().top()) / rowHeight();
  return row >= 0 && row < rows_.size() ? static_cast<int>(row) : -1;
}

void BandBars::paintStatic(QPainter& painter) {
  const QFontMetrics metrics(painter.font());
  painter.setPen(mutedText(palette()));
  painter.drawText(captionRow(), Qt::AlignLeft | Qt::AlignVCenter, elidedWords(caption_, metrics, width()));
  paintKey(painter);
  const QRect plot = plotRect();
  std::vector<Tick> ticks = linearTicks(0, top_, std::max(2, plot.width() / withType(70)));
  if (format_)
    for (Tick& tick : ticks) tick.label = format_(tick.value);
  paintVerticalGrid(painter, axis(), ticks);
  paintBottomAxis(painter, axis(), ticks, {});
}

void BandBars::paintKey(QPainter& painter) const {
  const std::vector<KeyEntry> entries = keyBeside(caption_, labelsOf(legend_, &LegendEntry::label), kBarSwatch).entries;
  for (std::size_t i = 0; i < legend_.size(); ++i) {
    const QRectF swatch = entries[i].swatch;
    legend_[i].band ? paintBand(painter, swatch.left(), swatch.right(), swatch.center().y(), swatch.height() / 2)
                    : paintBar(painter, swatch, legend_[i].color, legend_[i].fill);
    painter.setPen(mutedText(palette()));
    painter.drawText(entries[i].text, Qt::AlignLeft | Qt::AlignVCenter, legend_[i].label);
  }
}

void BandBars::paintBar(QPainter& painter, const QRectF& bar, int color, Fill fill) const {
  const QColor solid = colorOf(color);
  QColor pale = solid;
  pale.setAlpha(dark() ? 70 : 55);
  switch (fill) {
    case Fill::solid:
      painter.fillRect(bar, solid);
      return;
    case Fill::hatched:
      painter.fillRect(bar, pale);
      painter.fillRect(bar, QBrush(solid, Qt::BDiagPattern));
      return;
    case Fill::dotted:
      painter.fillRect(bar, QBrush(solid, Qt::Dense5Pattern));
      return;
    case Fill::outlined:
      painter.setPen(QPen(solid, 1, Qt::DashLine));
      painter.drawRect(bar.adjusted(0.5, 0.5, -0.5, -0.5));
  }
}

void BandBars::paintBand(QPainter& painter, double left_x, double right, double y, double half_height) const {
  painter.setPen(QPen(palette().text().color(), 1.4));
  painter.drawLine(QLineF(left_x, y, right, y));
  for (const double end : {left_x, right}) painter.drawLine(QLineF(end, y - half_height, end, y + half_height));
}

void BandBars::paintData(QPainter& painter) {
  const QRect plot = plotRect();
  const QFontMetrics metrics(painter.font());
  const double row_height = rowHeight();
  if (row_height <= 0) return;
  double y = plot.top(), named = -metrics.height();
  for (const Row& row : rows_) {
    const bool room_for_text = y - named >= 0.7 * metrics.height();
    if (room_for_text) named = y;
    const int baseline_box = std::max(metrics.height(), static_cast<int>(row_height));
    const int top = static_cast<int>(y + (row_height - baseline_box) / 2);
    painter.setPen(row.heading ? mutedText(palette()) : palette().text().color());
    const int room = row.heading ? width() : plot.left() - kSpace8;
    if (room_for_text)
      painter.drawText(QRect(0, top, room + 1, baseline_box), Qt::AlignLeft | Qt::AlignVCenter,
                       elidedWords(row.name, metrics, room));
    double sum = 0;
    for (const Part& part : row.parts) {
      if (!(part.value > 0)) continue;
      const double from = axis().toPixel(sum), to = axis().toPixel(sum + part.value);
      paintBar(painter, QRectF(from, y + row_height * 0.12, std::max(1.0, to - from), row_height * 0.76), part.color,
               part.fill);
      sum += part.value;
    }
    if (std::isfinite(row.low) && std::isfinite(row.high))
      paintBand(painter, axis().toPixel(row.low), axis().toPixel(row.high), y + row_height / 2, row_height / 4);
    painter.setPen(palette().text().color());
    if (room_for_text && !row.heading)
      paintFigures(painter, columnsOf(row.figure), {plot.right() + 1, top, width() - plot.right() - 1, baseline_box});
    y += row_height;
  }
}

void BandBars::paintFigures(QPainter& painter, const QStringList& figures, const QRect& line) const {
  const std::vector<int> columns = figureColumns();
  int right = line.left();
  for (std::size_t i = 0; i < columns.size() && i < static_cast<std::size_t>(figures.size()); ++i) {
    right += kSpace12 + columns[i];
    painter.setPen(i == 0 ? palette().text().color() : mutedText(palette()));
    painter.drawText(QRect(right - columns[i], line.top(), columns[i], line.height()),
                     Qt::AlignRight | Qt::AlignVCenter, figures[to_int(i)]);
  }
}

std::optional<FigureTarget> BandBars::figureAt(QPoint position) const {
  return figure && !readoutAt(position).isEmpty() ? std::optional(figure(rowAt(position))) : std::nullopt;
}

void BandBars::mousePressEvent(QMouseEvent* event) {
  readoutAt(event->pos()).isEmpty() ? PlotFrame::mousePressEvent(event) : emit rowChosen(rowAt(event->pos()));
}

QStringList BandBars::readoutAt(QPoint position) const {
  const int row = describe ? rowAt(position) : -1;
  return row < 0 ? QStringList() : describe(row);
}

}  // namespace moescope
