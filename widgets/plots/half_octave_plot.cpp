#include "widgets/plots/half_octave_plot.h"

#include <QPainter>
#include <algorithm>
#include <numeric>

#include "core/frame/margin_counts.h"
#include "widgets/look/fitted_text.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

// Formats a value in two digits, since values that are counted by powers of two span many powers of ten.
QString twoDigits(double value) {
  return withMinus(QString::number(value, 'g', 2));
}

QString orMore(int bin) {
  return QStringLiteral("\u2265 ") + twoDigits(half_octave_edge(bin));
}

}  // namespace

QString halfOctaveMedianText(std::span<const std::uint32_t> counts) {
  const double median = half_octave_median(counts);
  if (std::isnan(median)) return QStringLiteral("-");
  const int last = to_int(counts.size()) - 1;
  return median >= half_octave_edge(last) ? orMore(last) : QStringLiteral("\u2248 ") + twoDigits(median);
}

void HalfOctavePlot::setHistograms(std::span<const std::uint32_t> back, std::span<const std::uint32_t> front,
                                   int color) {
  back_.assign(back.begin(), back.end());
  if (back_.empty()) back_.resize(kHalfOctaves);
  front_.assign(front.begin(), front.end());
  front_.resize(back_.size());
  color_ = color;
  const auto used = [this](int bin) { return back_[bin] + front_[bin] > 0; };
  first_ = 0;
  last_ = bins() - 1;
  while (first_ < last_ - 8 && !used(first_)) ++first_;
  while (last_ > first_ + 8 && !used(last_)) --last_;
  back_total_ = std::max(1.0, std::accumulate(back_.begin(), back_.end(), 0.0));
  front_total_ = std::max(1.0, std::accumulate(front_.begin(), front_.end(), 0.0));
  double highest = texts_.shares ? 0.01 : 1;
  for (int bin = 0; bin < bins(); ++bin) highest = std::max({highest, heightOf(back_, bin), heightOf(front_, bin)});
  top_ = niceRange(0, highest, false).high;
}

double HalfOctavePlot::heightOf(const std::vector<std::uint32_t>& counts, int bin) const {
  const double total = &counts == &back_ ? back_total_ : front_total_;
  return counts[bin] / (texts_.shares ? total : 1);
}

double HalfOctavePlot::xOf(double bin) const {
  const QRect plot = plotRect();
  return plot.left() + (bin - first_) / (last_ + 1 - first_) * plot.width();
}

int HalfOctavePlot::binAt(int x) const {
  const QRect plot = plotRect();
  if (x < plot.left() || x > plot.right()) return -1;
  return std::min(last_, first_ + (x - plot.left()) * (last_ + 1 - first_) / std::max(1, plot.width()));
}

void HalfOctavePlot::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  const int max_ticks = std::clamp(plot.height() / withType(26), 2, 10);
  auto ticks = texts_.shares ? linearTicks(0, top_, max_ticks) : integerTicks(0, static_cast<int>(top_), max_ticks);
  for (Tick& tick : ticks)
    if (texts_.shares) tick.label = withMinus(QString::number(tick.value * 100, 'g', 3));
  paintLeftAxis(painter, countAxis(), ticks, texts_.shares ? QString("%1, %").arg(texts_.counted) : texts_.counted);
  std::vector<Tick> edges;
  for (int bin = first_; bin <= last_ + (lastIsShown() ? 0 : 1); ++bin) {
    const int power = (bin - kHalfOctaves) / 2;
    if (bin % 2 == 0 && power % 2 == 0) edges.push_back({xOf(bin), formatPowerOfTwo(power)});
  }
  // The last bin has no upper end, so a label under its middle replaces the edge.
  if (lastIsShown()) edges.push_back({xOf(last_ + 0.5), orMore(last_)});
  paintBottomAxis(painter, kPixels, edges, captionForms(texts_.caption) + captionForms(texts_.in_short));
  painter.setPen(axisColor(palette()));
  painter.drawLine(plot.left(), plot.bottom() + 1, plot.right(), plot.bottom() + 1);
}

void HalfOctavePlot::paintData(QPainter& painter) {
  QColor faint = mutedText(palette());
  faint.setAlpha(110);
  QColor strong = seriesColor(color_, dark());
  if (texts_.shares && !texts_.front.isEmpty()) strong.setAlpha(170);  // shows lower bars behind it
  for (int bin = first_; bin <= last_; ++bin) {
    const auto bar = [&](double value, const QColor& color) {
      if (value <= 0) return;
      const double height = std::max(1.0, countAxis().toPixel(0) - countAxis().toPixel(value));
      painter.fillRect(QRectF(xOf(bin) + 0.5, plotRect().bottom() + 1 - height, xOf(bin + 1) - xOf(bin) - 1, height),
                       color);
    };
    bar(heightOf(back_, bin), texts_.front.isEmpty() ? strong : faint);
    if (!texts_.front.isEmpty()) bar(heightOf(front_, bin), strong);
  }
  paintCountLegend(painter);
}

// Paints the legend above the bars with the medians, which show that flips are at narrow margins.
void HalfOctavePlot::paintCountLegend(QPainter& painter) const {
  const QFontMetrics metrics(painter.font());
  const QRect plot = plotRect();
  QColor faint = mutedText(palette());
  faint.setAlpha(110);
  const QColor strong = seriesColor(color_, dark());
  const auto named = [](const QString& name, const std::vector<std::uint32_t>& counts) {
    return QString("%1, median %2").arg(name, halfOctaveMedianText(counts));
  };
  std::vector<std::pair<QString, QColor>> rows{{named(texts_.back, back_), texts_.front.isEmpty() ? strong : faint}};
  if (!texts_.front.isEmpty()) rows.emplace_back(named(texts_.front, front_), strong);
  QRect row(plot.left() + 4, 1, width() - plot.left() - 6, metrics.height());
  for (const auto& [text, color] : rows) {
    painter.fillRect(QRect(row.left(), row.center().y() - 4, 10, 9), color);
    painter.setPen(palette().text().color());
    painter.drawText(row.adjusted(15, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter,
                     fittingText({text, text.section(QLatin1Char(','), 0, 0)}, metrics, row.width() - 15));
    row.translate(0, metrics.height());
  }
}

QStringList HalfOctavePlot::readoutAt(QPoint position) const {
  const int bin = binAt(position.x());
  if (bin < 0) return {};
  const std::uint32_t back = back_[bin], front = front_[bin];
  const QString from = twoDigits(half_octave_edge(bin)), to = twoDigits(half_octave_edge(bin + 1));
  QString range = bin == 0 ? QString("under %1").arg(to) : QString("%1 to %2").arg(from, to);
  if (bin + 1 == bins()) range = orMore(bin);
  QStringList lines{texts_.value + QLatin1Char(' ') + range};
  lines << (texts_.shares ? QString("%1: %2 (%3)").arg(texts_.back).arg(back).arg(formatPercent(back / back_total_))
                          : QString("%1 %2").arg(back).arg(texts_.counted));
  if (const double total = texts_.shares ? front_total_ : back; !texts_.front.isEmpty() && total > 0)
    lines << QString("%1: %2 (%3)").arg(texts_.front).arg(front).arg(formatPercent(front / total));
  return lines;
}

}  // namespace moescope
