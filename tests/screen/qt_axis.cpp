// Ticks, number formats and color scales. Nearly all of them are pure functions that are tested without a window.
#include <QFontMetrics>
#include <QTest>
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "tests/support/drawn_texts.h"
#include "tests/support/screen_test.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/explain_card.h"
#include "widgets/plots/axis.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/margin_bars.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/plots/time_axis_plot.h"
#include "widgets/plots/value_tile.h"

using namespace moescope;

namespace {

QStringList labels(const std::vector<Tick>& ticks) {
  QStringList list;
  for (const Tick& tick : ticks) list << tick.label;
  return list;
}

// Matrices that turn linear RGB into the linear RGB that a person with a color vision deficiency sees: Machado,
// Oliveira and Fernandes, "A physiologically-based model for simulation of color vision deficiency", IEEE TVCG 15(6),
// 2009, tables of severity 1.0.
using Matrix = std::array<double, 9>;
constexpr std::array<std::pair<const char*, Matrix>, 4> kSights = {
    {{"full colour vision", {1, 0, 0, 0, 1, 0, 0, 0, 1}},
     {"protanopia", {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998}},
     {"deuteranopia", {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881}},
     {"tritanopia", {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900}}}};

double linearised(double channel) {
  return channel <= 0.04045 ? channel / 12.92 : std::pow((channel + 0.055) / 1.055, 2.4);
}

struct Lab {
  double l, a, b;
  double distanceTo(const Lab& other) const {  // delta E of CIE 1976
    return std::hypot(l - other.l, a - other.a, b - other.b);
  }
};

// Returns a color in CIE 1976 L*a*b* under D65, as seen with `sight`.
Lab color_with(QRgb color, const Matrix& sight) {
  const std::array<double, 3> full = {linearised(qRed(color) / 255.0), linearised(qGreen(color) / 255.0),
                                      linearised(qBlue(color) / 255.0)};
  std::array<double, 3> rgb{};
  for (std::size_t i = 0; i < 3; ++i)
    rgb[i] = std::clamp(sight[3 * i] * full[0] + sight[3 * i + 1] * full[1] + sight[3 * i + 2] * full[2], 0.0, 1.0);
  const auto f = [](double t) { return t > 216.0 / 24389 ? std::cbrt(t) : (24389.0 / 27 * t + 16) / 116; };
  const double x = f((0.4124564 * rgb[0] + 0.3575761 * rgb[1] + 0.1804375 * rgb[2]) / 0.95047);
  const double y = f(0.2126729 * rgb[0] + 0.7151522 * rgb[1] + 0.0721750 * rgb[2]);
  const double z = f((0.0193339 * rgb[0] + 0.1191920 * rgb[1] + 0.9503041 * rgb[2]) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

// Returns the largest fall of lightness from an earlier to a later code of `first` to `last`; 0 if it only rises.
double largestFall(const Lut& lut, int first, int last, const Matrix& sight) {
  double highest = 0, fall = 0;
  for (int code = first; code <= last; ++code) {
    const double lightness = color_with(lut[static_cast<std::size_t>(code)], sight).l;
    fall = std::max(fall, highest - lightness);
    highest = std::max(highest, lightness);
  }
  return fall;
}

// A table of cells with the same code, each `cell` pixels wide and high.
class PlainTable : public MatrixPlot {
 public:
  PlainTable(int cells, int cell, int code) {
    setLegend(utilisationLegend(true));
    setCells(cells, cells, std::vector<std::uint8_t>(static_cast<std::size_t>(cells) * cells, code));
    setHatched(kZeroLoadCode);
    ensurePolished();
    resize(600, 600);
    const QSize around = size() - plotRect().size();
    resize(QSize(cells * cell, cells * cell) + around);
  }
};

// An axis below the plot with its ticks and captions.
class BottomAxis : public PlotFrame {
 public:
  std::vector<Tick> ticks;
  QStringList captions;
  double high = 1;

 protected:
  void paintStatic(QPainter& painter) override { paintBottomAxis(painter, axisAcross(0, high), ticks, captions); }
  void paintData(QPainter&) override {}
};

struct PaintedBars : QWidget {  // MaxVio of two layers with equal loads
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    paintMarginBars(painter, {10, 20, 90, 40}, {.bars = {{20, 40, 0}, {40, 60, 0}}}, palette());
  }
};

}  // namespace

class AxisTest : public QObject {
  Q_OBJECT

