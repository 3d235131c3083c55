#include "widgets/plots/color_scale.h"

#include <QFontMetrics>
#include <algorithm>
#include <cmath>
#include <span>

#include "core/numerics/index.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

QRgb mix(QRgb a, QRgb b, double t) {
  const auto channel = [t](int x, int y) { return to_int(std::lround(x + (y - x) * t)); };
  return qRgb(channel(qRed(a), qRed(b)), channel(qGreen(a), qGreen(b)), channel(qBlue(a), qBlue(b)));
}

QRgb at(std::span<const QRgb> stops, double position) {
  const double place = std::clamp(position, 0.0, 1.0) * (stops.size() - 1);
  const auto i = std::min(static_cast<std::size_t>(place), stops.size() - 2);
  return mix(stops[i], stops[i + 1], place - i);
}

Lut lutOf(std::span<const QRgb> stops, bool dark) {
  Lut lut;
  lut[kNoDataCode] = colors(dark).no_data;
  for (int code = 1; code < 256; ++code) lut[code] = at(stops, (code - 1) / 254.0);
  return lut;
}

}  // namespace

std::uint8_t scaleCode(double position) {
  if (std::isnan(position)) return kNoDataCode;
  return static_cast<std::uint8_t>(1 + std::lround(std::clamp(position, 0.0, 1.0) * 254));
}

Lut viridisLut(bool dark) {
  return lutOf(kViridis, dark);
}

Lut cividisLut(bool dark) {
  return lutOf(kCividis, dark);
}

Lut matrixLut(bool dark) {
  return lutOf(colors(dark).matrix, dark);
}

Lut utilisationLut(bool dark) {
  Lut lut;
  lut[kNoDataCode] = colors(dark).no_data;
  lut[kZeroLoadCode] = colors(dark).zero_load;
  for (int code = 2; code < 256; ++code) lut[code] = at(colors(dark).load, (code - 2) / 253.0);
  return lut;
}

int loadLimit(double largest_load) {
  int limit = 4;
  while (limit < largest_load && limit < 256) limit *= 4;
  return limit;
}

std::uint8_t utilisationCode(double utilisation, int limit) {
  if (utilisation <= 0) return kZeroLoadCode;
  const double octaves = std::log2(utilisation), distance = std::abs(octaves);
  const double from_fair = distance <= 1 ? distance / 2 : 0.5 + (distance - 1) / (std::log2(limit) - 1) / 2;
  return divergingCode(0.5 + std::copysign(from_fair, octaves) / 2);
}

std::uint8_t divergingCode(double position) {
  if (std::isnan(position)) return kNoDataCode;
  return static_cast<std::uint8_t>(2 + std::lround(std::clamp(position, 0.0, 1.0) * 253));
}

QColor seriesColor(int index, bool dark) {
  const int shade = (index - kNoiseSeries) / kSeriesShade, run = (index - kNoiseSeries) % kSeriesShade + kNoiseSeries;
  const auto& series = colors(dark).series;
  const QColor color(run == kNoiseSeries ? colors(dark).noise : series[run % (series.size() - 1)]);
  if (shade == 0) return color;
  return dark ? color.lighter(100 + 20 * shade) : color.darker(100 + 45 * shade);
}

Qt::PenStyle seriesLine(int index) {
  constexpr std::array kLines = {Qt::SolidLine, Qt::DashLine, Qt::DotLine, Qt::DashDotLine, Qt::DashDotDotLine};
  const int shade = (index - kNoiseSeries) / kSeriesShade, is_noise = (index - kNoiseSeries) % kSeriesShade == 0;
  return kLines[static_cast<std::size_t>(shade + is_noise) % kLines.size()];
}

void paintSwatch(QPainter& painter, const QRect& place, int index, bool dark) {
  painter.setPen(QPen(seriesColor(index, dark), 2, seriesLine(index), Qt::FlatCap));
  painter.drawLine(place.left(), place.center().y(), place.right() + 1, place.center().y());
}

double logPosition(double share, double lowest) {
  if (!std::isfinite(share)) return std::nan("");
  return share <= lowest ? 0 : 1 - std::log10(share) / std::log10(lowest);
}

QColor textOn(QRgb background) {
  return QColor(contrast(background, kBlack) >= contrast(background, kPaper) ? kBlack : kPaper);
}

