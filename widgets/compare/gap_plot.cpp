#include "widgets/compare/gap_plot.h"

#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "widgets/plots/color_scale.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr double kSpared = 0.02;  // of the raw gaps at either end: spikes of the first steps do not rule the axis

constexpr double kWidestChance = 3;  // of the largest gap shown

QColor chanceColor(const QPalette& palette) {
  QColor color = mutedText(palette);
  color.setAlpha(70);
  return color;
}

QString signedText(double value) {
  if (!std::isfinite(value)) return QStringLiteral("-");
  const QString text = withMinus(QString::number(value, 'f', std::abs(value) < 0.1 ? 4 : 3));
  return value > 0 ? QLatin1Char('+') + text : text;
}

}  // namespace

GapPlot::GapPlot(Selection* selection, QWidget* parent) : TimeAxisPlot(selection, parent) {
  legend_rows_ = 2;
}

int GapPlot::bins() const {
  const auto pixels = static_cast<std::int64_t>(plotRect().width() * devicePixelRatioF());
  return static_cast<int>(std::clamp<std::int64_t>(range().size(), 1, std::max<std::int64_t>(1, pixels)));
}

void GapPlot::setSeries(std::vector<GapSeries> series, const RunGaps& gaps) {
  series_ = std::move(series);
  curves_.clear();
  for (const GapSeries& each : series_)
    curves_.push_back({gaps.series(each.place, range(), bins()), gaps.smoothed(each.place, range(), bins())});
  means_.clear();
  chance_ = kNoValue;
  for (const GapSeries& each : series_) {
    const Conclusion& found = gaps.conclusion(each.place);
    if (!each.judged || is_missing(found.half) || found.verdict == Verdict::identical) continue;
    means_.push_back({found.steps, found.gap, found.half, each.color,
                      each.label.section(QLatin1Char(' '), 0, 0), found.twins > 0});
    if (found.twins > 0 && !(found.half <= chance_)) chance_ = found.half;
  }
  chooseValueRange();
}

// All of the smoothed gaps, nearly all of the raw ones, and the intervals unless they are so wide that the curves would
// be flat beside them.
void GapPlot::chooseValueRange() {
  double low = 0, high = 0;
  const auto take = [&](double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const Curve& curve : curves_) {
    for (const float value : curve.smooth) take(value);
    std::vector<float> raw;
    for (const PyramidBin& bin : curve.raw) {
      if (bin.finite == 0) continue;
      raw.push_back(bin.min);
      raw.push_back(bin.max);
    }
    if (raw.empty()) continue;
    std::ranges::sort(raw);
    const auto spared = static_cast<std::size_t>(kSpared * static_cast<double>(raw.size()));
    take(raw[spared]);
    take(raw[raw.size() - 1 - spared]);
  }
  const double room = kWidestChance * std::max(-low, high);
  for (const Mean& mean : means_) {
    take(mean.gap);
    if (std::fabs(mean.gap) + mean.half > room) continue;
    take(mean.gap + mean.half);
    take(mean.gap - mean.half);
    take(mean.half);
    take(-mean.half);
  }
  if (low == 0 && high == 0) low = -1e-3, high = 1e-3;
  const ValueRange next = niceRange(low, high, false);
  const bool holds = values_.low <= next.low && values_.high >= next.high;
  if (!holds || next.high - next.low < 0.7 * (values_.high - values_.low)) values_ = next;
}

Axis GapPlot::valueAxis() const {
  const QRect plot = plotRect();
  return {.low = values_.low, .high = values_.high, .at_low = plot.bottom() + 0.0, .at_high = plot.top() + 0.0};
}

double GapPlot::centreOf(std::size_t bin, std::size_t bins) const {
  const double per_bin = static_cast<double>(range().size()) / static_cast<double>(bins);
  return static_cast<double>(range().first) - 0.5 + (static_cast<double>(bin) + 0.5) * per_bin;
}

std::size_t GapPlot::binAt(std::int64_t step) const {
  const std::size_t bins = curves_.front().raw.size();
  const auto bin = static_cast<std::size_t>((step - range().first) * static_cast<std::int64_t>(bins) / range().size());
  return std::min(bin, bins - 1);
}

QString GapPlot::staticKey() const {
  return TimeAxisPlot::staticKey() + QStringLiteral(":%1:%2").arg(values_.low).arg(values_.high) + caption_;
}

