#include "widgets/plots/line_plot.h"

#include <QPainter>
#include <QRegularExpression>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr int kEndSwatch = 12;
constexpr int kNameAndValue = 128;  // pixels at the usual font size that "validation 0.616" takes beside a narrow plot

// Splits the range into parts in which a logarithmic axis may treat steps as evenly spaced.
std::vector<StepRange> octaves(StepRange range) {
  std::vector<StepRange> parts;
  for (std::int64_t first = range.first; first <= range.last;) {
    const std::int64_t last = std::min(range.last, (first + 1) * 2 - 2);
    parts.push_back({first, std::max(first, last)});
    first = parts.back().last + 1;
  }
  return parts;
}

// Returns the mean of the last `width` bins at each bin; NaN for an empty bin, and before there are as many bins. (If
// there never are, the means of fewer.)
std::vector<float> trailingMeans(const std::vector<PyramidBin>& bins, int width) {
  std::vector<double> sums{0};
  std::vector<std::int64_t> counts{0};
  for (const PyramidBin& bin : bins) {
    sums.push_back(sums.back() + bin.sum);
    counts.push_back(counts.back() + bin.finite);
  }
  std::vector<float> means(bins.size(), kNoValue);
  for (int i = 0; i < to_int(bins.size()); ++i) {
    const int first = std::max(0, i + 1 - width);
    if (bins[i].finite == 0 || (i + 1 < width && width <= to_int(bins.size()))) continue;
    means[i] = static_cast<float>((sums[i + 1] - sums[first]) / (counts[i + 1] - counts[first]));
  }
  return means;
}

}  // namespace

std::vector<PyramidBin> LineSeries::inBins(const std::vector<std::int64_t>& edges) const {
  if (!fetch) return history->series(metric, layer, edges);
  std::vector<PyramidBin> values;
  for (std::size_t bin = 0; bin + 1 < edges.size(); ++bin) values.push_back(fetch({edges[bin], edges[bin]}, 1).front());
  return values;
}

float LineSeries::valueAt(std::int64_t step) const {
  if (!fetch) return history->value_at(metric, layer, step);
  const PyramidBin bin = fetch({step, step}, 1).front();
  return bin.finite > 0 ? bin.mean() : kNoValue;
}

float LineSeries::smoothedAt(std::int64_t step) const {
  step = std::min(step, history->steps().last);  // the run may be shorter than the selected one
  const float value = valueAt(step);
  if (smoothing <= 0 || !std::isfinite(value)) return value;
  const StepRange until{std::max(history->steps().first, step + 1 - smoothing), step};
  return history->series(metric, layer, until, 1).front().mean();
}

LinePlot::LinePlot(Selection* selection, QWidget* parent) : TimeAxisPlot(selection, parent) {
  legend_rows_ = 1;
  marks_inside_ = true;
}

void LinePlot::setSeries(std::vector<LineSeries> series) {
  series_ = std::move(series);
  by_tokens_ = selection_->isByTokens() && std::ranges::any_of(series_, [this](const LineSeries& line_series) {
                 return line_series.history.get() != selection_->history();
               });
  chooseEnds();  // done first, since the width of the plot depends on it
  columns_.clear();
  for (const LineSeries& line_series : series_) columns_.push_back(columnsOf(line_series));
  chooseValueRange();
}

void LinePlot::setLogValues(bool log) {
  log_values_ = log;
  markDirty();
}

