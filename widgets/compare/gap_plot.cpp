#include "widgets/compare/gap_plot.h"

#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr double kSpared = 0.02;  // of the raw gaps at either end: spikes of the first steps do not rule the axis

QColor bandColor(const QPalette& palette) {
  QColor color = mutedText(palette);
  color.setAlpha(70);
  return color;
}

QString signedText(double value) {
  if (!std::isfinite(value)) return QStringLiteral("-");
  const QString text = QString::number(value, 'f', std::abs(value) < 0.1 ? 4 : 3);
  return value > 0 ? QLatin1Char('+') + text : text;
}

}  // namespace

GapPlot::GapPlot(Selection* selection, QWidget* parent) : TimeAxisPlot(selection, parent) {}

int GapPlot::bins() const {
  const auto pixels = static_cast<std::int64_t>(plotRect().width() * devicePixelRatioF());
  return static_cast<int>(std::clamp<std::int64_t>(range().size(), 1, std::max<std::int64_t>(1, pixels)));
}

void GapPlot::setSeries(std::vector<GapSeries> series, const RunGaps& gaps) {
  series_ = std::move(series);
  curves_.clear();
  for (const GapSeries& each : series_)
    curves_.push_back({gaps.series(each.place, range(), bins()), gaps.smoothed(each.place, range(), bins())});
  band_ = gaps.band(range(), bins());
  bandPairs_ = gaps.band_pairs();
  chooseValueRange();
}

// All of the smoothed gaps and of the band, and nearly all of the raw ones.
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
  for (const float width : band_) {
    take(width);
    take(-width);
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
  paintBand(painter);
  for (std::size_t i = 0; i < curves_.size(); ++i)
    paintCurve(painter, curves_[i], seriesColor(series_[i].color, dark()));
  paintFirstDifferences(painter);
}

void GapPlot::paintBand(QPainter& painter) const {
  std::vector<QPointF> above, below;
  for (std::size_t bin = 0; bin < band_.size(); ++bin) {
    if (!std::isfinite(band_[bin])) continue;
    const double x = xOf(centreOf(bin, band_.size()));
    above.emplace_back(x, valueAxis().toPixel(band_[bin]));
    below.emplace_back(x, valueAxis().toPixel(-band_[bin]));
  }
  if (above.empty()) return;
  above.insert(above.end(), below.rbegin(), below.rend());
  painter.setPen(Qt::NoPen);
  painter.setBrush(bandColor(palette()));
  painter.drawPolygon(above.data(), static_cast<int>(above.size()));
  painter.setBrush(Qt::NoBrush);
}

void GapPlot::paintCurve(QPainter& painter, const Curve& curve, const QColor& color) const {
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
  painter.setPen(QPen(color, 0));  // two strokes of one device pixel read as a thick one and cost far less
  painter.drawPolyline(smooth.data(), static_cast<int>(smooth.size()));
  painter.translate(0, 0.7 / devicePixelRatioF());
  painter.drawPolyline(smooth.data(), static_cast<int>(smooth.size()));
  painter.translate(0, -0.7 / devicePixelRatioF());
  painter.setRenderHint(QPainter::Antialiasing, false);
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
  paintGapLegend(painter);
  TimeAxisPlot::paintOverlay(painter);
}

// The value at the bin of `step`, or the newest before it: a run may be a step behind.
float GapPlot::newestAt(const std::vector<float>& values, std::int64_t step) const {
  for (std::size_t bin = binAt(step) + 1; bin-- > 0;)
    if (std::isfinite(values[bin])) return values[bin];
  return kNoValue;
}

// Top right: the runs' smoothed gaps at the crosshair or the newest step, and below what the band is.
void GapPlot::paintGapLegend(QPainter& painter) const {
  if (curves_.empty() || range().empty()) return;
  const std::int64_t step = std::clamp(selection_->hoverStep() >= 0 ? selection_->hoverStep() : selection_->step(),
                                       range().first, range().last);
  std::vector<LegendEntry> gaps, band;
  for (std::size_t i = 0; i < series_.size(); ++i)
    gaps.push_back({series_[i].label.left(1) + QLatin1Char(' ') + signedText(newestAt(curves_[i].smooth, step)),
                    seriesColor(series_[i].color, dark()), false});
  if (!band_.empty() && std::isfinite(newestAt(band_, step)))
    band.push_back({(bandPairs_ == 1 ? tr("noise +-%1 (rough: %2 x mean |gap| of one noise twin)")
                                     : tr("noise +-%1 (%2 x mean |gap| of noise twins)"))
                        .arg(QString::number(static_cast<double>(newestAt(band_, step)), 'g', 2))
                        .arg(kBandFactor),
                    bandColor(palette()), true});
  const QRect plot = plotRect();
  QRect row(plot.left(), plot.top() + 1, plot.width(), QFontMetrics(painter.font()).height());
  paintLegendRow(painter, row, gaps);
  row.translate(0, row.height());
  paintLegendRow(painter, row, band);
}

// Right-aligned, entries beside each other.
void GapPlot::paintLegendRow(QPainter& painter, QRect row, const std::vector<LegendEntry>& entries) const {
  constexpr int kMark = 20, kSpace = 10;
  const QFontMetrics metrics(painter.font());
  int width = 0;
  for (const LegendEntry& entry : entries) width += kMark + metrics.horizontalAdvance(entry.text) + kSpace;
  row.setLeft(std::max(row.left(), row.right() - width));
  QColor ground = palette().base().color();
  ground.setAlpha(200);
  if (!entries.empty()) painter.fillRect(row, ground);
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
  if (!band_.empty() && std::isfinite(newestAt(band_, step)))
    lines << tr("noise band +-%1").arg(formatValue(newestAt(band_, step), 4));
  return lines;
}

}  // namespace moescope
