#include "widgets/microscaling/what_if_table.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "widgets/panel/format_text.h"

namespace moescope {
namespace {

constexpr double kScaleTopDb = 50;  // top of the colour scale
constexpr int kColumnGap = 2;
constexpr int kStripe = 5;  // height of a row without figures

// "11%", "0.4%", "0%": for a cell.
QString shortPercent(double share) {
  const double percent = 100 * share;
  if (percent > 0 && percent < 0.1) return QStringLiteral("<.1%");
  return QString::number(percent, 'f', percent == 0 || percent >= 9.95 ? 0 : 1) + QLatin1Char('%');
}

}  // namespace

WhatIfTable::WhatIfTable(QWidget* parent) : PlotFrame(parent) {
  setAccessibleName(tr("This tensor in every format"));
}

void WhatIfTable::setRows(std::vector<WhatIfRow> rows) {
  rows_ = std::move(rows);
  markDirty();
}

void WhatIfTable::setSchemes(std::vector<WhatIfRow> schemes) {
  schemes_ = std::move(schemes);
  markDirty();
}

void WhatIfTable::setMetric(WhatIfMetric metric) {
  metric_ = metric;
  markDirty();
}

void WhatIfTable::setColumns(WhatIfColumns columns) {
  columns_ = columns;
  markDirty();
}

void WhatIfTable::setChoice(const OperandFormat& format, BlockAxis axis) {
  choice_ = format;
  axis_ = axis;
  markDirty();
}

int WhatIfTable::columnCount() const {
  return columns_ == WhatIfColumns::block_sizes ? static_cast<int>(kWhatIfBlocks.size()) : kWhatIfRules;
}

// The choice, or its counterpart with power-of-two scales, since that table has no row for other scales.
OperandFormat WhatIfTable::mxChoice() const {
  return choice_.scheme == QuantScheme::mx ? choice_ : mx_format(ElementFormat::e4m3);
}

const WhatIfRow& WhatIfTable::rowOf(const Cell& cell) const {
  OperandFormat format = mxChoice();
  format.element = static_cast<ElementFormat>(cell.format);
  if (columns_ == WhatIfColumns::block_sizes)
    format.block = kWhatIfBlocks[static_cast<std::size_t>(cell.column)];
  else
    format.rule = static_cast<ScaleRule>(cell.column);
  const int index = what_if_index(format, static_cast<BlockAxis>(cell.axis));
  return rows_[static_cast<std::size_t>(std::max(0, index))];
}

double WhatIfTable::valueOf(const QuantSums& sums) const {
  switch (metric_) {
    case WhatIfMetric::sqnr:
      return sums.sqnr_db();
    case WhatIfMetric::underflow:
      return sums.underflow_share();
    case WhatIfMetric::clipped:
      return sums.clipped_share();
  }
  return 0;
}

QString WhatIfTable::textOf(const QuantSums& sums) const {
  const double value = valueOf(sums);
  if (metric_ != WhatIfMetric::sqnr) return formatPercent(value);
  return std::isnan(value) ? tr("NaN") : std::isinf(value) ? tr("exact") : withMinus(QString::number(value, 'f', 1));
}

// Shares by their square root, so that 0.1 % is seen beside 90 %.
double WhatIfTable::position(double value) const {
  return metric_ == WhatIfMetric::sqnr ? value / kScaleTopDb : 1 - std::sqrt(value);
}

LegendScale WhatIfTable::legend() const {
  LegendScale scale{viridisLut(dark()), {}, metric_ == WhatIfMetric::sqnr ? tr("SQNR dB") : tr("share"), false, 1};
  if (metric_ == WhatIfMetric::sqnr) {
    for (const Tick& tick : linearTicks(0, kScaleTopDb, 5))
      scale.ticks.push_back({tick.value / kScaleTopDb, tick.label});
    scale.beyond = true;
  } else {
    for (const double share : {0.0, 0.01, 0.1, 0.25, 0.5, 1.0})
      scale.ticks.push_back({position(share), formatPercent(share)});
  }
  return scale;
}

QRect WhatIfTable::cellRect(BlockAxis axis, int format, int column) const {
  const QRect plot = plotRect();
  const Rows rows = rowsOf(axis);
  const int width = std::max(8, plot.width() / columnCount());
  return {plot.left() + column * width, rows.top + format * rows.height, width - kColumnGap, rows.height - 1};
}

// Both axes alike where there is room for figures in all rows; else the chosen one has the room, and the other is
// coloured stripes.
WhatIfTable::Rows WhatIfTable::rowsOf(BlockAxis axis) const {
  const QRect plot = plotRect();
  const int line = fontMetrics().height(), head = 2 * line;
  const int room = plot.height() - schemesHeight(), half = room / 2;
  if (const int height = (half - head - 4) / kNumElementFormats; height >= line)
    return {plot.top() + static_cast<int>(axis) * half + head, height};
  const int large =
      std::clamp((room - head - line - 12 - kNumElementFormats * kStripe) / kNumElementFormats, kStripe, line + 2);
  const int first = axis_ == BlockAxis::row ? large : kStripe;
  if (axis == BlockAxis::row) return {plot.top() + (axis_ == axis ? head : line), first};
  const int top = plot.top() + (axis_ == axis ? line : head) + kNumElementFormats * first + 6;
  return {top + (axis_ == axis ? head : line), axis_ == axis ? large : kStripe};
}

int WhatIfTable::schemesHeight() const {
  return 4 * fontMetrics().height() + 8;
}

QRect WhatIfTable::schemeRect(BlockAxis axis, int scheme) const {
  const QRect plot = plotRect();
  const int line = fontMetrics().height();
  const int top = plot.bottom() - schemesHeight() + 2 * line + 2 + static_cast<int>(axis) * (line + 3);
  const int width = std::max(8, plot.width() / kWhatIfSchemes);
  return {plot.left() + scheme * width, top, width - kColumnGap, line + 2};
}

const WhatIfRow& WhatIfTable::schemeRow(BlockAxis axis, int scheme) const {
  return schemes_[static_cast<std::size_t>(static_cast<int>(axis) * kWhatIfSchemes + scheme)];
}

// Nothing: there is no scheme at the position.
const WhatIfRow* WhatIfTable::schemeAt(QPoint position) const {
  if (schemes_.empty()) return nullptr;
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column})
    for (int scheme = 0; scheme < kWhatIfSchemes; ++scheme)
      if (schemeRect(axis, scheme).contains(position)) return &schemeRow(axis, scheme);
  return nullptr;
}