void GapPlot::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  paintStepAxis(painter);
  paintLeftAxis(painter, valueAxis(), linearTicks(values_.low, values_.high, std::max(2, plot.height() / 26)),
                caption_);
  const int zero = static_cast<int>(std::lround(valueAxis().toPixel(0)));
  painter.setPen(mutedText(palette()));
  painter.drawLine(plot.left(), zero, plot.right(), zero);
}

void GapPlot::paintData(QPainter& painter) {
  painter.setClipRect(plotRect().adjusted(0, -1, 1, 1));
  paintChance(painter);
  for (std::size_t i = 0; i < curves_.size(); ++i)
    paintCurve(painter, curves_[i], seriesColor(series_[i].color, dark()), seriesLine(series_[i].color));
  paintMeans(painter);
  paintFirstDifferences(painter);
}

void GapPlot::paintChance(QPainter& painter) const {
  if (is_missing(chance_)) return;
  StepRange steps = means_.front().steps;
  for (const Mean& mean : means_)
    steps = {std::min(steps.first, mean.steps.first), std::max(steps.last, mean.steps.last)};
  const double left = xOf(static_cast<double>(steps.first)), right = xOf(static_cast<double>(steps.last));
  const double top = valueAxis().toPixel(static_cast<double>(chance_));
  painter.fillRect(QRectF(left, top, right - left, valueAxis().toPixel(-static_cast<double>(chance_)) - top),
                   chanceColor(palette()));
}

// A line over the judged steps, and at its end the interval, runs beside each other.
void GapPlot::paintMeans(QPainter& painter) const {
  constexpr double kCap = 4, kApart = 12;
  for (std::size_t i = 0; i < means_.size(); ++i) {
    const Mean& mean = means_[i];
    const double left = xOf(static_cast<double>(mean.steps.first)), right = xOf(static_cast<double>(mean.steps.last));
    const double y = valueAxis().toPixel(mean.gap), end = right - kCap - kApart * static_cast<double>(i);
    const double top = valueAxis().toPixel(mean.gap + mean.half), bottom = valueAxis().toPixel(mean.gap - mean.half);
    painter.setPen(QPen(seriesColor(mean.color, dark()), 2, mean.by_twins ? Qt::SolidLine : Qt::DotLine));
    painter.drawLine(QPointF(left, y), QPointF(right, y));
    painter.drawLine(QPointF(end, top), QPointF(end, bottom));
    for (const double edge : {top, bottom}) painter.drawLine(QPointF(end - kCap, edge), QPointF(end + kCap, edge));
  }
}

void GapPlot::paintCurve(QPainter& painter, const Curve& curve, const QColor& color,
                         Qt::PenStyle line) const {
  const Axis axis = valueAxis();
  QColor faint = color;
  faint.setAlpha(dark() ? 75 : 65);
  std::vector<QLineF> spans;
  std::vector<QPointF> raw, smooth;
  for (std::size_t bin = 0; bin < curve.raw.size(); ++bin) {
    const double x = xOf(centreOf(bin, curve.raw.size()));
    if (const PyramidBin& slice = curve.raw[bin]; slice.finite > 0) {
      const double top = axis.toPixel(slice.max), bottom = axis.toPixel(slice.min);
      if (bottom - top > 1) spans.emplace_back(x, top, x, bottom);
      raw.emplace_back(x, axis.toPixel(slice.mean()));
    }
    if (std::isfinite(curve.smooth[bin])) smooth.emplace_back(x, axis.toPixel(curve.smooth[bin]));
  }
  painter.setPen(QPen(faint, 0));
  painter.drawLines(spans.data(), static_cast<int>(spans.size()));
  painter.setRenderHint(QPainter::Antialiasing);
  painter.drawPolyline(raw.data(), static_cast<int>(raw.size()));
  painter.setPen(QPen(color, 0, line));
  drawCurve(painter, smooth, true);
}

// A pointer at the zero line, in the run's colour.
void GapPlot::paintFirstDifferences(QPainter& painter) const {
  const double zero = valueAxis().toPixel(0);
  for (const GapSeries& each : series_) {
    if (!each.first_difference || *each.first_difference < range().first || *each.first_difference > range().last)
      continue;
    const double x = xOf(static_cast<double>(*each.first_difference));
    painter.setPen(QPen(seriesColor(each.color, dark()), 1, Qt::DashLine));
    painter.drawLine(QPointF(x, plotRect().top()), QPointF(x, plotRect().bottom()));
    painter.setPen(Qt::NoPen);
    painter.setBrush(seriesColor(each.color, dark()));
    painter.drawPolygon(QPolygonF({{x - 5, zero - 9}, {x + 5, zero - 9}, {x, zero}}));
    painter.setBrush(Qt::NoBrush);
  }
}

