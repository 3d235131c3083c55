// Panels of a tensor and its blocks: Block microscope, Block scale map, What if.
#include <QApplication>
#include <QLabel>
#include <QLineEdit>
#include <QMouseEvent>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QTest>
#include <cmath>

#include "tests/support/controls.h"
#include "tests/support/every_format.h"
#include "tests/support/made_tensors.h"
#include "tests/support/screen_test.h"
#include "tests/support/test_look.h"
#include "tests/support/told_numbers.h"
#include "widgets/look/tokens.h"
#include "widgets/microscaling/block/block_bars.h"
#include "widgets/microscaling/block/block_cards.h"
#include "widgets/microscaling/block/block_table.h"
#include "widgets/microscaling/block_microscope_panel.h"
#include "widgets/microscaling/block_scale_map_panel.h"
#include "widgets/microscaling/format_card.h"
#include "widgets/microscaling/what_if_panel.h"
#include "widgets/panel/format_text.h"
#include "widgets/plots/color_scale.h"

using namespace moescope;

namespace {}  // namespace

class MicroscopeTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useTestLook(); }
  void editingAValueMovesTheScaleAndCanBeUndone();
  void presetsShowTheirLesson();
  void formatAndRoundingTakeEffectAtOnce();
  void theKeyNamesTheBitsOfTheFormat();
  void clickingABarSelectsTheRow();
  void theCardOfAFormatStatesItsRange();
  void mapShowsTheScaleOfEveryBlock();
  void mapThinsHugeTensors();
  void whatIfAgreesAndAppliesAChoice();
  void formatsAreNamedAsWhatTheyAre();
  void whatIfSaysWhatAnotherFormatWouldKeep();
  void mapNamesOutlierChannels();
  void cardsLeadFromTheLargestValueToItsCode();
  void anExampleHasABlockOfItsFormat();
  void helpSaysWhatFloorCutsInEveryElement();
  void theErrorsOfANarrowTableAreNotCut();
  void everyFormOfTheAnswerCountsTheLostValues();

 private:
  Selection selection_;
};

void MicroscopeTest::editingAValueMovesTheScaleAndCanBeUndone() {
  BlockMicroscopePanel microscope(&selection_);
  microscope.resize(1000, 600);
  microscope.show();
  QVERIFY(QTest::qWaitForWindowExposed(&microscope));
  microscope.setBlock({QStringLiteral("row 0"), QStringLiteral("test")}, std::vector<float>(32, 1.0f),
                      mx_format(ElementFormat::e4m3), BlockAxis::row);
  QCOMPARE(int(microscope.block().scale.code), 119);
  auto* table = microscope.findChild<QTableView*>();
  QSignalSpy readout(&microscope, &Panel::readoutChanged);
  table->setCurrentIndex(table->model()->index(3, BlockModel::kValue));
  table->setFocus();
  QTest::keyClick(table, Qt::Key_F2);
  auto* editor = table->findChild<QLineEdit*>();
  QVERIFY(editor);
  editor->selectAll();
  QTest::keyClicks(editor, QStringLiteral("1000"));
  QTest::keyClick(editor, Qt::Key_Return);
  QTRY_COMPARE(microscope.block().elements[3].value, 1000.0f);  // the editor commits the value in the event loop
  QCOMPARE(int(microscope.block().scale.code), 129);            // 1000 / 448 rounds up to 2^2
  QCOMPARE(readout.last()[0].toString(), elementReadout(microscope.block(), 3).join(QStringLiteral("   ")));
  QTest::keyClick(table, Qt::Key_Z, Qt::ControlModifier);
  QCOMPARE(int(microscope.block().scale.code), 119);
  QTest::keyClick(table, Qt::Key_Y, Qt::ControlModifier);
  QCOMPARE(int(microscope.block().scale.code), 129);
  button(&microscope, "Reset")->click();
  QCOMPARE(int(microscope.block().scale.code), 119);
  QVERIFY(!table->model()->setData(table->model()->index(0, BlockModel::kValue), QStringLiteral("many"), Qt::EditRole));
  QCOMPARE(microscope.csv().count(QLatin1Char('\n')), 33);
}