std::vector<LinePlot::Column> LinePlot::columnsOf(const LineSeries& series) const {
  std::vector<Column> columns;
  if (!series.history || range().empty()) return columns;
  const int width = std::max(1, static_cast<int>(plotRect().width() * devicePixelRatioF()));
  for (const StepRange part : logSteps() ? octaves(range()) : std::vector<StepRange>{range()}) {
    const double share = std::abs(xOf(part.last + 0.5) - xOf(part.first - 0.5)) / std::max(1, plotRect().width());
    const int room = std::max(1, static_cast<int>(std::ceil(share * width)));
    const int bins = to_int(std::min<std::int64_t>(part.size(), room));
    const double per_bin = static_cast<double>(part.size()) / bins;
    const int mean_bins = std::max(1, to_int(std::lround(series.smoothing / per_bin)));
    // Also reads what is before the part, for the means of its first bins.
    const std::int64_t before = std::lround((mean_bins - 1) * per_bin);
    const StepRange read{std::max(std::min(part.first, series.history->steps().first), part.first - before), part.last};
    const int lead = to_int(std::lround((part.first - read.first) / per_bin));
    const auto edges = selection_->edgesOf(*series.history, slice_edges(read, lead + bins));
    const auto slices =
        series.fetch ? series.fetch(read, lead + bins) : series.history->series(series.metric, series.layer, edges);
    const std::vector<float> smooth = trailingMeans(slices, mean_bins);
    for (int i = lead; i < to_int(slices.size()); ++i)
      columns.push_back({part.first - 0.5 + (i - lead + 0.5) * per_bin, slices[i], smooth[i]});
  }
  return columns;
}

void LinePlot::chooseValueRange() {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto take = [&](double value) {
    if (!std::isfinite(value) || (log_values_ && value <= 0)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const auto& columns : columns_)
    for (const Column& column : columns) {
      if (column.bin.finite == 0) continue;
      take(column.bin.min);
      take(column.bin.max);
    }
  take(least_low_);
  take(least_high_);
  const ValueRange next = niceRange(low, high, log_values_);
  // Keeps the old range while it contains the data and the data fill most of it, so that labels do not jump.
  const bool holds = values_.low <= next.low && values_.high >= next.high && (!log_values_ || values_.low > 0);
  if (!holds || next.high - next.low < 0.7 * (values_.high - values_.low)) values_ = next;
}

QString LinePlot::formatted(float value) const {
  if (is_missing(value)) return QStringLiteral("\u2013");
  if (exact_at_infinity_ && value == std::numeric_limits<float>::infinity()) return QString("exact");
  return percent_ ? formatPercent(value) : formatValue(value);
}

void LinePlot::paintStatic(QPainter& painter) {
  paintStepAxis(painter);
  const QRect plot = plotRect();
  const int max_ticks = std::clamp(plot.height() / withType(26), 2, 10);
  auto ticks =
      log_values_ ? logTicks(values_.low, values_.high, max_ticks) : linearTicks(values_.low, values_.high, max_ticks);
  if (percent_)
    for (Tick& tick : ticks) tick.label = withMinus(QString::number(tick.value * 100, 'g', 3));
  QString caption = percent_ ? QString("%1, %").arg(caption_) : caption_;
  if (log_values_ && !caption.isEmpty()) caption = QString("%1, log").arg(caption);
  if (const int smoothing = series_.empty() ? 0 : series_.front().smoothing; smoothing > 0 && !caption.contains(';'))
    caption += QString(" (bold%1: mean of the last %2 steps)")  // the pale curve has all values
                   .arg(series_.size() > 1 ? ", labels" : "")
                   .arg(smoothing);
  paintLeftAxis(painter, valueAxis(), ticks, isLow() ? QString() : caption);
  painter.setPen(axisColor(palette()));
  painter.drawLine(plot.left(), plot.bottom() + 1, plot.right(), plot.bottom() + 1);
  paintReferences(painter);
}

void LinePlot::paintReferences(QPainter& painter) const {
  const QRect plot = plotRect();
  const QFontMetrics metrics(painter.font());
  painter.setPen(QPen(mutedText(palette()), 1, Qt::DashLine));
  int last = -metrics.height();
  for (const ReferenceLine& line : references_) {
    const int y = to_int(std::lround(valueAxis().toPixel(line.value)));
    if (!plot.contains(plot.left(), y)) continue;
    painter.drawLine(plot.left(), y, plot.right(), y);
    if (ends_ || isLow()) continue;  // named at its end, or no label, which would cover the curves of a low plot
    const int top = y - metrics.height() / 2, left_x = plot.right() + kSpace8;
    if (std::abs(top - last) < metrics.height()) continue;
    last = top;
    painter.drawText(QRect(left_x, top, width() - left_x, metrics.height()), Qt::AlignLeft | Qt::AlignVCenter,
                     fittingText(endForms({.value = line.label, .color = {}}), metrics, width() - left_x));
  }
}

void LinePlot::paintData(QPainter& painter) {
  painter.setClipRect(plotRect().adjusted(0, -1, 1, 1));
  for (const bool active : {false, true})  // the curve of the active run lies over the others
    for (std::size_t i = 0; i < series_.size(); ++i)
      if (isActive(i) == active) paintSeries(painter, columns_[i], series_[i]);
  for (std::size_t i = 0; i < series_.size(); ++i) paintNonFinite(painter, columns_[i], series_[i]);
}

void LinePlot::paintPoint(QPainter& painter, QPointF place, const QColor& color) const {
  constexpr double kRadius = 2.5;
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(color, kRawCurveWidth));
  painter.setBrush(palette().base());
  painter.drawEllipse(place, kRadius, kRadius);
  painter.restore();
}

