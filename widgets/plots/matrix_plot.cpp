#include "widgets/plots/matrix_plot.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "widgets/look/fitted_text.h"

namespace moescope {
namespace {

constexpr double kMinSeparateCell = 5;  // logical pixels
constexpr double kSmallLabels = 0.9;    // font scale of names of narrow columns
constexpr double kSmallTexts = 0.8;     // least font scale of texts in cells

bool crowded(const std::vector<Tick>& ticks, const QFontMetrics& metrics, double cell) {
  return std::ranges::any_of(ticks, [&](const Tick& tick) {
    return tick.label.size() > 1 && !tick.label[0].isDigit() && metrics.horizontalAdvance(tick.label) + 2 > cell;
  });
}

// Returns n such that neighbours do not touch if only every n-th label is painted.
int strideOf(const std::vector<Tick>& ticks, const QFontMetrics& metrics, double cell) {
  if (ticks.size() < 2) return 1;
  int widest = 0;
  for (const Tick& tick : ticks) widest = std::max(widest, metrics.horizontalAdvance(tick.label));
  return labelStride(widest + kSpace8, (ticks[1].value - ticks[0].value) * cell, to_int(ticks.size()));
}

// Returns the edges of the pixels in cells: pixel i shows the cells from edges[i] up to edges[i + 1], exclusive.
std::vector<int> edgesOfPixels(int cells, int most_pixels) {
  const int pixels = std::min(cells, most_pixels);
  std::vector<int> edges;
  for (int i = 0; i <= pixels; ++i) edges.push_back(i * cells / pixels);
  return edges;
}

}  // namespace

void MatrixPlot::setCells(int rows, int columns, std::vector<std::uint8_t> codes) {
  assert(codes.size() == static_cast<std::size_t>(rows) * columns);
  rows_ = rows;
  columns_ = columns;
  codes_ = std::move(codes);
}

void MatrixPlot::setRowAxis(std::vector<Tick> ticks, const QString& caption) {
  row_ticks_ = std::move(ticks);
  row_caption_ = caption;
  widest_label_ = 0;
  for (const Tick& tick : row_ticks_)
    widest_label_ = std::max(widest_label_, fontMetrics().horizontalAdvance(tick.label));
}

QMargins MatrixPlot::margins() const {
  const int above = fontMetrics().height() + kSpace8;
  return QMargins(widest_label_ + kSpace8 + kSpace12, above, kSpace8, axisLabelHeight()) + extra_;
}

QRectF MatrixPlot::cellRect(int row, int column) const {
  const QRect cells = cellsRect();
  const double w = static_cast<double>(cells.width()) / columns_, h = static_cast<double>(cells.height()) / rows_;
  return {cells.left() + column * w, cells.top() + row * h, w, h};
}

bool MatrixPlot::cellAt(QPoint position, int* row, int* column) const {
  const QRect cells = cellsRect();
  if (!cells.contains(position) || rows_ == 0 || columns_ == 0) return false;
  *row = std::min(rows_ - 1, static_cast<int>((position.y() - cells.top() + 0.5) * rows_ / cells.height()));
  *column = std::min(columns_ - 1, static_cast<int>((position.x() - cells.left() + 0.5) * columns_ / cells.width()));
  return true;
}

QRgb MatrixPlot::cellColor(int row, int column) const {
  return legend_.lut[codes_[static_cast<std::size_t>(row) * columns_ + column]];
}

void MatrixPlot::paintStatic(QPainter& painter) {
  const QRect cells = cellsRect();
  const QFontMetrics metrics(painter.font());
  std::vector<Tick> rows = row_ticks_;
  for (Tick& tick : rows) tick.value = cellRect(static_cast<int>(tick.value), 0).center().y();
  paintRowLabels(painter, rows, cells.left() - kSpace8 - extra_.left());
  paintLeftCaption(painter, margins().left() - kSpace8, row_caption_);  // the margin contains the measured labels
  const QFont usual = painter.font();
  if (crowded(column_ticks_, metrics, cellRect(0, 0).width())) painter.setFont(scaledFont(usual, kSmallLabels));
  const int stride = strideOf(column_ticks_, painter.fontMetrics(), cellRect(0, 0).width());
  std::vector<Tick> labels;
  for (std::size_t i = 0; i < column_ticks_.size(); ++i)
    if (i % stride == 0 || i + 1 == column_ticks_.size())
      labels.push_back({cellRect(0, static_cast<int>(column_ticks_[i].value)).center().x(), column_ticks_[i].label});
  // Every label counts, so the caption stands before the first one if a form of it fits there.
  QStringList captions = captionForms(column_caption_);
  const QRect before(0, cells.bottom() + 1 + extra_.bottom() + kSpace4, cells.left() - kSpace8, metrics.height());
  if (const QString form = fittingText(captions, metrics, before.width()); !form.isEmpty()) {
    painter.setPen(mutedText(palette()));
    painter.drawText(before, Qt::AlignRight | Qt::AlignVCenter, form);
    captions.clear();
  }
  paintBottomAxis(painter, kPixels, labels, captions, extra_.bottom());
  painter.setFont(usual);
  if (!legend_elsewhere_ || (printed() && legend_in_pictures_)) paintLegendInRow(painter, legend_);
}

QImage MatrixPlot::image(const QSize& max_size) const {
  const std::vector<int> row_edges = edgesOfPixels(rows_, max_size.height());
  const std::vector<int> column_edges = edgesOfPixels(columns_, max_size.width());
  const int width = to_int(column_edges.size()) - 1, height = to_int(row_edges.size()) - 1;
  QImage picture(width, height, QImage::Format_RGB32);
  for (int y = 0; y < height; ++y) {
    auto* out = reinterpret_cast<QRgb*>(picture.scanLine(y));
    for (int x = 0; x < width; ++x)
      out[x] = legend_.lut[heaviest(row_edges[y], row_edges[y + 1], column_edges[x], column_edges[x + 1])];
  }
  return picture;
}

std::uint8_t MatrixPlot::heaviest(int first_row, int end_row, int first_column, int end_column) const {
  std::uint8_t best = codes_[static_cast<std::size_t>(first_row) * columns_ + first_column];
  for (int row = first_row; row < end_row; ++row)
    for (int column = first_column; column < end_column; ++column) {
      const std::uint8_t code = codes_[static_cast<std::size_t>(row) * columns_ + column];
      if (weights_[code] > weights_[best]) best = code;
    }
  return best;
}

void MatrixPlot::paintData(QPainter& painter) {
  if (rows_ == 0 || columns_ == 0) return;
  const QRect cells = cellsRect();
  if (cells.width() < 2 || cells.height() < 2) return;
  painter.drawImage(cells, image(cells.size() * devicePixelRatioF()));
  const QRectF cell = cellRect(0, 0);
  if (std::min(cell.width(), cell.height()) >= kMinSeparateCell) {
    painter.setPen(palette().base().color());
    for (int row = 1; row < rows_; ++row)
      painter.drawLine(QPointF(cells.left(), cellRect(row, 0).top()), QPointF(cells.right(), cellRect(row, 0).top()));
    for (int column = 1; column < columns_; ++column) {
      const double x = cellRect(0, column).left();
      painter.drawLine(QPointF(x, cells.top()), QPointF(x, cells.bottom()));
    }
  }
  if (hatched_code_ >= 0) paintHatch(painter);
  if (decorate) decorate(painter);
}

void MatrixPlot::paintHatch(QPainter& painter) const {
  const QBrush lines = fineHatch(hatchOnZeroLoad(dark()));
  for (int row = 0; row < rows_; ++row)
    for (int column = 0; column < columns_; ++column)
      if (codes_[static_cast<std::size_t>(row) * columns_ + column] == hatched_code_)
        painter.fillRect(cellRect(row, column), lines);
}

void MatrixPlot::paintOverlay(QPainter& painter) {
  if (row_ >= 0 && row_ < rows_ && column_ < columns_) {
    const QRectF row_box = cellRect(row_, 0).united(cellRect(row_, columns_ - 1));
    if (column_ < 0) paintFrame(painter, row_box);
    const auto tick = std::ranges::find(row_ticks_, static_cast<double>(row_), &Tick::value);
    paintRowLabel(painter, row_box.center().y(), tick == row_ticks_.end() ? QString() : tick->label);
    if (column_ >= 0) paintFrame(painter, cellRect(row_, column_));
  } else if (row_ == kAllRows && rows_ > 0 && column_ >= 0 && column_ < columns_) {
    paintFrame(painter, cellRect(0, column_).united(cellRect(rows_ - 1, column_)));
  }
  int row = 0, column = 0;
  if (describe && cellAt(mouse_, &row, &column)) {
    painter.setPen(palette().text().color());
    painter.drawRect(cellRect(row, column).adjusted(0, 0, -1, -1));
  }
  PlotFrame::paintOverlay(painter);
}

std::optional<FigureTarget> MatrixPlot::figureAt(QPoint position) const {
  int row = 0, column = 0;
  if (!figure || !notice().isEmpty() || !cellAt(position, &row, &column)) return std::nullopt;
  return figure(row, column);
}

QPoint MatrixPlot::cursorPosition() const {
  const bool chosen = row_ >= 0 && row_ < rows_ && column_ < columns_;
  return chosen ? cellRect(row_, std::max(0, column_)).center().toPoint() : cellsRect().center();
}

QStringList MatrixPlot::readoutAt(QPoint position) const {
  int row = 0, column = 0;
  return describe && cellAt(position, &row, &column) ? describe(row, column) : QStringList();
}

void MatrixPlot::mousePressEvent(QMouseEvent* event) {
  int row = 0, column = 0;
  if (event->button() != Qt::LeftButton || !notice().isEmpty() || !cellAt(event->pos(), &row, &column)) return;
  emit cellChosen(row, column);
  emit cellOpened(row, column);
}

void MatrixPlot::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) {
    if (row_ >= 0 && row_ < rows_ && column_ >= 0 && column_ < columns_) emit cellOpened(row_, column_);
    return;
  }
  const QPoint arrow = arrowOf(event);
  if (arrow.isNull()) return QWidget::keyPressEvent(event);
  if (rows_ == 0 || columns_ == 0) return;
  const int row = std::clamp(std::max(0, row_) + arrow.y(), 0, rows_ - 1);
  const int column = std::clamp(std::max(0, column_) + arrow.x(), 0, columns_ - 1);
  emit cellChosen(row, column);
  if (describe) emit readoutChanged(describe(row, column).join(QStringLiteral("   ")));
}