void MicroscopeTest::presetsShowTheirLesson() {
  BlockMicroscopePanel microscope(&selection_);
  const auto load = [&](const QString& name) { choose(&microscope, "Example block", name); };
  load("Outlier × 300");
  QVERIFY(microscope.block().sums.underflow_share() < 0.05);
  microscope.setFormat(mx_format(ElementFormat::e2m1, ScaleRule::rceil, 32));
  QVERIFY(microscope.block().sums.underflow_share() > 0.85);
  load("Gains near 0.93");
  microscope.setFormat(mx_format(ElementFormat::e4m3, ScaleRule::floor, 32));
  QCOMPARE(microscope.block().sums.clipped, std::uint64_t(32));
  for (const ElementAnatomy& e : microscope.block().elements) QCOMPARE(e.dequantized, 0.875f);
  load("One NaN");
  QCOMPARE(int(microscope.block().scale.code), 255);
  load("All zero");
  QCOMPARE(int(microscope.block().scale.code), 0);
  load("Subnormal floats");
  QCOMPARE(int(microscope.block().scale.code), 0);
  for (const BlockPreset& preset : blockPresets()) {
    QCOMPARE(preset.values.size(), std::size_t(32));
    load(preset.name);
    microscope.resize(900, 500);
    QVERIFY(!microscope.grab().isNull());
  }
}

void MicroscopeTest::formatAndRoundingTakeEffectAtOnce() {
  BlockMicroscopePanel microscope(&selection_);
  microscope.resize(1000, 600);
  QSignalSpy formats(&microscope, &BlockMicroscopePanel::formatChosen);
  auto* format = control<QComboBox>(&microscope, "Element format");
  format->setFocus();
  QTest::keyClick(format, Qt::Key_Down);
  QCOMPARE(microscope.block().format.element, ElementFormat::e5m2);
  QCOMPARE(formats.count(), 1);
  for (QAction* action : microscope.actions())
    if (action->shortcut() == QKeySequence::Undo) action->trigger();
  QCOMPARE(microscope.block().format.element, ElementFormat::e4m3);
  QCOMPARE(formats.count(), 2);
  const double nearest = microscope.block().sums.err2;
  microscope.setRounding(Rounding::stochastic);
  QVERIFY(microscope.block().sums.err2 > nearest);
}

void MicroscopeTest::theKeyNamesTheBitsOfTheFormat() {
  BlockMicroscopePanel microscope(&selection_);
  const auto names = [&](BitField field) {
    const QColor color = bitColor(field, isDark(microscope.palette()));
    return std::ranges::count(microscope.bitsLegend().swatches, color, &LegendScale::Swatch::color) == 1;
  };
  QVERIFY(names(BitField::sign) && names(BitField::exponent) && names(BitField::mantissa));
  microscope.setFormat(mx_format(ElementFormat::int8));
  QVERIFY(names(BitField::sign) && !names(BitField::exponent) && names(BitField::mantissa));
  const bool dark = isDark(microscope.palette());
  const QPalette before = QApplication::palette();
  QApplication::setPalette(themePalette(dark ? Theme::light : Theme::dark));
  QCoreApplication::processEvents();
  const bool renamed = isDark(microscope.palette()) != dark && names(BitField::sign);
  QApplication::setPalette(before);
  QVERIFY(renamed);
}

void MicroscopeTest::clickingABarSelectsTheRow() {
  BlockMicroscopePanel microscope(&selection_);
  microscope.resize(1400, 600);
  microscope.show();
  QVERIFY(QTest::qWaitForWindowExposed(&microscope));
  auto* bars = microscope.findChild<BlockBars*>();
  QTest::mouseClick(bars, Qt::LeftButton, {}, QPoint(bars->width() - 92, bars->height() / 2));
  QCOMPARE(microscope.findChild<QTableView*>()->currentIndex().row(), 31);
  QTest::keyClick(bars, Qt::Key_Left);
  QCOMPARE(microscope.findChild<QTableView*>()->currentIndex().row(), 30);
}

void MicroscopeTest::theCardOfAFormatStatesItsRange() {
  for (const NamedFormat& named : named_formats()) {
    const QString card = formatCard(named.format);
    QCOMPARE(card.isEmpty(), !is_scaled(named.format));
    if (card.isEmpty()) continue;
    QVERIFY2(card.contains("up to " + exactText(traits(named.format.element).max) + '.'), qPrintable(card));
    QVERIFY2(!card.contains('%'), qPrintable(card));
  }
  QVERIFY(formatCard(mx_format(ElementFormat::e4m3)).contains("8.25 bits per value. Range in a block 17.8 binades"));
  BlockMicroscopePanel microscope(&selection_);
  microscope.setFormat(kNvfp4Format);
  QVERIFY(microscope.explain().contains("the tensor an FP32 scale"));
}

