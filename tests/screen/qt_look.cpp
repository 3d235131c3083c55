// Colors and style: contrast of both themes, sizes of controls, texts with a shorter form for narrow widgets.
#include <QComboBox>
#include <QLineEdit>
#include <QPushButton>
#include <QTest>

#include "app/look/theme.h"
#include "core/config/config_field.h"
#include "tests/support/screen_test.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/setting_labels.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

using namespace moescope;

class LookTest : public QObject {
  Q_OBJECT

  static constexpr double kText = 4.5, kBorder = 3;  // WCAG 2.1, 1.4.3 and 1.4.11

 private slots:
  void init() { applyTheme(Theme::light); }

  void numbersHaveTheirNouns() {
    QCOMPARE(countedText(1, "piece of text"), QString("1 piece of text"));
    QCOMPARE(countedText(8, "piece of text"), QString("8 pieces of text"));
    QCOMPARE(countedText(0, "step"), QString("0 steps"));
    QCOMPARE(countedText(1284, "outlier channel"), QString("1,284 outlier channels"));
    QCOMPARE(countedText(2, "batch"), QString("2 batches"));
    QCOMPARE(countedText(2, "copy of its own tokens"), QString("2 copies of its own tokens"));
    QCOMPARE(countedText(2, "day"), QString("2 days"));
  }

  void settingsAreNamedByTheirLabels() {
    const QString label = QString::fromStdString(find_field("router.top_k")->label);
    QCOMPARE(withSettingLabels("router.top_k is 1 (router.top_k). See run.toml."),
             QString("\"%1\" is 1 (\"%1\"). See run.toml.").arg(label));
    QCOMPARE(withSettingLabels("no key"), QString("no key"));
  }

  void textIsLegible_data() {
    QTest::addColumn<bool>("dark");
    QTest::newRow("light") << false;
    QTest::newRow("dark") << true;
  }
  void textIsLegible() {
    QFETCH(bool, dark);
    const Colors& c = colors(dark);
    for (const QRgb ground : {c.window, c.surface, c.sunken, c.popup, c.neutral_soft, c.accent_soft})
      for (const QRgb ink : {c.ink, c.ink2}) QVERIFY2(contrast(ground, ink) >= kText, qPrintable(pair(ground, ink)));
    for (const QRgb ground : {c.window, c.surface, c.popup, c.accent_soft})
      QVERIFY2(contrast(ground, c.accent) >= kText, qPrintable(pair(ground, c.accent)));
    const std::array<std::array<QRgb, 2>, 3> verdicts{
        {{c.good, c.good_soft}, {c.attention, c.attention_soft}, {c.bad, c.bad_soft}}};
    for (const auto& [ink, ground] : verdicts) {
      QVERIFY2(contrast(ground, ink) >= kText, qPrintable(pair(ground, ink)));
      QVERIFY2(contrast(ground, c.ink) >= kText, qPrintable(pair(ground, c.ink)));
      QVERIFY2(contrast(ground, c.accent) >= kText, qPrintable(pair(ground, c.accent)));
      QVERIFY2(contrast(c.surface, ink) >= kText, qPrintable(pair(c.surface, ink)));
    }
    QVERIFY(contrast(c.accent, c.on_accent) >= kText);
  }

  void bordersAndCurvesAreSeen_data() { textIsLegible_data(); }
  void bordersAndCurvesAreSeen() {
    QFETCH(bool, dark);
    const Colors& c = colors(dark);
    for (const QRgb ground : {c.surface, c.popup})
      QVERIFY2(contrast(ground, c.field_border) >= kBorder, qPrintable(pair(ground, c.field_border)));
    for (std::size_t run = 0; run < 3; ++run)
      QVERIFY2(contrast(c.surface, c.series[run]) >= kBorder, qPrintable(pair(c.surface, c.series[run])));
    QVERIFY(contrast(c.surface, c.noise) >= kBorder);
    QVERIFY(contrast(c.surface, c.accent) >= kBorder);  // frame of the focus
  }

  void numbersOnColourAreLegible_data() { textIsLegible_data(); }
  void numbersOnColourAreLegible() {
    QFETCH(bool, dark);
    for (const Lut& lut : {matrixLut(dark), utilisationLut(dark), viridisLut(dark)})
      for (int code = 2; code < 256; ++code)
        QVERIFY2(contrast(lut[code], textOn(lut[code]).rgb()) >= kText, qPrintable(pair(lut[code], 0)));
  }

  void theThemesDiffer() {
    QVERIFY(!isDark(themePalette(Theme::light)));
    QVERIFY(isDark(themePalette(Theme::dark)));
    applyTheme(Theme::dark);
    QCOMPARE(QApplication::palette().window().color().rgb(), colors(true).window);
  }

  void fieldsHaveOneHeight() {
    QLineEdit line;
    QComboBox box;
    QPushButton button(QStringLiteral("Start"));
    for (const QWidget* field : std::initializer_list<QWidget*>{&line, &box, &button})
      QCOMPARE(field->sizeHint().height(), kFieldHeight);
  }

  void aFocusedFieldHasAnAccentBorder() {
    QLineEdit line;
    line.resize(120, kFieldHeight);
    line.show();
    line.activateWindow();
    line.setFocus();
    QTRY_VERIFY(line.hasFocus());
    const QRgb border = line.grab().toImage().pixel(0, kFieldHeight / 2);
    QVERIFY2(contrast(border, colors(false).accent) < 1.2, qPrintable(pair(border, colors(false).accent)));
  }

  void theTypeGrowsWithTheProjector() {
    const int usual = withType(100, QFontMetrics(QApplication::font()));
    QCOMPARE(usual, 100);
    setTypeFactor(1.5);
    const int large = withType(100, QFontMetrics(QApplication::font()));
    setTypeFactor(1);
    QVERIFY(large >= 140);
    QCOMPARE(withType(100, QFontMetrics(QApplication::font())), 100);
  }

  void aShorterTextStandsInForALongerOne() {
    const QFontMetrics metrics{QApplication::font()};
    const QStringList forms{QStringLiteral("Balance: bias update rate 0.001"), QStringLiteral("bias 0.001")};
    const int whole = metrics.horizontalAdvance(forms[0]), brief = metrics.horizontalAdvance(forms[1]);
    QCOMPARE(fittingText(forms, metrics, whole), forms[0]);
    QCOMPARE(fittingText(forms, metrics, whole - 1), forms[1]);
    QCOMPARE(fittingText(forms, metrics, brief - 1), QString());
  }

  void digitsAreNeverElided() {
    const QFontMetrics metrics{QApplication::font()};
    QVERIFY(elidedWords(QStringLiteral("Cross-entropy loss"), metrics, 60).endsWith(QChar(0x2026)));
    QCOMPARE(elidedWords(QStringLiteral("step 1,284 of 2,000"), metrics, 60), QString());
  }

 private:
  static QString pair(QRgb a, QRgb b) {
    return QStringLiteral("%1 on %2: %3").arg(QColor(b).name(), QColor(a).name()).arg(contrast(a, b));
  }
};

SCREEN_TEST(LookTest)
#include "qt_look.moc"
