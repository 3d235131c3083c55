// Ticks, number formats and colour scales: pure functions, checked without a window.
#include <QTest>
#include <cmath>

#include "widgets/plots/axis.h"
#include "widgets/plots/color_scale.h"

using namespace moescope;

namespace {

QStringList labels(const std::vector<Tick>& ticks) {
  QStringList list;
  for (const Tick& tick : ticks) list << tick.label;
  return list;
}

}  // namespace

class AxisTest : public QObject {
  Q_OBJECT

 private slots:
  void linearTicksAreRoundAndInside() {
    QCOMPARE(labels(linearTicks(0, 1, 5)), QStringList({"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
    QCOMPARE(labels(linearTicks(1.83, 2.41, 4)), QStringList({"2.0", "2.2", "2.4"}));
    QCOMPARE(labels(linearTicks(-2, 2, 4)), QStringList({"-2", "-1", "0", "1", "2"}));
    QCOMPARE(labels(linearTicks(0.0001, 0.0009, 4)), QStringList({"0.0002", "0.0004", "0.0006", "0.0008"}));
    for (const Tick& tick : linearTicks(0.013, 97.2, 7)) QVERIFY(tick.value >= 0.013 && tick.value <= 97.2);
  }

  void neverMoreTicksThanRoomOnAnyRange() {
    for (double span = 1e-6; span < 1e9; span *= 3.7)
      for (int most = 2; most < 12; ++most)
        QVERIFY(std::ssize(linearTicks(span / 3, span / 3 + span, most)) <= most + 1);
  }

  void integerTicksAreNeverFinerThanOne() {
    QCOMPARE(labels(integerTicks(3, 6, 20)), QStringList({"3", "4", "5", "6"}));
    QCOMPARE(labels(integerTicks(0, 250000, 3)), QStringList({"0", "100k", "200k"}));
  }

  void logTicksAreDecadesWithTwoAndFiveWhereThereIsRoom() {
    QCOMPARE(labels(logTicks(1, 1000, 4)), QStringList({"1", "10", "100", "1000"}));
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
    QCOMPARE(labels(powerOfTwoTicks(-9, -2, 4)), QStringList({"2^-8", "2^-6", "2^-4", "2^-2"}));
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
    QCOMPARE(formatValue(-INFINITY), "-Inf");
    QCOMPARE(formatValue(3e-7), "3.00e-07");
    QCOMPARE(formatPercent(0), "0 %");
    QCOMPARE(formatPercent(0.1234), "12.3 %");
    QCOMPARE(formatPercent(1e-7), "<0.001 %");
    QCOMPARE(formatBytes(14336), "14.3 kB");
    QCOMPARE(formatBytes(999), "999 B");
    QCOMPARE(formatBytes(2.5e9), "2.50 GB");
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

  // The codes come from a table.
  void utilisationCodeIsTheRoundedLogarithm() {
    const auto computed = [](double u) { return divergingCode((std::log2(u) + 2) / 4); };
    for (double u = 0.2; u < 5; u *= 1.00003) QCOMPARE(utilisationCode(u), computed(u));
    for (double u = 0.25; u <= 4; u *= 2) {  // where entries begin and end
      for (int i = 0; i < 256; ++i) {
        const double at = u * (1 + i / 256.0);
        for (const double near : {std::nextafter(at, 0), at, std::nextafter(at, 9)})
          QCOMPARE(utilisationCode(near), computed(near));
      }
    }
    for (int code = 2; code < 255; ++code) {  // and codes
      const double at = std::exp2((code - 1.5) / 253 * 4 - 2);
      for (const double near : {at * (1 - 1e-15), at, at * (1 + 1e-15)})
        QCOMPARE(utilisationCode(near), computed(near));
    }
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

  // The middle of the diverging scale is close to the page, its ends far from it: what is fair is quiet.
  void divergingScaleIsQuietInTheMiddle() {
    const QColor light(utilisationLut(false)[utilisationCode(1)]), dark(utilisationLut(true)[utilisationCode(1)]);
    QVERIFY(light.lightness() > 230);
    QVERIFY(dark.lightness() < 60);
    const QColor low(utilisationLut(false)[2]), high(utilisationLut(false)[255]);
    QVERIFY(low.blue() > low.red() && high.red() > high.blue());
  }

  // Lightness rises monotonically, so the sequential scales also read in grey.
  void sequentialScalesRiseInLightness() {
    for (const Lut& lut : {viridisLut(false), cividisLut(true)})
      for (int code = 2; code < 256; ++code) QVERIFY(qGray(lut[code]) >= qGray(lut[code - 1]) - 1);
  }
};

QTEST_APPLESS_MAIN(AxisTest)
#include "qt_axis.moc"