void LinePlot::paintPoints(QPainter& painter, const std::vector<Column>& columns, const LineSeries& series) const {
  for (const Column& column : columns)
    if (column.bin.finite > 0)
      paintPoint(painter, {xOf(column.step), valueAxis().toPixel(column.bin.mean())},
                 seriesColor(series.color, dark()));
}

void LinePlot::paintSeries(QPainter& painter, const std::vector<Column>& columns, const LineSeries& series) const {
  if (series.points) return paintPoints(painter, columns, series);
  const Axis axis = valueAxis();
  const bool smoothing = series.smoothing > 0;
  const QColor strong = seriesColor(series.color, dark());
  const QColor faint = rawColor(strong);
  std::vector<QLineF> spans;
  std::vector<QPointF> raw, smooth;
  const auto flush = [&](std::vector<QPointF>& points, const QColor& color, bool bold) {
    painter.setPen(QPen(color, 0, seriesLine(series.color)));
    if (points.size() == 1) {
      painter.drawEllipse(points[0], 1.5, 1.5);
    } else if (points.size() > 1) {
      drawCurve(painter, points, bold);
    }
    points.clear();
  };
  for (const Column& column : columns) {
    const double x = xOf(column.step);
    if (column.bin.finite > 0) {
      const double top = axis.toPixel(column.bin.max), bottom = axis.toPixel(column.bin.min);
      if (bottom - top > 1) spans.emplace_back(x, top, x, bottom);
      raw.emplace_back(x, axis.toPixel(column.bin.mean()));
      if (smoothing && std::isfinite(column.smooth)) smooth.emplace_back(x, axis.toPixel(column.smooth));
    }
    if (column.bin.non_finite > 0) {
      flush(raw, smoothing ? faint : strong, false);
      flush(smooth, strong, true);
    }
  }
  painter.setPen(QPen(faint, 0));
  painter.drawLines(spans.data(), to_int(spans.size()));
  flush(raw, smoothing ? faint : strong, !smoothing && spans.empty());
  flush(smooth, strong, true);
}