void MicroscopeTest::mapShowsTheScaleOfEveryBlock() {
  std::vector<float> values(64 * 64, 1.0f);
  values[5 * 64 + 40] = 448;  // row 5, block 1: scale 2^0
  values[6 * 64 + 3] = NAN;   // row 6, block 0
  BlockScaleMapPanel map(&selection_);
  map.resize(600, 400);
  map.setSource(TensorSource(QStringLiteral("t"), 64, 64, values));
  map.show();
  QVERIFY(QTest::qWaitForWindowExposed(&map));
  map.grab();
  auto* cells = map.findChild<ScaleMapCells*>();
  QCOMPARE(cells->rows(), 64);
  QCOMPARE(cells->columns(), 2);
  QVERIFY(map.csv().contains(QStringLiteral("5,1,127,0\n")));
  QVERIFY(map.csv().contains(QStringLiteral("6,0,255,NaN\n")));
  QVERIFY(map.csv().contains(QStringLiteral("7,0,119,-8\n")));
  QVERIFY(cells->describe(5, 1).join(QLatin1Char(' ')).contains(QStringLiteral("2⁰")));
  const Lut colors = viridisLut(isDark(map.palette()));
  const QRgb lowest = colors[2], highest = colors[255];
  QCOMPARE(cells->cellColor(7, 0), lowest);
  QCOMPARE(cells->cellColor(5, 1), highest);
  QSignalSpy chosen(&map, &BlockScaleMapPanel::blockChosen);
  QTest::mouseClick(cells, Qt::LeftButton, {}, cells->cellRect(5, 1).center().toPoint());
  QCOMPARE(chosen.count(), 1);
  QCOMPARE(chosen[0][0].value<std::size_t>(), std::size_t(5));
  QCOMPARE(chosen[0][1].value<std::size_t>(), std::size_t(1));
  map.setFormat(mx_format(ElementFormat::e4m3), BlockAxis::column);
  map.grab();
  QCOMPARE(cells->rows(), 2);
  QCOMPARE(cells->columns(), 64);
  QVERIFY(map.csv().contains(QStringLiteral("0,40,127,0\n")));
  std::ranges::fill(values, 0.01f);
  values[0] = 0.05f;
  map.setSource(TensorSource(QStringLiteral("small"), 64, 64, values));
  map.grab();
  QCOMPARE(cells->cellColor(1, 5), lowest);  // the colors span the range of these scales
  QCOMPARE(cells->cellColor(0, 0), highest);
}

void MicroscopeTest::mapThinsHugeTensors() {
  BlockScaleMapPanel map(&selection_);
  map.resize(500, 300);
  map.setSource(TensorSource(QStringLiteral("t"), 3000, 4096, std::vector<float>(3000 * 4096, 1.0f)));
  map.show();
  QVERIFY(QTest::qWaitForWindowExposed(&map));
  map.grab();
  auto* cells = map.findChild<ScaleMapCells*>();
  QVERIFY(cells->rows() <= cells->height());
  for (int i = 0; i < 12; ++i) QTest::keyClick(cells, Qt::Key_Plus);
  map.grab();
  QVERIFY(cells->rows() < 150);
  for (const BlockAxis axis : {BlockAxis::column, BlockAxis::row}) {
    map.setFormat(mx_format(ElementFormat::e4m3), axis);
    map.grab();
    QVERIFY(cells->columns() <= cells->width());
  }
}