void MatrixPlot::paintTexts(QPainter& painter, const QSizeF& min_size,
                            const std::function<QString(int row, int column)>& text) const {
  const QRectF cell = cellRect(0, 0);
  const double room = std::min(cell.width() / min_size.width(), cell.height() / min_size.height());
  if (room < kSmallTexts) return;
  const QFont usual = painter.font();
  if (room < 1) painter.setFont(scaledFont(usual, room));
  for (int row = 0; row < rows_; ++row)
    for (int column = 0; column < columns_; ++column) {
      painter.setPen(textOn(cellColor(row, column)));
      painter.drawText(cellRect(row, column), Qt::AlignCenter, text(row, column));
    }
  painter.setFont(usual);
}

// Digits have no descenders. A frame around a neighbour takes a pixel of the cell.
QSizeF MatrixPlot::sizeFor(const QString& widest, int margin) const {
  const QFontMetrics metrics(font());
  return {metrics.horizontalAdvance(widest) + margin + 0.0, metrics.capHeight() + 5.0};
}

std::array<std::uint8_t, 256> utilisationWeights(int limit) {
  std::array<std::uint8_t, 256> weights{};
  const int neutral = utilisationCode(1.0);
  const std::uint8_t hot = utilisationCode(4, limit);
  for (int code = 2; code < hot; ++code)
    weights[code] = static_cast<std::uint8_t>(std::min(1 + std::abs(code - neutral), hot - 2));
  weights[kZeroLoadCode] = static_cast<std::uint8_t>(hot - 1);
  std::iota(weights.begin() + hot, weights.end(), hot);
  return weights;
}

std::array<std::uint8_t, 256> sequentialWeights() {
  std::array<std::uint8_t, 256> weights{};
  for (int code = 0; code < 256; ++code) weights[code] = static_cast<std::uint8_t>(code);
  return weights;
}

}  // namespace moescope