// Paints crosses along the bottom. If infinity means no error, the curve continues along the upper edge instead.
void LinePlot::paintNonFinite(QPainter& painter, const std::vector<Column>& columns, const LineSeries& series) const {
  const int top = plotRect().top(), bottom = plotRect().bottom();
  bool first = true;
  for (const Column& column : columns) {
    if (column.bin.non_finite == 0) continue;
    const int x = to_int(std::lround(xOf(column.step)));
    const float value =
        exact_at_infinity_ ? series.valueAt(selection_->stepOf(*series.history, std::llround(column.step))) : kNoValue;
    if (value == std::numeric_limits<float>::infinity()) {
      painter.setPen(QPen(seriesColor(series.color, dark()), 0));
      painter.drawLine(x - 3, top + 1, x + 3, top + 1);
      continue;
    }
    painter.setPen(cursorColor(dark()));
    painter.drawLine(x - 3, bottom - 8, x + 3, bottom - 2);
    painter.drawLine(x - 3, bottom - 2, x + 3, bottom - 8);
    if (std::exchange(first, false)) painter.drawText(x + 6, bottom - 2, "NaN or Inf");
  }
}

void LinePlot::paintOverlay(QPainter& painter) {
  painter.setClipRect(figuresRect());
  paintNames(painter);
  painter.setClipping(false);
  TimeAxisPlot::paintOverlay(painter);
}

QRect LinePlot::figuresRect() const {
  if (!ends_) return bandAbove();
  double left_x = plotRect().right() + 2;
  for (const Named& curve : named()) left_x = std::min(left_x, curve.x - 2);
  return QRect(QPoint(static_cast<int>(left_x), 0), rect().bottomRight());
}

bool LinePlot::isActive(std::size_t series) const {
  const auto is_active_run = [this](const LineSeries& line_series) {
    return line_series.history.get() == selection_->history();
  };
  const bool only = std::ranges::all_of(series_, is_active_run);
  return only ? series == chosen_ : is_active_run(series_[series]);
}

// Returns the names of the curves with their values at the crosshair, or at the cursor if there is no crosshair. The
// value of a smoothed curve is the smoothed one.
std::vector<LinePlot::Named> LinePlot::named() const {
  std::vector<Named> curves;
  const std::int64_t step = selection_->hoverStep() >= 0 ? selection_->hoverStep() : selection_->step();
  for (std::size_t i = 0; i < series_.size(); ++i) {
    const LineSeries& line_series = series_[i];
    const float value =
        line_series.history ? line_series.smoothedAt(selection_->stepOf(*line_series.history, step)) : kNoValue;
    Named curve{.series = to_int(i),
                .name = series_.size() > 1 ? line_series.label : QString(),
                .value = percent_ || !std::isfinite(value) ? formatted(value) : formatValue(value, 3),
                .color = seriesColor(line_series.color, dark()),
                .active = isActive(i),
                .y = exact_at_infinity_ && std::isinf(value) ? plotRect().top() + 0.0 : plotRect().bottom() + 0.0,
                .x = plotRect().right() + 0.0 + kSpace8};
    if (step >= line_series.other_text_from) curve.value = QString("other text");  // no number to compare
    if (i < columns_.size()) {
      const auto last = std::find_if(columns_[i].rbegin(), columns_[i].rend(),
                                     [](const Column& column) { return column.bin.finite > 0; });
      if (last != columns_[i].rend()) {
        const double behind = xOf(last->step) + kSpace8;
        const History& run = *line_series.history;
        const bool has_ended = selection_->stepOf(run, range().last) > run.steps().last && !curve.letter().isEmpty();
        const bool is_in_view = std::isfinite(value) && step >= range().first && step <= range().last;
        const float at_end = std::isfinite(last->smooth) ? last->smooth : static_cast<float>(last->bin.mean());
        curve.y = valueAxis().toPixel(is_in_view ? value : at_end);
        if (has_ended && behind + 2 * fontMetrics().height() < plotRect().right()) {
          curve.x = behind;
          curve.y = freeHeight(curve);
        }
      }
    }
    curves.push_back(std::move(curve));
  }
  for (const ReferenceLine& line : references_)
    if (ends_ && line.value >= values_.low && line.value <= values_.high)
      curves.push_back({.value = line.label,
                        .color = mutedText(palette()),
                        .y = valueAxis().toPixel(line.value),
                        .x = plotRect().right() + 0.0 + kSpace8});
  return curves;
}