void MicroscopeTest::whatIfAgreesAndAppliesAChoice() {
  WhatIfPanel strip(&selection_);
  strip.resize(600, 400);
  strip.show();
  QVERIFY(QTest::qWaitForWindowExposed(&strip));
  const std::vector<float> values = structured(128, 256);
  auto* table = strip.findChild<WhatIfTable*>();
  strip.setSource(TensorSource(QStringLiteral("old"), 128, 256, gaussian(128 * 256)));
  strip.setSource(TensorSource(QStringLiteral("new"), 128, 256, values));  // replaces the request for "old"
  QTRY_VERIFY_WITH_TIMEOUT(!table->rows().empty(), kWaitMs);
  QTest::qWait(50);  // the figures of "old" do not come later
  const OperandFormat format = mx_format(ElementFormat::e2m1, ScaleRule::rceil, 64);
  QuantSums sums;
  std::vector<float> out(values.size());
  quantize_operand({{values.data(), 128, 256, 256}, format, BlockAxis::column, {}, &sums}, {out.data(), 128, 256});
  const auto& row = table->rows()[std::size_t(what_if_index(format, BlockAxis::column))];
  QVERIFY(std::fabs(row.sums.sqnr_db() - sums.sqnr_db()) < 0.001);
  QSignalSpy chosen(&strip, &WhatIfPanel::chosen);
  strip.setChoice(mx_format(ElementFormat::e4m3), BlockAxis::column);
  QTest::mouseClick(table, Qt::LeftButton, {}, table->cellRect(int(ElementFormat::e2m1), 3).center());
  QCOMPARE(chosen.count(), 1);
  QCOMPARE(chosen[0][0].value<OperandFormat>().block, 64);
  QCOMPARE(chosen[0][1].value<BlockAxis>(), BlockAxis::column);
  QTest::keyClick(table, Qt::Key_Left);
  QCOMPARE(chosen[1][0].value<OperandFormat>().block, 32);
  QCOMPARE(strip.csv().count(QLatin1Char('\n')),
           1 + 2 * int(kWhatIfBlocks.size()) * kNumElementFormats * kWhatIfRules + 2 * kWhatIfSchemes);
}

void MicroscopeTest::formatsAreNamedAsWhatTheyAre() {
  OperandFormat format;
  format.scheme = QuantScheme::mx;
  format.element = ElementFormat::e2m1;
  QCOMPARE(operandFormatLabel(format), QStringLiteral("MXFP4 E2M1, RCEIL, blocks of 32"));
  format.block = 16;
  QCOMPARE(operandFormatLabel(format), QStringLiteral("E2M1, RCEIL, blocks of 16"));
  format.block = 32;
  format.element = ElementFormat::int8;
  QCOMPARE(operandFormatLabel(format), QStringLiteral("MXINT8, RCEIL, blocks of 32"));
  format = {.scheme = QuantScheme::fp8, .granularity = ScaleGranularity::block_1x128};
  QCOMPARE(operandFormatLabel(format), QStringLiteral("FP8 E4M3, blocks of 1 × 128"));
  QSet<QString> labels;
  for (const NamedFormat& named : named_formats()) {
    if (!is_scaled(named.format)) continue;
    QVERIFY2(blockFormatAt(blockFormatIndex(named.format)) == named.format, named.name);
    labels << shortFormatLabel(named.format);
  }
  QComboBox formats;
  fillBlockFormats(&formats);
  QCOMPARE(int(labels.size()), formats.count());
  QCOMPARE(withFormatLabels("5 % of x become 0 in mxfp4_e2m1_rceil, of dY in nvfp4"),
           QString("5 % of x become 0 in MXFP4 E2M1, of dY in NVFP4 E2M1"));
  QCOMPARE(withFormatLabels("stored in fp7_x"), QString("stored in fp7_x"));
}

void MicroscopeTest::theErrorsOfANarrowTableAreNotCut() {
  BlockMicroscopePanel panel(&selection_);
  panel.resize(1000, 420);
  panel.show();
  const auto* table = panel.findChild<QTableView*>();
  QTRY_VERIFY(table->viewport()->width() > 100);
  const auto end_of_error = [&] {
    return table->columnViewportPosition(BlockModel::kError) + table->columnWidth(BlockModel::kError);
  };
  QTRY_VERIFY(end_of_error() <= table->viewport()->width());
  panel.resize(1900, 420);
  QTRY_VERIFY(!table->isColumnHidden(BlockModel::kScaled) && !table->isColumnHidden(BlockModel::kDecoded));
}