void WhatIfTable::paintSchemes(QPainter& painter, const LegendScale& legend) const {
  if (schemes_.empty()) return;
  const int line = fontMetrics().height();
  const QRect first = schemeRect(BlockAxis::row, 0);
  painter.setPen(mutedText(palette()));
  painter.drawText(first.left(), first.top() - line - fontMetrics().descent(), tr("other scales than powers of two"));
  for (int scheme = 0; scheme < kWhatIfSchemes; ++scheme) {
    painter.setPen(palette().text().color());
    const QRect head = schemeRect(BlockAxis::row, scheme).translated(0, -line);
    painter.drawText(QRect(head.left(), head.top(), head.width(), line), Qt::AlignCenter,
                     shortFormatLabel(schemeRow(BlockAxis::row, scheme).format));
    for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
      const QRect box = schemeRect(axis, scheme);
      const QuantSums& sums = schemeRow(axis, scheme).sums;
      const QRgb color = legend.lut[scaleCode(position(valueOf(sums)))];
      painter.fillRect(box, QColor(color));
      painter.setPen(textOn(color));
      painter.drawText(box, Qt::AlignCenter, textOf(sums));
      if (metric_ == WhatIfMetric::sqnr) paintGlyphs(painter, box, sums, textOn(color));
    }
  }
  painter.setPen(palette().text().color());
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
    const QRect box = schemeRect(axis, 0);
    painter.drawText(QRect(0, box.top(), box.left() - 5, box.height()), Qt::AlignRight | Qt::AlignVCenter,
                     axis == BlockAxis::row ? tr("rows") : tr("cols"));
  }
}

bool WhatIfTable::find(QPoint position, Cell* cell) const {
  if (rows_.empty()) return false;
  for (int axis = 0; axis < 2; ++axis)
    for (int format = 0; format < kNumElementFormats; ++format)
      for (int column = 0; column < columnCount(); ++column)
        if (cellRect(static_cast<BlockAxis>(axis), format, column).contains(position)) {
          *cell = {axis, format, column};
          return true;
        }
  return false;
}

WhatIfTable::Cell WhatIfTable::choiceCell() const {
  int column = static_cast<int>(choice_.rule);
  if (columns_ == WhatIfColumns::block_sizes) {
    const auto found = std::find(kWhatIfBlocks.begin(), kWhatIfBlocks.end(), choice_.block);
    column = found == kWhatIfBlocks.end() ? -1 : static_cast<int>(found - kWhatIfBlocks.begin());
  }
  return {static_cast<int>(axis_), static_cast<int>(choice_.element), choice_.scheme == QuantScheme::mx ? column : -1};
}