// Returns the height at which the name of a curve that has ended covers no other curve, as near its end as possible.
double LinePlot::freeHeight(const Named& curve) const {
  const QRect plot = plotRect();
  const int line = fontMetrics().height(), room = plot.right() - static_cast<int>(curve.x);
  const double end = curve.x + fontMetrics().horizontalAdvance(fittingText(endForms(curve), fontMetrics(), room));
  const auto is_free = [&](double y) {
    if (y - line / 2.0 < plot.top() || y + line / 2.0 > plot.bottom()) return false;
    for (std::size_t i = 0; i < columns_.size(); ++i)
      for (const Column& column : columns_[i]) {
        const double x = xOf(column.step);
        if (to_int(i) == curve.series || column.bin.finite == 0 || x < curve.x || x > end) continue;
        if (valueAxis().toPixel(column.bin.max) < y + line / 2.0 &&
            valueAxis().toPixel(column.bin.min) > y - line / 2.0)
          return false;
      }
    return true;
  };
  for (const double lines : {0.0, -1.0, 1.0, -2.0, 2.0, -3.0, 3.0})
    if (is_free(curve.y + lines * line)) return curve.y + lines * line;
  return curve.y - line;
}

QString LinePlot::Named::letter() const {
  const QString first = name.section(QLatin1Char(' '), 0, 0);
  const bool is_twin = first.size() == 2 && first[0] == u'N' && first[1].isDigit();
  return first.size() == 1 || is_twin ? first : QString();
}

int LinePlot::Named::swatch() const {
  return isReference() || name.isEmpty() || !letter().isEmpty() ? 0 : kEndSwatch + kSpace4;
}

// Forms of the text at the end of a curve: "A mxfp8 2.31", "A 2.31", or only the name, which identifies the curve.
QStringList LinePlot::endForms(const Named& curve) const {
  if (curve.isReference()) return {curve.value, curve.value.section(QRegularExpression(QStringLiteral("[: ]")), 0, 0)};
  if (curve.name.isEmpty()) return {curve.value};
  const auto with_value = [&](const QString& name) { return name + QLatin1Char(' ') + curve.value; };
  const QString letter = curve.letter();
  if (letter.isEmpty()) return {with_value(curve.name), curve.name};
  return {with_value(curve.name), with_value(letter), letter};
}

// Width of the names of reference lines at their ends, where no curve is under them.
int LinePlot::widestReference() const {
  const QFontMetrics metrics(font());
  int widest = 0;
  for (const ReferenceLine& line : references_) {
    const QStringList forms = endForms({.value = line.label, .color = {}});
    widest = std::max(widest, metrics.horizontalAdvance(fittingText(forms, metrics, width() * 2 / 7)));
  }
  return widest;
}

// Chooses whether names are at the ends of the curves, and the margin for names and values of usual length. The margin
// changes in steps, so that the plot keeps its width while values change.
void LinePlot::chooseEnds() {
  const QFontMetrics metrics(semibold(font()));
  const int max_width = std::max(width() * 2 / 7, std::min(width() * 2 / 5, withType(kNameAndValue))),
            spare = metrics.horizontalAdvance(QLatin1Char('0'));
  int widest = 0, lines = 0;
  ends_ = true;
  for (const Named& curve : named()) {
    if (!curve.isReference()) lines += metrics.height();
    const QString form = fittingText(endForms(curve), metrics, max_width - kSpace12 - spare - curve.swatch());
    widest = std::max(widest, form.isEmpty() ? max_width : curve.swatch() + metrics.horizontalAdvance(form) + spare);
  }
  ends_ = widest > 0 && widest + kSpace12 <= max_width &&
          lines <= height() - axisLabelHeight() - (isLow() ? kSpace8 : legendRow() + kSpace8);
  if (!ends_) widest = isLow() ? 0 : widestReference();
  const int wanted_margin = widest + kSpace12;
  if (wanted_margin > right_margin_ || wanted_margin < right_margin_ - kSpace24)
    right_margin_ = (wanted_margin + 7) / 8 * 8;
}