// The help states how much of amax FLOOR can cut off. The test computes it with blocks of one value.
void MicroscopeTest::helpSaysWhatFloorCutsInEveryElement() {
  const QString help = BlockMicroscopePanel(&selection_).explain();
  const auto cut_of = [](const OperandFormat& format) {
    double cut = 0;
    for (int step = 1; step <= 4096; ++step) {  // values from 1 to just below 2
      const std::vector<float> block{std::nextafter(1 + static_cast<float>(step) / 4096, 0.0f)};
      const BlockAnatomy anatomy = block_anatomy(format, block, 0, 4000);
      if (anatomy.elements[0].clipped)
        cut = std::max(cut, 1 - static_cast<double>(anatomy.elements[0].dequantized) / static_cast<double>(block[0]));
    }
    return cut;
  };
  for (const ElementFormat element : kEveryFormat) {
    const double cut = cut_of(mx_format(element, ScaleRule::floor, 1));
    const QString share = QStringLiteral("1/%1").arg(std::lround(1 / cut)), name = elementFormatLabel(element);
    QVERIFY2(help.contains(QRegularExpression(share + QStringLiteral(" in [^/.]*\\b") + name)),
             qPrintable(share + name));
    QVERIFY(cut_of(mx_format(element, ScaleRule::even, 1)) < cut);
    QCOMPARE(cut_of(mx_format(element, ScaleRule::rceil, 1)), 0.0);
    QCOMPARE(cut_of(mx_format(element, ScaleRule::ceil, 1)), 0.0);
  }
  QCOMPARE(std::lround(1 / cut_of(kNvfp4Format)), 17L);
  QVERIFY(help.contains(QStringLiteral("1/17")));
}

// A short line keeps the values that become zero: the more there are, the less a high SQNR says.
void MicroscopeTest::everyFormOfTheAnswerCountsTheLostValues() {
  Answering<BlockMicroscopePanel> microscope(&selection_);
  std::vector<float> values(32, 0.5f);
  values[5] = 300;
  microscope.setBlock({QStringLiteral("row 0"), QStringLiteral("test")}, values, mx_format(ElementFormat::e2m1),
                      BlockAxis::row);
  QCOMPARE(microscope.block().sums.underflow, std::uint64_t(31));
  QVERIFY(microscope.answers().size() > 1);
  for (const QString& answer : microscope.answers())
    QVERIFY2(QRegularExpression("E2M1 \\S+ dB, 31 to zero").match(answer).hasMatch(), qPrintable(answer));
}

void MicroscopeTest::whatIfSaysWhatAnotherFormatWouldKeep() {
  WhatIfPanel strip(&selection_);
  QVERIFY(strip.answerText().isEmpty());
  strip.setSource(TensorSource(QStringLiteral("t"), 64, 256, gaussian(64 * 256)));
  QTRY_VERIFY_WITH_TIMEOUT(!strip.tree()->rows().empty(), kWaitMs);
  const auto sqnr = [&](ElementFormat element) { return strip.tree()->sumsOf(element, BlockAxis::row)->sqnr_db(); };
  const double sqnr_e4m3 = sqnr(ElementFormat::e4m3);
  const QString expected = QStringLiteral("; %1 dB higher in INT8, %2 dB lower in E2M1")
                               .arg(sqnr(ElementFormat::int8) - sqnr_e4m3, 0, 'f', 1)
                               .arg(sqnr_e4m3 - sqnr(ElementFormat::e2m1), 0, 'f', 1);
  const QString figures = QStringLiteral("SQNR %1 dB, flushed to zero: ").arg(sqnr_e4m3, 0, 'f', 1);
  QVERIFY2(strip.answerText().startsWith(figures) && strip.answerText().contains(expected),
           qPrintable(strip.answerText()));
  strip.setChoice(mx_format(ElementFormat::int8), BlockAxis::row);
  QVERIFY2(strip.answerText().contains(QStringLiteral("; no other format has a higher SQNR")),
           qPrintable(strip.answerText()));
  // With one outlier column in 32, blocks down columns separate it from the others.
  std::vector<float> loud = gaussian(128 * 256);
  for (std::size_t i = 0; i < loud.size(); i += 32) loud[i] *= 16;
  strip.setSource(TensorSource(QStringLiteral("loud"), 128, 256, loud));
  QTRY_VERIFY_WITH_TIMEOUT(!strip.tree()->rows().empty(), kWaitMs);
  QVERIFY2(strip.answerText().contains(QStringLiteral("dB higher with blocks down columns")),
           qPrintable(strip.answerText()));
}