 private slots:
  void numbersReadAsInPrint() {
    QCOMPARE(formatPowerOfTwo(-126), QString("2⁻¹²⁶"));
    QCOMPARE(formatPowerOfTwo(20), QString("2²⁰"));
    QCOMPARE(formatValue(-0.25, 2), QString("−0.25"));
    QCOMPARE(formatCount(-1234), QString("−1,234"));
    QCOMPARE(formatPercent(-0.5), QString("−50.0 %"));
    QCOMPARE(inPrint("a gap of 0.1 +-0.02 from 2^-6 to under 2^7, in all 2^k"),
             QString("a gap of 0.1 ±0.02 from 2⁻⁶ to under 2⁷, in all 2ᵏ"));
    QCOMPARE(inPrint("-0.2 to (-0.1), steps 3-5, 1e-5, top-2, margin:-3"),
             QString::fromUtf8("\u22120.2 to (\u22120.1), steps 3-5, 1e-5, top-2, margin:-3"));
    QCOMPARE(inPrint("1.25x, 1.06x to 1.14x, blocks of 16 x 16, 35 % of x, x the mean"),
             QString::fromUtf8(
                 "1.25 \u00d7, 1.06 \u00d7 to 1.14 \u00d7, blocks of 16 \u00d7 16, 35 % of x, \u00d7 the mean"));
    QCOMPARE(inPrint("2^(k+1), x2^3, 2^8.2"), QString("2ᵏ⁺¹, x2^3, 2^8.2"));
    QCOMPARE(inPrint("`s(-1)` is -1"), QString("`s(-1)` is \u22121"));
    QCOMPARE(inPrint("+ 2^(9 - 7) x (1 + 3/8), (-1)^s x 2^(1 - bias) x m / 2^M"),
             QString("+ 2⁹⁻⁷ x (1 + 3/8), (−1)ˢ x 2¹⁻ᵇⁱᵃˢ x m / 2ᴹ"));
    QCOMPARE(inPrint("position / base^(2j/d), 10^(-SQNR / 20)"), QString("position / base^(2j/d), 10^(-SQNR / 20)"));
    QCOMPARE(cardInPrint("in MX 2^k, from 2^-6 to 2^(k + 1); base^(2j/d); 2^((a) b), x^2"),
             QString("in MX 2ᵏ, from 2⁻⁶ to 2ᵏ⁺¹; base<sup>2j/d</sup>; 2^((a) b), x^2"));
    const QFontMetrics metrics(QFont("DejaVu Sans", 9));
    for (const QChar c : QString("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴹᵀ−±"))
      QVERIFY2(metrics.inFont(c), qPrintable(QString(c)));
  }

  void linesThatStandTogetherDifferToEveryEye() {
    constexpr double kRunsApart = 17, kAnyApart = 12, kContrast = 3;
    constexpr int kSeries = 7, kRuns = 5;
    for (const bool dark : {false, true}) {
      const QRgb ground = colors(dark).surface;
      for (int i = 0; i < kSeries; ++i) {
        QVERIFY2(contrast(seriesColor(i, dark).rgb(), ground) >= kContrast, qPrintable(QString::number(i)));
        for (int j = 0; j < i; ++j)
          for (const auto& [name, sight] : kSights) {
            const double distance =
                color_with(seriesColor(i, dark).rgb(), sight).distanceTo(color_with(seriesColor(j, dark).rgb(), sight));
            QVERIFY2(distance >= (i < kRuns ? kRunsApart : kAnyApart),
                     qPrintable(QString("%1, dark %2: colours %3 and %4 are %5 apart")
                                    .arg(name)
                                    .arg(dark)
                                    .arg(i)
                                    .arg(j)
                                    .arg(distance)));
          }
      }
    }
  }