// Paints names and values at the ends of the curves, moved apart if the ends are close to each other.
void LinePlot::paintEnds(QPainter& painter) const {
  const QRect plot = plotRect();
  const QFont usual = painter.font(), strong = semibold(usual);
  const int line = QFontMetrics(strong).height() - 2;
  std::vector<Named> curves = named();
  const std::size_t room_for = std::max(1, plot.height() / line);
  while (curves.size() > room_for && curves.back().isReference()) curves.pop_back();
  std::ranges::stable_sort(curves, {}, &Named::y);
  // Names of curves that have ended stand between the other curves and stay there.
  const auto outer_names =
      std::ranges::stable_partition(curves, [&](const Named& curve) { return curve.x < plot.right(); });
  std::vector<double> places;
  for (const Named& curve : outer_names) places.push_back(curve.y);
  places = spreadApart(places, line, plot.top() + 2, plot.bottom());
  for (std::size_t i = 0; i < places.size(); ++i) outer_names[i].y = places[i];
  for (const Named& curve : curves) {
    painter.setFont(curve.active ? strong : usual);
    const QFontMetrics metrics(painter.font());
    const int left_x = static_cast<int>(curve.x), room = (left_x < plot.right() ? plot.right() : width()) - left_x;
    const QString text = fittingText(endForms(curve), metrics, room - curve.swatch()), letter = curve.letter();
    const int baseline = to_int(std::lround(curve.y)) + metrics.ascent() / 2 - 1;
    int x = left_x;
    if (left_x < plot.right())
      painter.fillRect(x - 2, baseline - metrics.ascent(), metrics.horizontalAdvance(text) + 4, metrics.height(),
                       QColor(colors(palette()).surface));
    if (curve.swatch() > 0 && series_[curve.series].points) {
      paintPoint(painter, {x + kEndSwatch / 2.0, curve.y}, curve.color);
      x += curve.swatch();
    } else if (curve.swatch() > 0) {
      const int y = to_int(std::lround(curve.y));
      paintSwatch(painter, QRect(x, y, kEndSwatch, 1), series_[curve.series].color, dark());
      x += curve.swatch();
    }
    if (!letter.isEmpty() && text.startsWith(letter)) {  // the letter of a run in its colour
      painter.setFont(strong);
      painter.setPen(curve.color);
      painter.drawText(x, baseline, letter);
      x += QFontMetrics(strong).horizontalAdvance(letter);
      painter.setFont(curve.active ? strong : usual);
    }
    painter.setPen(curve.isReference() ? curve.color : palette().text().color());
    painter.drawText(x, baseline, !letter.isEmpty() && x > left_x ? text.mid(letter.size()) : text);
  }
  painter.setFont(usual);
}

// Paints a legend from the right in the row of the caption: swatches, names and values, or fewer of these if there is
// no room.
void LinePlot::paintSeriesLegend(QPainter& painter) const {
  if (isLow()) return;  // a low plot has no room for the legend
  constexpr int kSwatch = 14;
  const QFontMetrics metrics(painter.font());
  const QRect room = freeInCaptionRow();
  std::vector<Named> curves = named();
  for (Named& curve : curves)
    if (curve.name.isEmpty()) curve.name = series_[curve.series].label;
  QStringList texts;
  int wanted_width = 0;
  for (std::size_t form = 0; form < 3; ++form) {
    texts.clear();
    wanted_width = 0;
    for (const Named& curve : curves) {
      const QStringList forms = endForms(curve);
      const QString shorter = form == 1 ? curve.name : forms.back();
      texts << (form == 0 ? forms.front() : shorter);
      wanted_width += kSwatch + kSpace4 + metrics.horizontalAdvance(texts.back()) + kSpace12;
    }
    if (wanted_width <= room.width()) break;
  }
  int x = std::max(room.left(), room.right() - wanted_width + kSpace12);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const int text = metrics.horizontalAdvance(texts[to_int(i)]);
    if (x + kSwatch + kSpace4 + text > width()) return;
    paintSwatch(painter, QRect(x, room.center().y(), kSwatch, 1), series_[curves[i].series].color, dark());
    painter.setPen(palette().text().color());
    painter.drawText(QRect(x + kSwatch + kSpace4, room.top(), text + 1, room.height()),
                     Qt::AlignLeft | Qt::AlignVCenter, texts[to_int(i)]);
    x += kSwatch + kSpace4 + text + kSpace12;
  }
}