void MicroscopeTest::mapNamesOutlierChannels() {
  BlockScaleMapPanel map(&selection_);
  map.resize(600, 400);
  map.show();
  QVERIFY(QTest::qWaitForWindowExposed(&map));
  std::vector<float> values = gaussian(64 * 512);
  for (std::size_t row = 0; row < 64; ++row)
    for (const std::size_t column : {70, 200, 400}) values[row * 512 + column] = 60;
  map.setSource(TensorSource(QStringLiteral("t"), 64, 512, values));
  map.grab();
  QCOMPARE(map.answerText(), QStringLiteral("Outlier channels in blocks 2, 6 and 12"));
  map.setFormat(mx_format(ElementFormat::e4m3), BlockAxis::column);
  map.grab();
  QCOMPARE(map.answerText(), QStringLiteral("Outlier channels 70, 200 and 400"));
  map.setSource(TensorSource(QStringLiteral("even"), 64, 512, gaussian(64 * 512)));
  map.grab();
  QVERIFY2(map.answerText().startsWith(QStringLiteral("No outlier channels")), qPrintable(map.answerText()));
}

void MicroscopeTest::cardsLeadFromTheLargestValueToItsCode() {
  std::vector<float> values(32, 0.5f);
  values[20] = -2.644432f;
  const auto cards = blockCards(block_anatomy(mx_format(ElementFormat::e4m3), values));
  QStringList labels, shown;
  for (const BlockCard& card : cards) {
    labels << card.label;
    shown << card.value;
  }
  QCOMPARE(labels, (QStringList{"Largest value", "Divided by 448", "Rounded up", "Scale byte", "Largest code"}));
  QCOMPARE(shown, (QStringList{"2.644432", "0.005903", QString::fromUtf8("2⁻⁷"), "120", "352"}));
  QVERIFY(cards.front().notes.front().startsWith(QStringLiteral("element 20")));
  QVERIFY(cards.back().notes.front().contains(QStringLiteral("338.5")));
  for (const OperandFormat& format :
       {mx_format(ElementFormat::e4m3, ScaleRule::floor, 32), kNvfp4Format, fp8_format(ScaleGranularity::tensor)})
    QCOMPARE(blockCards(block_anatomy(format, values, 0, 4)).size(), std::size_t(5));
  values[20] = 0.5f;
  for (float& value : values) value *= 1e-3f;
  QCOMPARE(blockCards(block_anatomy(mx_format(ElementFormat::e4m3), values))[1].value,
           QString::fromUtf8("1.116 × 10⁻⁶"));
  values[3] = NAN;
  QCOMPARE(blockCards(block_anatomy(mx_format(ElementFormat::e4m3), values)).front().value, QStringLiteral("NaN"));
}

void MicroscopeTest::anExampleHasABlockOfItsFormat() {
  BlockMicroscopePanel panel(&selection_);
  const auto amax_at = [&] { return panel.block().amax_at; };
  QCOMPARE(panel.block().elements.size(), std::size_t(32));
  const int largest = amax_at();
  QVERIFY(largest >= 16);
  panel.setFormat(kNvfp4Format);
  QCOMPARE(panel.block().elements.size(), std::size_t(16));
  QVERIFY(amax_at() < 16);
  // The tensor has all 32 values, the largest 2.644432: 1.552666 / 6 / (2.644432 / (448 x 6)) = 263, in E4M3 256.
  QCOMPARE(panel.block().amax, 1.552666f);
  QCOMPARE(int(panel.block().scale.code), 0x78);
  // The next block has the other 16 values, among them the largest; a chosen element stays chosen in another format.
  control<QAbstractButton>(&panel, "Next block")->click();
  QCOMPARE(amax_at(), largest - 16);
  QVERIFY2(panel.caption().contains("block 2 of 2"), qPrintable(panel.caption()));
  panel.selectElement(largest - 16);
  panel.setFormat(mx_format(ElementFormat::e2m1));
  QCOMPARE(panel.findChild<QTableView*>()->currentIndex().row(), largest);
  panel.setFormat(kNvfp4Format);
  QCOMPARE(panel.findChild<QTableView*>()->currentIndex().row(), largest - 16);
  panel.selectElement(0);
  control<QAbstractButton>(&panel, "Previous block")->click();
  panel.editValue(0, 100);  // stays with the next format
  panel.setFormat(mx_format(ElementFormat::e2m1));
  QCOMPARE(panel.block().elements.size(), std::size_t(32));
  QCOMPARE(amax_at(), 0);
  panel.editValue(0, 0);
  QCOMPARE(amax_at(), largest);
}

SCREEN_TEST(MicroscopeTest)
#include "qt_microscope.moc"