void GapPlot::paintOverlay(QPainter& painter) {
  if (isPainted(bandAbove())) paintGapLegend(painter);
  TimeAxisPlot::paintOverlay(painter);
}

// The value at the bin of `step`, or the newest before it: a run may be a step behind.
float GapPlot::newestAt(const std::vector<float>& values, std::int64_t step) const {
  for (std::size_t bin = binAt(step) + 1; bin-- > 0;)
    if (std::isfinite(values[bin])) return values[bin];
  return kNoValue;
}

// Above the plot: the runs' smoothed gaps at the crosshair or the newest step, and below what the grey is.
void GapPlot::paintGapLegend(QPainter& painter) const {
  if (curves_.empty() || range().empty() || legendTop() < 0) return;
  const std::int64_t step = std::clamp(selection_->linkedStep() >= 0 ? selection_->linkedStep() : selection_->step(),
                                       range().first, range().last);
  std::vector<LegendEntry> gaps, chance;
  for (std::size_t i = 0; i < series_.size(); ++i)
    gaps.push_back({tr("%1 %2 smoothed").arg(series_[i].label.section(QLatin1Char(' '), 0, 0), signedText(newestAt(curves_[i].smooth, step))),
                    seriesColor(series_[i].color, dark()), false});
  if (!is_missing(chance_))
    chance.push_back({tr("\u00b1%1: means of the training loss in there cannot be told from chance").arg(chance_, 0, 'g', 2),
                      chanceColor(palette()), true});
  const QRect plot = plotRect();
  QRect row(plot.left(), legendTop(), plot.width(), legendRow());
  paintLegendRow(painter, row, gaps);
  row.translate(0, row.height());
  paintLegendRow(painter, row, chance);
}

// Right-aligned, entries beside each other.
void GapPlot::paintLegendRow(QPainter& painter, QRect row, const std::vector<LegendEntry>& entries) const {
  constexpr int kMark = 20, kSpace = 10;
  const QFontMetrics metrics(painter.font());
  int width = 0;
  for (const LegendEntry& entry : entries) width += kMark + metrics.horizontalAdvance(entry.text) + kSpace;
  row.setLeft(std::max(row.left(), row.right() - width));
  for (const LegendEntry& entry : entries) {
    painter.fillRect(QRect(row.left() + 3, row.center().y() - (entry.filled ? 4 : 1), 12, entry.filled ? 9 : 3),
                     entry.color);
    painter.setPen(palette().text().color());
    const int room = std::min(metrics.horizontalAdvance(entry.text) + 1, row.width() - kMark);
    painter.drawText(QRect(row.left() + kMark, row.top(), room, row.height()), Qt::AlignLeft | Qt::AlignVCenter,
                     metrics.elidedText(entry.text, Qt::ElideRight, room));
    row.setLeft(row.left() + kMark + room + kSpace);
  }
}

QStringList GapPlot::readoutAt(QPoint position) const {
  if (curves_.empty() || range().empty()) return {};
  const std::int64_t step = stepAt(position.x());
  QStringList lines{tr("step %1").arg(formatCount(static_cast<double>(step)))};
  for (std::size_t i = 0; i < series_.size(); ++i) {
    const PyramidBin& raw = curves_[i].raw[binAt(step)];
    if (raw.finite > 0)
      lines << tr("%1: gap %2, smoothed %3")
                   .arg(series_[i].label, signedText(raw.mean()), signedText(curves_[i].smooth[binAt(step)]));
    if (series_[i].first_difference == step) lines << tr("first step beyond epsilon");
  }
  for (const Mean& mean : means_)
    if (step >= mean.steps.first && step <= mean.steps.last)
      lines << tr("%1: mean of steps %2 to %3: %4 \u00b1%5")
                   .arg(mean.letter, formatCount(static_cast<double>(mean.steps.first)),
                        formatCount(static_cast<double>(mean.steps.last)), signedText(mean.gap))
                   .arg(mean.half, 0, 'g', 2);
  return lines;
}

}  // namespace moescope