QStringList LinePlot::readoutAt(QPoint position) const {
  const std::int64_t step = stepAt(position.x());
  QStringList lines{stepText(step)};
  for (const LineSeries& line_series : series_) {
    if (!line_series.history) continue;
    const std::int64_t step_of_run = selection_->stepOf(*line_series.history, step);
    QString line = line_series.label + QStringLiteral(": ") + formatted(line_series.valueAt(step_of_run));
    if (line_series.smoothing > 0) line += QString(", mean %1").arg(formatted(line_series.smoothedAt(step_of_run)));
    lines << line;
  }
  if (const QString last = note ? note(step) : QString(); !last.isEmpty()) lines << last;
  return lines;
}

std::optional<FigureTarget> LinePlot::figureAt(QPoint position) const {
  if (!notice().isEmpty() || !plotRect().contains(position)) return std::nullopt;
  const std::int64_t step = stepAt(position.x());
  const Axis axis = valueAxis();
  std::optional<FigureTarget> nearest;
  double smallest = 0;
  for (const LineSeries& line_series : series_) {
    if ((line_series.fetch && !line_series.figure) || line_series.history.get() != selection_->history()) continue;
    const double away = std::fabs(axis.toPixel(line_series.valueAt(step)) - position.y());
    if (nearest && !(away < smallest)) continue;
    nearest = line_series.figure ? line_series.figure(step)
                                 : FigureTarget{.key = line_series.metric, .layer = line_series.layer, .step = step};
    smallest = away;
  }
  return nearest;
}

// The steps that at least one of the runs has; by tokens, those of the active run.
std::vector<std::int64_t> LinePlot::stepsOfAll() const {
  if (by_tokens_) return selection_->history()->steps_in(range());
  std::vector<std::int64_t> all;
  for (const LineSeries& line_series : series_) {
    if (!line_series.history) continue;
    std::vector<std::int64_t> both;
    std::ranges::set_union(all, line_series.history->steps_in(range()), std::back_inserter(both));
    all = std::move(both);
  }
  return all;
}

ValueTable LinePlot::table() const {
  std::vector<ValueColumn> columns{{"step"}};
  if (!notice().isEmpty()) return ValueTable(std::move(columns));
  std::vector<std::vector<PyramidBin>> values;
  const std::vector<std::int64_t> steps = stepsOfAll();
  for (const LineSeries& series : series_) {
    columns.push_back({(series.label + QStringLiteral(", ") + caption_).toStdString()});
    if (series.smoothing > 0)
      columns.push_back({QString("%1, mean of %2").arg(series.label).arg(series.smoothing).toStdString()});
    values.push_back(series.inBins(selection_->edgesOf(*series.history, edges_of(steps))));
  }
  ValueTable table(std::move(columns));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<TableValue> row{steps[i]};
    for (std::size_t s = 0; s < values.size(); ++s) {
      row.push_back(table_value(values[s][i]));
      if (series_[s].smoothing <= 0) continue;
      const float mean = series_[s].smoothedAt(selection_->stepOf(*series_[s].history, steps[i]));
      row.push_back(table_value(values[s][i].finite > 0 ? mean : kNoValue));
    }
    table.add_row(row);
  }
  return table;
}

}  // namespace moescope