  void scalesRiseInLightnessToEveryEye() {
    constexpr double kRounding = 0.5;  // color channels are whole numbers
    for (const auto& [name, sight] : kSights) {
      for (const Lut& lut : {viridisLut(false), viridisLut(true), cividisLut(false), cividisLut(true)})
        QVERIFY2(largestFall(lut, 1, 255, sight) < kRounding, name);
      // With its distance from the fair share, a load becomes darker on a light page and lighter on a dark page.
      Lut light = utilisationLut(false), dark_scale = utilisationLut(true);
      QVERIFY2(largestFall(light, 2, 128, sight) < kRounding, name);
      QVERIFY2(largestFall(dark_scale, 130, 255, sight) < kRounding, name);
      std::reverse(light.begin(), light.end());
      std::reverse(dark_scale.begin(), dark_scale.end());
      QVERIFY2(largestFall(light, 0, 126, sight) < kRounding, name);
      QVERIFY2(largestFall(dark_scale, 128, 253, sight) < kRounding, name);
      // The ends of the diverging scale differ visibly, and so do "no data" and the middle of the scale.
      for (const bool dark : {false, true}) {
        const Lut lut = utilisationLut(dark);
        QVERIFY2(color_with(lut[2], sight).distanceTo(color_with(lut[255], sight)) > 40, name);
        QVERIFY2(color_with(lut[kNoDataCode], sight).distanceTo(color_with(lut[128], sight)) > 12, name);
      }
    }
  }

  void extremesGlowOnDarkAndDeadExpertsAreHatchedAtAnySize() {
    const Lut dark = utilisationLut(true);
    const auto lightness = [&](double load) { return color_with(dark[utilisationCode(load)], kSights[0].second).l; };
    QVERIFY(lightness(1) < 20);
    QVERIFY(lightness(1) < lightness(0.5) && lightness(0.5) < lightness(0.25) && lightness(1) < lightness(4));
    QPalette black;
    black.setColor(QPalette::Base, QColor(0x16, 0x18, 0x1c));
    for (const int cell : {2, 3, 4, 6, 12}) {
      PlainTable table(40, cell, kZeroLoadCode);
      table.setPalette(black);
      const QImage picture = table.grab().toImage();
      for (int row = 0; row < 40; ++row)
        for (int column = 0; column < 40; ++column) {
          const QRect place = table.cellRect(row, column).toAlignedRect() & picture.rect();
          int hatched = 0;
          for (int y = place.top(); y <= place.bottom(); ++y)
            for (int x = place.left(); x <= place.right(); ++x)
              hatched += picture.pixelColor(x, y).lightness() > 100 && picture.pixelColor(x, y).saturation() < 60;
          QVERIFY2(hatched > 0, qPrintable(QString("%1 px, cell %2, %3").arg(cell).arg(row).arg(column)));
        }
    }
  }

  void anAxisHasThreeNumbersWhereTheyHaveRoom() {
    QCOMPARE(linearTicks(-0.038, 0.027, 3).size(), std::size_t{3});
    QCOMPARE(linearTicks(-0.038, 0.027, 3).front().label, QString("−0.02"));
    QCOMPARE(labels(linearTicks(0, 3.3, 2)), QStringList({"0", "1", "2", "3"}));
    QCOMPARE(linearTicks(-0.4, 0.6, 1).size(), std::size_t{1});
  }