int WhatIfTable::schemeOfChoice() const {
  if (choice_.scheme == QuantScheme::mx) return -1;
  for (int scheme = 0; scheme < kWhatIfSchemes && !schemes_.empty(); ++scheme)
    if (schemeRow(axis_, scheme).format == choice_) return scheme;
  return -1;
}

// The highest SQNR among formats of the same number of bits; of equal ones the first.
bool WhatIfTable::isBest(const Cell& cell) const {
  const int bits = traits(static_cast<ElementFormat>(cell.format)).bits;
  const double mine = rowOf(cell).sums.sqnr_db();
  if (!std::isfinite(mine)) return false;
  bool before = true;
  for (int axis = 0; axis < 2; ++axis)
    for (int format = 0; format < kNumElementFormats; ++format)
      for (int column = 0; column < columnCount(); ++column) {
        const Cell other{axis, format, column};
        if (other == cell) {
          before = false;
          continue;
        }
        if (traits(static_cast<ElementFormat>(format)).bits != bits) continue;
        const double theirs = rowOf(other).sums.sqnr_db();
        if (theirs > mine || (theirs == mine && before)) return false;
      }
  return true;
}

void WhatIfTable::paintHeads(QPainter& painter, int axis) const {
  const QFontMetrics metrics(painter.font());
  const QRect first = cellRect(static_cast<BlockAxis>(axis), 0, 0);
  const QString fixed = columns_ == WhatIfColumns::block_sizes
                            ? tr("%1, block size").arg(scaleRuleLabel(mxChoice().rule))
                            : tr("blocks of %1, scale rule").arg(mxChoice().block);
  painter.setPen(mutedText(palette()));
  const bool stripes = first.height() + 1 < metrics.height();
  painter.drawText(
      first.left(), first.top() - (stripes ? 0 : metrics.height()) - metrics.descent(),
      tr("blocks %1: %2")
          .arg(blockAxisLabel(static_cast<BlockAxis>(axis)), stripes ? tr("hover or click for figures") : fixed));
  if (stripes) return;
  painter.setPen(palette().text().color());
  for (int column = 0; column < columnCount(); ++column) {
    const QString label = columns_ == WhatIfColumns::block_sizes
                              ? QString::number(kWhatIfBlocks[static_cast<std::size_t>(column)])
                              : scaleRuleLabel(static_cast<ScaleRule>(column));
    const QRect cell = cellRect(static_cast<BlockAxis>(axis), 0, column);
    painter.drawText(QRect(cell.left(), cell.top() - metrics.height(), cell.width(), metrics.height()), Qt::AlignCenter,
                     label);
  }
  for (int format = 0; format < kNumElementFormats; ++format) {
    const QRect cell = cellRect(static_cast<BlockAxis>(axis), format, 0);
    painter.drawText(QRect(0, cell.top(), cell.left() - 5, cell.height()), Qt::AlignRight | Qt::AlignVCenter,
                     elementFormatLabel(static_cast<ElementFormat>(format)));
  }
}

void WhatIfTable::paintCell(QPainter& painter, const Cell& cell, const LegendScale& legend) const {
  const QRect box = cellRect(static_cast<BlockAxis>(cell.axis), cell.format, cell.column);
  const QuantSums& sums = rowOf(cell).sums;
  const double value = valueOf(sums);
  const QRgb color = legend.lut[scaleCode(position(value))];
  painter.fillRect(box, QColor(color));
  const QFontMetrics metrics(painter.font());
  if (box.height() + 1 < metrics.height()) return;
  painter.setPen(textOn(color));
  QString text = textOf(sums);
  if (isBest(cell)) text += QStringLiteral(" \u2605");
  if (box.height() >= 2 * metrics.height() - 4 && metric_ == WhatIfMetric::sqnr) {
    const QString second =
        tr("0:%1 !:%2").arg(shortPercent(sums.underflow_share()), shortPercent(sums.clipped_share()));
    if (metrics.horizontalAdvance(second) <= box.width() - 4) text += QLatin1Char('\n') + second;
  }
  painter.drawText(box, Qt::AlignCenter, text);
  if (metric_ == WhatIfMetric::sqnr && !text.contains(QLatin1Char('\n')))
    paintGlyphs(painter, box, sums, textOn(color));
}