QBrush fineHatch(const QColor& color) {
  constexpr int kPeriod = 3;
  QImage tile(kPeriod, kPeriod, QImage::Format_ARGB32_Premultiplied);
  tile.fill(Qt::transparent);
  for (int i = 0; i < kPeriod; ++i) tile.setPixelColor(i, kPeriod - 1 - i, color);
  return QBrush(tile);
}

int paintFlatLegend(QPainter& painter, const QRect& area, const LegendScale& whole, const QPalette& palette) {
  LegendScale scale = whole;
  const QFontMetrics metrics(painter.font());
  const int gap = withType(kSpace4, metrics), box = withType(10, metrics);
  int bar = withType(100, metrics);
  const auto advance_of = [&](const QString& words) { return metrics.horizontalAdvance(words) + gap; };
  const auto needed = [&] {
    int width = scale.high.isEmpty() ? -kSpace12 : advance_of(scale.low) + bar + advance_of(scale.high);
    if (!scale.caption.isEmpty()) width += advance_of(scale.caption);
    for (const LegendScale::Swatch& swatch : scale.swatches) width += box + gap + advance_of(swatch.label) + kSpace8;
    return width;
  };
  // Without room first the caption is left out, then half of the bar, then swatches.
  if (scale.high.isEmpty() || needed() > area.width()) scale.caption.clear();
  if (needed() > area.width()) bar /= 2;
  while (needed() > area.width() && !scale.swatches.empty()) scale.swatches.erase(scale.swatches.begin());
  const int width = needed();
  if (width <= 0 || width > area.width()) return 0;
  int x = area.right() + 1 - width;
  const auto text = [&](const QString& words, const QColor& color) {
    painter.setPen(color);
    const int advance = metrics.horizontalAdvance(words);
    painter.drawText(QRect(x, area.top(), advance + 1, area.height()), Qt::AlignLeft | Qt::AlignVCenter, words);
    x += advance + gap;
  };
  for (const LegendScale::Swatch& swatch : scale.swatches) {
    const QRect place(x, area.center().y() - box / 2, box, box);
    if (swatch.kind == LegendScale::Swatch::pointer) {
      painter.setBrush(swatch.color);
      painter.setPen(Qt::NoPen);
      painter.drawConvexPolygon(QPolygon({place.topLeft(), place.bottomLeft(), {place.right(), place.center().y()}}));
      painter.setBrush(Qt::NoBrush);
    } else if (swatch.kind == LegendScale::Swatch::frame) {
      painter.setPen(swatch.color);
      painter.drawRect(place.adjusted(0, 0, -1, -1));
    } else {
      painter.fillRect(place, swatch.color);
      if (swatch.kind == LegendScale::Swatch::struck)
        painter.fillRect(place, QBrush(colors(palette).zero_load_hatch, Qt::BDiagPattern));
    }
    x += box + gap;
    text(swatch.label, mutedText(palette));
    x += kSpace12 - gap;
  }
  if (scale.high.isEmpty()) return width;
  text(scale.low, mutedText(palette));
  const int codes = 256 - scale.first_code;
  QImage row(codes, 1, QImage::Format_RGB32);
  for (int i = 0; i < codes; ++i) row.setPixel(i, 0, scale.lut[scale.first_code + i]);
  painter.drawImage(QRect(x, area.center().y() - box / 2, bar, box), row);
  if (scale.mark >= 0)
    painter.fillRect(x + to_int(std::lround(scale.mark * bar)), area.center().y() - box / 2 - 2, 1, box + 4,
                     QColor(colors(palette).ink));
  x += bar + gap;
  text(scale.high, mutedText(palette));
  text(scale.caption, mutedText(palette));
  return width;
}

LegendScale utilisationLegend(bool dark, int limit) {
  const Lut lut = utilisationLut(dark);
  return {.lut = lut,
          .low = QStringLiteral("\u2264 1/%1").arg(limit),
          .high = QStringLiteral("\u2265 %1").arg(limit),
          .caption = QStringLiteral("\u00d7 fair share"),
          .first_code = 2,
          .swatches = {{QColor(lut[kZeroLoadCode]), QStringLiteral("0"), LegendScale::Swatch::struck}}};
}

}  // namespace moescope