  void linearTicksAreRoundAndInside() {
    QCOMPARE(labels(linearTicks(0, 1, 5)), QStringList({"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
    QCOMPARE(labels(linearTicks(1.83, 2.41, 4)), QStringList({"2.0", "2.2", "2.4"}));
    QCOMPARE(labels(linearTicks(-2, 2, 4)), QStringList({"−2", "−1", "0", "1", "2"}));
    QCOMPARE(labels(linearTicks(0.0001, 0.0009, 4)), QStringList({"0.0002", "0.0004", "0.0006", "0.0008"}));
    for (const Tick& tick : linearTicks(0.013, 97.2, 7)) QVERIFY(tick.value >= 0.013 && tick.value <= 97.2);
  }

  void neverMoreTicksThanRoomOnAnyRange() {
    for (double span = 1e-6; span < 1e9; span *= 3.7)
      for (int max_ticks = 2; max_ticks < 12; ++max_ticks)
        QVERIFY(std::ssize(linearTicks(span / 3, span / 3 + span, max_ticks)) <= std::max(max_ticks + 1, 4));
  }

  void integerTicksAreNeverFinerThanOne() {
    QCOMPARE(labels(integerTicks(3, 6, 20)), QStringList({"3", "4", "5", "6"}));
    QCOMPARE(labels(integerTicks(0, 250000, 3)), QStringList({"0", "100k", "200k", "250k"}));
    QCOMPARE(labels(integerTicks(0, 1388, 7)),
             QStringList({"0", "200", "400", "600", "800", "1,000", "1,200", "1,388"}));
    QCOMPARE(labels(integerTicks(0, 63, 7)), QStringList({"0", "10", "20", "30", "40", "50", "63"}));
  }

  void ticksEndAlsoWhereStepsAreAsLargeAsNumbersCanBe() {
    for (const double low : {1e15, 9.1e15, 1e16, 9e18})
      for (const double size : {0.0, 2.0, 64.0, 1e6, 1e18})
        for (const int max_ticks : {1, 2, 10}) {
          QVERIFY(integerTicks(low, low + size, max_ticks).size() <= static_cast<std::size_t>(max_ticks) + 2);
          QVERIFY(linearTicks(low, low + size, max_ticks).size() <= static_cast<std::size_t>(max_ticks) + 2);
        }
    QVERIFY(logTicks(1e300, 1.7e308, 5).size() <= 10);
  }

  void labelsOfItemsDoNotTouch() {
    QCOMPARE(labelStride(10, 20, 64), 1);
    QCOMPARE(labelStride(10, 3, 64), 4);
    QCOMPARE(labelStride(10, 0.01, 64), 64);  // one label
    QCOMPARE(labelStride(10, 0, 64), 64);
    QCOMPARE(labelStride(10, -1, 64), 64);
    QCOMPARE(labelStride(10, 0, 1), 1);
    QCOMPARE(labelStride(10, 0, 0), 1);
  }

  void logTicksAreDecadesWithTwoAndFiveWhereThereIsRoom() {
    QCOMPARE(labels(logTicks(1, 1000, 4)), QStringList({"1", "10", "100", "1,000"}));
    QCOMPARE(labels(logTicks(1, 100, 8)), QStringList({"1", "2", "5", "10", "20", "50", "100"}));
    QCOMPARE(labels(logTicks(2, 4, 5)), QStringList({"2.0", "2.5", "3.0", "3.5", "4.0"}));
    QVERIFY(logTicks(0, 10, 5).empty());
  }

  void hopelessRangesGiveNoTicks() {
    QVERIFY(linearTicks(NAN, 1, 5).empty());
    QVERIFY(linearTicks(0, INFINITY, 5).empty());
    QVERIFY(linearTicks(2, 1, 5).empty());
    QCOMPARE(std::ssize(linearTicks(2, 2, 5)), 1);
  }

  void powerOfTwoTicksKeepToMultiplesOfTheirStride() {
    QCOMPARE(labels(powerOfTwoTicks(-9, -2, 4)), QStringList({"2⁻⁸", "2⁻⁶", "2⁻⁴", "2⁻²"}));
  }

  void niceRangeContainsWhatItIsGiven() {
    for (const auto& [low, high] : {std::pair{0.13, 5.52}, {-3.0, 0.001}, {7.0, 7.0}, {0.0, 0.0}, {1e-8, 2e-8}}) {
      const ValueRange range = niceRange(low, high, false);
      QVERIFY2(range.low <= low && range.high >= high && range.high > range.low, qPrintable(QString::number(low)));
    }
    const ValueRange log = niceRange(0.013, 770, true);
    QVERIFY(log.low > 0 && log.low <= 0.013 && log.high >= 770);
    QVERIFY(niceRange(NAN, 1, false).high > niceRange(NAN, 1, false).low);
  }

  void axisMapsBothWays() {
    const Axis linear{.low = 10, .high = 20, .at_low = 100, .at_high = 0};
    QCOMPARE(linear.toPixel(15), 50.0);
    QCOMPARE(linear.fromPixel(25), 17.5);
    const Axis log{.low = 1, .high = 100, .at_low = 0, .at_high = 200, .log = true};
    QCOMPARE(log.toPixel(10), 100.0);
    QCOMPARE(log.fromPixel(100), 10.0);
    QCOMPARE(log.toPixel(-5), 0.0);
  }

  void numbersReadWell() {
    QCOMPARE(formatCount(12345), "12,345");
    QCOMPARE(formatCount(1234567), "1.23M");
    QCOMPARE(formatValue(1.83421), "1.834");
    QCOMPARE(formatValue(0), "0");
    QCOMPARE(formatValue(NAN), "NaN");
    QCOMPARE(formatValue(-INFINITY), "−Inf");
    QCOMPARE(formatValue(3e-7), "3.00 × 10⁻⁷");
    QCOMPARE(withMinus("-8e-08"), "−8 × 10⁻⁸");
    QCOMPARE(withMinus("-0.00"), "0.00");
    QCOMPARE(withMinus("-inf"), "−inf");
    QCOMPARE(inPrint("-0"), "0");
    QCOMPARE(inPrint("gap +8e-06, within 1.2e-05 of 3"), "gap +8 × 10⁻⁶, within 1.2 × 10⁻⁵ of 3");
    QCOMPARE(formatPercent(0), "0 %");
    QCOMPARE(formatPercent(0.1234), "12.3 %");
    QCOMPARE(formatPercent(1e-7), "<0.001 %");
    QCOMPARE(formatBytes(14336), "14.3 kB");
    QCOMPARE(formatBytes(999), "999 B");
    QCOMPARE(formatBytes(2.5e9), "2.50 GB");
  }

  // For every width and range: the last tick has its label, and the caption is there and covers none.
  void theCaptionOfAnAxisReplacesNoTick() {
    BottomAxis plot;
    int captions = 0;
    for (const double high : {1.0, 7.0, 15.0, 249.0, 299.0, 1180.0, 123456.0})
      for (int width = 90; width < 700; width += 7)
        for (const QString& caption :
             {QStringLiteral("step"), QStringLiteral("expert"), QStringLiteral("share, log")}) {
          plot.high = high;
          plot.ticks = integerTicks(0, high, std::max(2, width / 60));
          plot.captions = {caption + QStringLiteral(" (mean of 12 per column)"), caption};
          plot.resize(width, 120);
          plot.markDirty();
          const std::vector<DrawnText> drawn = textsDrawnBy(&plot);
          const auto has = [&](const QString& text) { return std::ranges::count(drawn, text, &DrawnText::text); };
          QVERIFY2(has(plot.ticks.back().label) == 1, qPrintable(QString("%1 wide, to %2").arg(width).arg(high)));
          for (const DrawnText& a : drawn)
            for (const DrawnText& b : drawn)
              QVERIFY(&a == &b || a.place.right() <= b.place.left() || b.place.right() <= a.place.left());
          captions += has(plot.captions[0]) + has(plot.captions[1]) == 1;
        }
    QVERIFY(captions > 0.95 * 7 * 88 * 3);
  }

  // The title of a mark is at its right, else at its left, and a number in it is never cut.
  void theTitleOfAMarkGoesWhereThereIsRoom() {
    const QFontMetrics metrics{QFont()};
    const QString title("experts = MXFP8");
    const int width = metrics.horizontalAdvance(title);
    const auto title_between = [&](int left_limit, int right_limit) {
      return titleBeside(200, 7, left_limit, right_limit, title, metrics);
    };
    QCOMPARE(title_between(0, 207 + width).left_x, 207);
    QCOMPARE(title_between(0, 206 + width).left_x, 193 - width);
    QCOMPARE(title_between(0, 206 + width).text, title);
    QVERIFY(title_between(194 - width, 206 + width).text.isEmpty());
    QVERIFY(titleBeside(0, 7, 0, 100, "no digits, but a long text", metrics).text.endsWith(QChar(0x2026)));
    const int part = metrics.horizontalAdvance("Counts pad") + metrics.horizontalAdvance(QChar(0x2026));
    QCOMPARE(titleBeside(0, 0, 0, part, "Counts padding", metrics).text, QStringLiteral("Counts\u2026"));
    QCOMPARE(titleBeside(0, 0, 0, part, "Countspadding", metrics).text, QString());
  }

  void barsWithoutLengthHaveAReadableAxis() {
    PaintedBars widget;
    widget.resize(120, 80);
    const std::vector<DrawnText> drawn = textsDrawnBy(&widget);
    QCOMPARE(std::ranges::count(drawn, QString("1.0"), &DrawnText::text), 1);
    QVERIFY(std::ranges::none_of(drawn, [](const DrawnText& text) { return text.text.contains("e-"); }));
  }

  void aTileShowsNoNumberWithoutItsName() {
    Selection selection;
    ValueTile tile(&selection, "Fullest rank", [] { return QString("1.00"); });
    tile.resize(tile.sizeHint());
    QCOMPARE(textsDrawnBy(&tile).size(), std::size_t{2});
    tile.resize(40, tile.height());
    for (const DrawnText& text : textsDrawnBy(&tile)) QVERIFY2(text.text.isEmpty(), qPrintable(text.text));
  }

  // Experts without tokens stand out from a fair load in the dark theme as much as in the light one.
  void noTokenIsVisibleInBothThemes() {
    const auto contrasts = [](bool dark) {
      const Lut lut = utilisationLut(dark);
      return contrast(lut[kZeroLoadCode], lut[utilisationCode(1)]);
    };
    QVERIFY(contrasts(true) > 7);
    QVERIFY(contrasts(false) > 7);
    for (const bool dark : {false, true})
      QVERIFY(contrast(utilisationLut(dark)[kZeroLoadCode], hatchOnZeroLoad(dark).rgb()) > 7);
  }

  void utilisationIsNeutralAtOneAndSymmetricInLog() {
    const int neutral = utilisationCode(1);
    QVERIFY(std::abs((utilisationCode(2) - neutral) - (neutral - utilisationCode(0.5))) <= 1);
    QCOMPARE(utilisationCode(4), 255);
    QCOMPARE(utilisationCode(400), 255);
    QCOMPARE(utilisationCode(0.25), 2);
    QCOMPARE(utilisationCode(0.01), 2);
    QCOMPARE(utilisationCode(0), kZeroLoadCode);
    QCOMPARE(utilisationCode(NAN), kNoDataCode);
  }

  void utilisationCodeIsTheRoundedLogarithm() {
    const auto computed = [](double u) { return divergingCode((std::log2(u) + 2) / 4); };
    for (double u = 0.2; u < 5; u *= 1.00003) QCOMPARE(utilisationCode(u), computed(u));
  }

  void everyScaleHasItsOwnColourForNoDataAndNoToken() {
    for (const bool dark : {false, true}) {
      const Lut lut = utilisationLut(dark);
      for (int code = 2; code < 256; ++code) {
        QVERIFY(lut[code] != lut[kNoDataCode]);
        QVERIFY(lut[code] != lut[kZeroLoadCode]);
      }
    }
  }

  // The middle of the diverging scale has nearly the color of the page, so that a fair load does not attract attention.
  void divergingScaleIsQuietInTheMiddle() {
    const QColor light(utilisationLut(false)[utilisationCode(1)]), dark(utilisationLut(true)[utilisationCode(1)]);
    QVERIFY(light.lightness() > 230);
    QVERIFY(dark.lightness() < 60);
    const QColor low(utilisationLut(false)[2]), high(utilisationLut(false)[255]);
    QVERIFY(low.blue() > low.red() && high.red() > high.blue());
  }

  // Lightness rises monotonically, so that the sequential scales can also be read in gray.
  void sequentialScalesRiseInLightness() {
    for (const Lut& lut : {viridisLut(false), cividisLut(true)})
      for (int code = 2; code < 256; ++code) QVERIFY(qGray(lut[code]) >= qGray(lut[code - 1]) - 1);
  }
};

SCREEN_TEST(AxisTest)
#include "qt_axis.moc"