// What the SQNR hides, as in the panel Quantization error.
void WhatIfTable::paintGlyphs(QPainter& painter, const QRect& box, const QuantSums& sums, const QColor& ink) const {
  const int thick = std::clamp(box.height() / 8, 1, 3);
  const auto bar = [&](double share, int y) {
    if (const double length = glyphLength(share) * (box.width() - 2); length > 0)
      painter.fillRect(QRectF(box.left() + 1, y, std::max(1.0, length), thick), ink);
  };
  bar(sums.underflow_share(), box.bottom() - thick + 1);
  bar(sums.clipped_share(), box.top());
}

void WhatIfTable::paintData(QPainter& painter) {
  if (rows_.empty()) return;
  const LegendScale scale = legend();
  for (int axis = 0; axis < 2; ++axis) {
    paintHeads(painter, axis);
    for (int format = 0; format < kNumElementFormats; ++format)
      for (int column = 0; column < columnCount(); ++column) paintCell(painter, {axis, format, column}, scale);
  }
  paintSchemes(painter, scale);
  paintLegend(
      painter,
      QRect(width() - legendWidth(fontMetrics()), 2, legendWidth(fontMetrics()) - 2, std::min(height() - 6, 260)),
      scale, palette());
}

void WhatIfTable::paintOverlay(QPainter& painter) {
  if (rows_.empty()) return;
  const Cell current = choiceCell();
  if (current.column >= 0) {
    const QRect box = cellRect(axis_, current.format, current.column);
    painter.setPen(cursorColor(dark()));
    for (int i = 0; i < 3; ++i) painter.drawRect(box.adjusted(-1 + i, -1 + i, -i, -i));
  }
  if (const int scheme = schemeOfChoice(); scheme >= 0) {
    painter.setPen(cursorColor(dark()));
    for (int i = 0; i < 3; ++i) painter.drawRect(schemeRect(axis_, scheme).adjusted(-1 + i, -1 + i, -i, -i));
  }
  PlotFrame::paintOverlay(painter);
}

QStringList WhatIfTable::readout(const WhatIfRow& row) const {
  return {tr("%1, %2").arg(operandFormatLabel(row.format), blockAxisLabel(row.axis)),
          tr("SQNR %1 dB").arg(formatValue(row.sums.sqnr_db(), 4)),
          tr("flushed to zero %1").arg(formatPercent(row.sums.underflow_share())),
          tr("clipped %1 of elements, %2 of blocks")
              .arg(formatPercent(row.sums.clipped_share()), formatPercent(row.sums.clipped_blocks_share()))};
}

void WhatIfTable::choose(const Cell& cell) {
  const WhatIfRow& row = rowOf(cell);
  const OperandFormat format = row.format;
  const BlockAxis axis = row.axis;
  setChoice(format, axis);
  emit chosen(format, axis);
  emit readoutChanged(readout(rowOf(cell)).join(QStringLiteral("   ")));
}

QStringList WhatIfTable::readoutAt(QPoint position) const {
  Cell cell;
  if (find(position, &cell)) return readout(rowOf(cell));
  const WhatIfRow* scheme = schemeAt(position);
  return scheme ? readout(*scheme) : QStringList();
}

void WhatIfTable::mousePressEvent(QMouseEvent* event) {
  Cell cell;
  if (event->button() != Qt::LeftButton) return;
  if (find(event->pos(), &cell)) return choose(cell);
  const WhatIfRow* scheme = schemeAt(event->pos());
  if (!scheme) return;
  const BlockAxis axis = scheme->axis;
  const OperandFormat format = scheme->format;
  setChoice(format, axis);
  emit chosen(format, axis);
}

void WhatIfTable::keyPressEvent(QKeyEvent* event) {
  if (rows_.empty()) return PlotFrame::keyPressEvent(event);
  Cell cell = choiceCell();
  cell.column = std::max(0, cell.column);
  int line = cell.axis * kNumElementFormats + cell.format;  // both tables as one
  switch (event->key()) {
    case Qt::Key_Left:
      --cell.column;
      break;
    case Qt::Key_Right:
      ++cell.column;
      break;
    case Qt::Key_Up:
      --line;
      break;
    case Qt::Key_Down:
      ++line;
      break;
    default:
      return PlotFrame::keyPressEvent(event);
  }
  line = std::clamp(line, 0, 2 * kNumElementFormats - 1);
  choose({line / kNumElementFormats, line % kNumElementFormats, std::clamp(cell.column, 0, columnCount() - 1)});
}

}  // namespace moescope
