#include "widgets/plots/time_heat_map.h"

#include <QPainter>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "widgets/look/tokens.h"

namespace moescope {
namespace {

constexpr double kMinFramedRow = 5;  // logical pixels

}  // namespace

TimeHeatMap::TimeHeatMap(Selection* selection, QWidget* parent) : TimeAxisPlot(selection, parent) {
  legend_rows_ = 1;
}

void TimeHeatMap::setSource(const QString& source, int rows) {
  const bool same_source = std::exchange(source_, source) == source, same_rows = std::exchange(rows_, rows) == rows;
  if (!same_source || !same_rows) codes_.clear();
  setVisibleRows(0, rows - 1);
  updateColumns();
}

void TimeHeatMap::setVisibleRows(int first, int last) {
  first_row_ = std::max(0, first);
  last_row_ = std::min(rows_ - 1, last);
}

void TimeHeatMap::setRowAxis(std::vector<Tick> ticks, const QString& caption, bool upward) {
  row_ticks_ = std::move(ticks);
  row_caption_ = caption;
  upward_ = upward;
}

int TimeHeatMap::placeOf(int row) const {
  const auto found = std::ranges::find(order_, row);
  return found == order_.end() ? row : to_int(found - order_.begin());
}

double TimeHeatMap::yOf(double place) const {
  const QRect plot = plotRect();
  const double share = (place - first_row_) / std::max(1, last_row_ - first_row_ + 1);
  return upward_ ? plot.bottom() + 1 - share * plot.height() : plot.top() + share * plot.height();
}

// A hidden map has neither rows nor a notice, because nothing has filled it.
bool TimeHeatMap::hasRows() const {
  return selection_->history() && notice().isEmpty() && last_row_ >= first_row_;
}

int TimeHeatMap::rowAt(int y) const {
  const QRect plot = plotRect();
  double share = (y + 0.5 - plot.top()) / std::max(1, plot.height());
  if (upward_) share = 1 - share;
  const int row = first_row_ + static_cast<int>(std::floor(share * (last_row_ - first_row_ + 1)));
  return rowOf(std::clamp(row, first_row_, std::max(first_row_, last_row_)));
}

// Fetches columns that are not cached or may have grown.
void TimeHeatMap::updateColumns() {
  const History* history = selection_->history();
  if (!history || rows_ <= 0 || range().empty() || !fetch) return codes_.clear();
  const auto width = std::max<std::int64_t>(1, static_cast<std::int64_t>(plotRect().width() * devicePixelRatioF()));
  const std::int64_t stride = (range().size() + width - 1) / width;
  const std::int64_t first = range().first / stride, last = range().last / stride;
  const std::int64_t newest = history->steps().last;
  const std::uint64_t sequence = history->sequence();
  // More appends than new steps mean that a step was replaced (a run was reset) or a marker was added: fetches all
  // columns.
  const std::int64_t appended = sequence - known_sequence_;
  const bool rewritten = newest < known_last_step_ || appended > newest - known_last_step_;
  if (stride != stride_ || rewritten) codes_.clear();

  std::vector<std::uint8_t> next(static_cast<std::size_t>(last - first + 1) * rows_, kNoDataCode);
  std::int64_t keep_first = last + 1, keep_last = last;  // cached columns that are complete
  if (!codes_.empty()) {
    const std::int64_t cached_last = first_column_ + static_cast<std::int64_t>(codes_.size()) / rows_ - 1;
    keep_first = std::max(first, first_column_);
    keep_last = std::min({last, cached_last, (known_last_step_ + 1) / stride - 1});
    if (keep_first > keep_last) {
      keep_first = last + 1;
      keep_last = last;
    }
    for (std::int64_t c = keep_first; c <= keep_last; ++c)
      std::copy_n(codes_.begin() + (c - first_column_) * rows_, rows_, next.begin() + (c - first) * rows_);
  }
  const auto load = [&](std::int64_t from, std::int64_t to) {
    if (from > to) return;
    const auto cells = fetch({from * stride, (to + 1) * stride - 1}, to_int(to - from + 1));
    assert(cells.size() == static_cast<std::size_t>(to - from + 1) * rows_);
    std::ranges::copy(cells, next.begin() + (from - first) * rows_);
  };
  load(first, std::min(keep_first - 1, last));
  if (keep_first <= last) load(keep_last + 1, last);
  codes_ = std::move(next);
  first_column_ = first;
  stride_ = stride;
  known_last_step_ = newest;
  known_sequence_ = sequence;
}

QImage TimeHeatMap::image(int pixel_rows) const {
  const int columns = to_int(codes_.size()) / rows_;
  const int shown = last_row_ - first_row_ + 1, height = std::min(shown, pixel_rows);
  QImage picture(columns, height, QImage::Format_RGB32);
  std::vector<std::uint8_t> line(columns);
  for (int y = 0; y < height; ++y) {
    const int from = first_row_ + y * shown / height, to = first_row_ + (y + 1) * shown / height;
    const std::uint8_t* codes = codes_.data() + rowOf(from);
    for (int c = 0; c < columns; ++c) line[c] = codes[static_cast<std::size_t>(c) * rows_];
    for (int place = from + 1; place < to; ++place) {
      const std::uint8_t* other = codes_.data() + rowOf(place);
      for (int c = 0; c < columns; ++c) {
        const std::uint8_t code = other[static_cast<std::size_t>(c) * rows_];
        if (weights_[code] > weights_[line[c]]) line[c] = code;
      }
    }
    auto* out = reinterpret_cast<QRgb*>(picture.scanLine(upward_ ? height - 1 - y : y));
    for (int c = 0; c < columns; ++c) {
      const bool repeats =
          held_ && c > 0 && line[c] == kNoDataCode && (first_column_ + c) * stride_ <= known_last_step_;
      out[c] = repeats ? out[c - 1] : legend_.lut[line[c]];
    }
  }
  return picture;
}

void TimeHeatMap::paintStatic(QPainter& painter) {
  paintStepAxis(painter);
  std::vector<Tick> labels = row_ticks_;
  for (Tick& tick : labels) tick.value = yOf(tick.value + 0.5);
  const int widest = std::max(paintRowLabels(painter, labels, plotRect().left() - kSpace8),
                              painter.fontMetrics().horizontalAdvance(current_label_));
  paintLeftCaption(painter, widest + kSpace12, row_caption_);  // with room for the pointer at the selected row
  paintScale(painter);
}

void TimeHeatMap::paintScale(QPainter& painter) const {
  if (!legend_elsewhere_ || printed()) paintLegendInRow(painter, legend_);
}

void TimeHeatMap::paintData(QPainter& painter) {
  if (codes_.empty() || last_row_ < first_row_) return;
  const QRect plot = plotRect();
  const QImage picture = image(std::max(1, static_cast<int>(plot.height() * devicePixelRatioF())));
  const double left_x = xOf(first_column_ * stride_ - 0.5);
  const double right = xOf((first_column_ + picture.width()) * stride_ - 0.5);
  painter.setClipRect(plot);
  const QRectF place(left_x, plot.top(), right - left_x, plot.height());
  painter.drawImage(place, picture, picture.rect());
  if (hatched_code_ >= 0) paintHatch(painter, picture, place);
}

// Paints whole runs of hatched cells in a row. Runs are few, since an expert stays without tokens for many steps.
void TimeHeatMap::paintHatch(QPainter& painter, const QImage& picture, const QRectF& place) const {
  const QRgb hatched = legend_.lut[hatched_code_];
  const QBrush lines = fineHatch(hatchOnZeroLoad(dark()));
  const double across = place.width() / picture.width(), down = place.height() / picture.height();
  for (int y = 0; y < picture.height(); ++y) {
    const auto* row = reinterpret_cast<const QRgb*>(picture.constScanLine(y));
    for (int x = 0; x < picture.width(); ++x) {
      if (row[x] != hatched) continue;
      const int first = x;
      while (x < picture.width() && row[x] == hatched) ++x;
      painter.fillRect(QRectF(place.left() + first * across, place.top() + y * down, (x - first) * across, down),
                       lines);
    }
  }
}

void TimeHeatMap::paintOverlay(QPainter& painter) {
  const int place = current_row_ < 0 ? -1 : placeOf(current_row_);
  if (place >= first_row_ && place <= last_row_) {
    const QRect plot = plotRect();
    const double a = yOf(place), b = yOf(place + 1);
    if (std::abs(b - a) >= kMinFramedRow)  // a frame would hide a thinner row
      paintFrame(painter, QRectF(plot.left(), std::min(a, b), plot.width(), std::abs(b - a)));
    const auto tick = std::ranges::find(row_ticks_, static_cast<double>(place), &Tick::value);
    QString label = current_label_;
    if (label.isEmpty() && tick != row_ticks_.end()) label = tick->label;
    paintRowLabel(painter, (a + b) / 2, label);
  }
  TimeAxisPlot::paintOverlay(painter);
}

std::optional<FigureTarget> TimeHeatMap::figureAt(QPoint position) const {
  if (!figure || !hasRows() || !plotRect().contains(position)) return std::nullopt;
  return figure(rowAt(position.y()), stepAt(position.x()));
}

QPoint TimeHeatMap::cursorPosition() const {
  const QPoint at = TimeAxisPlot::cursorPosition();
  return current_row_ < 0 ? at : QPoint(at.x(), static_cast<int>(yOf(placeOf(current_row_) + 0.5)));
}

QStringList TimeHeatMap::readoutAt(QPoint position) const {
  return describe && hasRows() ? describe(rowAt(position.y()), stepAt(position.x())) : QStringList{};
}

void TimeHeatMap::clickedAt(QPoint position) {
  if (hasRows()) emit rowClicked(rowAt(position.y()));
  TimeAxisPlot::clickedAt(position);
}

}  // namespace moescope
