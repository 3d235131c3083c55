// The way from a tensor down to the block, with real events. With MOESCOPE_PICTURES=DIR it also writes PNGs there.
#include <QApplication>
#include <QElapsedTimer>
#include <QLabel>
#include <QMouseEvent>
#include <QSignalSpy>
#include <QStyleFactory>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>

#include "app/workspaces/picture.h"
#include "core/tensors/open_tensors.h"
#include "core/tensors/safetensors.h"
#include "tests/support/controls.h"
#include "widgets/microscaling/block/block_bars.h"
#include "widgets/microscaling/block/block_cards.h"
#include "widgets/microscaling/block/block_presets.h"
#include "widgets/microscaling/block/block_table.h"
#include "widgets/microscaling/block/number_line.h"
#include "widgets/microscaling/block_microscope_panel.h"
#include "widgets/microscaling/block_scale_map_panel.h"
#include "widgets/microscaling/capture_bar.h"
#include "widgets/microscaling/number_formats_panel.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensor_verdict.h"
#include "widgets/microscaling/tensors_panel.h"
#include "widgets/microscaling/what_if_panel.h"
#include "widgets/panel/format_text.h"
#include "widgets/plots/color_scale.h"

using namespace moescope;

namespace {

constexpr int kPatience = 60000;  // ms, on a busy machine or under a sanitizer

std::vector<float> gaussian(std::size_t count, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(generator);
  return values;
}

// Gaussian with a gain per row and one loud column: what a weight looks like.
std::vector<float> structured(std::size_t rows, std::size_t cols) {
  std::vector<float> values = gaussian(rows * cols);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) {
      values[r * cols + c] *= static_cast<float>(0.02 * std::exp2(std::sin(r * 0.05) * 2));
      if (c == 77 % cols) values[r * cols + c] *= 100;
    }
  return values;
}

void writeFile(const QString& path) {
  SafetensorsWriter writer;
  const auto add = [&](const char* name, std::vector<std::size_t> shape, const std::vector<float>& values) {
    writer.add(name, DType::f32, std::move(shape), std::as_bytes(std::span(values)));
  };
  add("layers.0.attention.wq.weight", {256, 192}, structured(256, 192));
  add("layers.1.moe.experts.w1", {4, 128, 192}, structured(512, 192));
  add("layers.1.moe.router.bias", {64}, gaussian(64));
  const std::vector<std::int64_t> counts(8, 3);
  writer.add("tokens_per_expert", DType::i64, {8}, std::as_bytes(std::span(counts)));
  writer.write(path.toStdString());
}

void useTheme(bool dark) {
  QPalette palette = QApplication::style()->standardPalette();
  if (dark) {
    const QColor ground(0x1b, 0x1d, 0x21), text(0xe4, 0xe6, 0xea);
    for (const auto role : {QPalette::Base, QPalette::Window, QPalette::AlternateBase})
      palette.setColor(role, role == QPalette::Window ? QColor(0x24, 0x26, 0x2b) : ground);
    for (const auto role : {QPalette::Text, QPalette::WindowText, QPalette::ButtonText}) palette.setColor(role, text);
    palette.setColor(QPalette::Button, QColor(0x30, 0x33, 0x39));
    palette.setColor(QPalette::ToolTipBase, ground);
    palette.setColor(QPalette::ToolTipText, text);
    palette.setColor(QPalette::Highlight, QColor(0x2d, 0x6a, 0xa8));
    palette.setColor(QPalette::PlaceholderText, QColor(0x90, 0x94, 0x9a));
  }
  QApplication::setPalette(palette);
}

}  // namespace

class MicroscopeTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
    QVERIFY(dir_.isValid());
    path_ = dir_.filePath(QStringLiteral("w.safetensors"));
    writeFile(path_);
  }
  void editingAValueMovesTheScaleAndCanBeUndone();
  void presetsShowTheirLesson();
  void formatAndRoundingTakeEffectAtOnce();
  void theKeyNamesTheBitsOfTheFormat();
  void clickingABarSelectsTheRow();
  void numberLineZoomsAboutTheMouse();
  void explorerReadsCodesAndValuesBothWays();
  void mapShowsTheScaleOfEveryBlock();
  void mapThinsHugeTensors();
  void whatIfAgreesAndAppliesAChoice();
  void labLeadsFromFileToBlock();
  void whatIsNotThereHasNoKind();
  void turningTheAxisKeepsTheElement();
  void malformedFilesSayWhy();
  void aFileThatBecomesShorterSaysSo();
  void codesWithScalesAreShownAsTheWeight();
  void hugeFilesOpenAtOnce();
  void capturedTensorReplacesItsOlderSelf();
  void samplesKeepBlocksWhole();
  void fp8BlocksAreTheQuantizers();
  void fp8IsChosenFromStripAndList();
  void formatsAreNamedAsWhatTheyAre();
  void whatIfSaysWhatAnotherFormatWouldKeep();
  void mapNamesOutlierChannels();
  void cardsLeadFromTheLargestValueToItsCode();
  void verdictNamesTheTensorThatLosesMost();
  void verdictWaitsForTheTensors();
  void helpSaysWhatFloorCutsInEveryElement();
  void pictures();

 private:
  QTemporaryDir dir_;
  QString path_;
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
  QTRY_COMPARE(microscope.block().elements[3].value, 1000.0f);  // delegates commit from the event loop
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
  load("Outlier x300");
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
  const auto key = [&] {
    for (const QLabel* label : microscope.findChildren<QLabel*>())
      if (label->text().startsWith(QStringLiteral("Bits of a code"))) return label->text();
    return QString();
  };
  const auto names = [&](BitField field) {
    return key().contains(bitColor(field, isDark(microscope.palette())).name());
  };
  QVERIFY(names(BitField::sign) && names(BitField::exponent) && names(BitField::mantissa));
  microscope.setFormat(mx_format(ElementFormat::int8));
  QVERIFY(names(BitField::sign) && !names(BitField::exponent) && names(BitField::mantissa));
  const bool dark = isDark(microscope.palette());
  useTheme(!dark);
  QCoreApplication::processEvents();
  const bool renamed = isDark(microscope.palette()) != dark && names(BitField::sign);
  useTheme(dark);
  QVERIFY(renamed);
}

void MicroscopeTest::clickingABarSelectsTheRow() {
  BlockMicroscopePanel microscope(&selection_);
  microscope.resize(1000, 600);
  microscope.show();
  QVERIFY(QTest::qWaitForWindowExposed(&microscope));
  auto* bars = microscope.findChild<BlockBars*>();
  QTest::mouseClick(bars, Qt::LeftButton, {}, QPoint(bars->width() - 16, bars->height() / 2));
  QCOMPARE(microscope.findChild<QTableView*>()->currentIndex().row(), 31);
  QTest::keyClick(bars, Qt::Key_Left);
  QCOMPARE(microscope.findChild<QTableView*>()->currentIndex().row(), 30);
}

void MicroscopeTest::numberLineZoomsAboutTheMouse() {
  NumberLine line;
  line.resize(600, 120);
  line.setPoints({{QStringLiteral("E4M3"), representable_values(ElementFormat::e4m3)}});
  line.show();
  QVERIFY(QTest::qWaitForWindowExposed(&line));
  QVERIFY(line.low() < -448 && line.high() > 448);
  const double span = line.high() - line.low();
  const QPointF middle(300, 60);
  QWheelEvent wheel(middle, line.mapToGlobal(middle), {}, QPoint(0, 120), Qt::NoButton, Qt::NoModifier,
                    Qt::NoScrollPhase, false);
  QApplication::sendEvent(&line, &wheel);
  QVERIFY(std::fabs((line.high() - line.low()) / span - 0.8) < 0.01);
  QVERIFY(std::fabs(line.high() + line.low()) < 2);
  QTest::keyClick(&line, Qt::Key_Home);
  QCOMPARE(line.high() - line.low(), span);
  line.setLog(true);
  QVERIFY(line.high() > 448 && line.high() < 1024);
}

void MicroscopeTest::explorerReadsCodesAndValuesBothWays() {
  NumberFormatsPanel explorer(&selection_);
  explorer.resize(900, 500);
  explorer.show();
  QVERIFY(QTest::qWaitForWindowExposed(&explorer));
  auto* value = control<QLineEdit>(&explorer, "Value to encode");
  const auto enter = [&](const char* text) {
    value->setText(text);
    QTest::keyClick(value, Qt::Key_Return);
  };
  const auto code = [&] {
    return std::uint8_t(control<QLineEdit>(&explorer, "Code, hexadecimal")->text().toInt(nullptr, 16));
  };
  const auto setFormat = [&](int format) { control<QTableWidget>(&explorer, "Formats")->setCurrentCell(format, 0); };
  enter("0.3");
  QCOMPARE(decode(ElementFormat::e4m3, code()), 0.3125f);
  auto* bits = explorer.findChild<BitEditor*>();
  QTest::mouseClick(bits, Qt::LeftButton, {}, QPoint(8, bits->height() / 2));  // the sign
  QCOMPARE(decode(ElementFormat::e4m3, code()), -0.3125f);
  setFormat(int(ElementFormat::e2m1));  // keeps the value as far as it can
  QCOMPARE(decode(ElementFormat::e2m1, code()), -0.5f);
  enter("x");
  QVERIFY(std::ranges::any_of(explorer.findChildren<QLabel*>(), [](const QLabel* label) {
    return label->text().startsWith(QStringLiteral("'x' is not a number"));
  }));
  setFormat(NumberFormatsPanel::kE8m0);
  enter("0.3");
  QCOMPARE(int(code()), 126);
  QCOMPARE(explorer.csv().count(QLatin1Char('\n')), 257);
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
  QCOMPARE(cells->cellColor(1, 5), lowest);  // small scales have the whole of the colours, too
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
  strip.setSource(TensorSource(QStringLiteral("new"), 128, 256, values));  // only the last one counts
  QTRY_VERIFY_WITH_TIMEOUT(!table->rows().empty(), kPatience);
  QTest::qWait(50);
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

void MicroscopeTest::labLeadsFromFileToBlock() {
  TensorLab lab(&selection_);
  lab.resize(1280, 800);
  lab.show();
  QVERIFY(QTest::qWaitForWindowExposed(&lab));
  QVERIFY(lab.openFile(path_));
  auto* list = lab.browser()->findChild<QTableView*>();
  const auto text = [&](int row, int column) { return list->model()->index(row, column).data().toString(); };
  const auto sqnr = [&] { return text(1, TensorListModel::kSqnr); };
  QStringList names;
  for (int row = 0; row < list->model()->rowCount(); ++row) names << text(row, TensorListModel::kName);
  QCOMPARE(names,
           (QStringList{"0.attention", "wq", "1.moe.experts", "w1", "1.moe.router", "bias", "tokens_per_expert"}));
  QCOMPARE(list->model()->headerData(TensorListModel::kName, Qt::Horizontal).toString(), QStringLiteral("layers"));
  QCOMPARE(list->currentIndex().row(), 1);
  QTRY_VERIFY_WITH_TIMEOUT(sqnr() != QStringLiteral("-"), kPatience);
  QVERIFY2(std::fabs(sqnr().toDouble() - 31.5) < 1.5, qPrintable(sqnr()));
  for (const int row : {0, 6})  // a heading; integers
    QVERIFY(!list->model()->flags(list->model()->index(row, 0)).testFlag(Qt::ItemIsEnabled));
  list->selectRow(3);
  QCOMPARE(lab.findChild<BlockScaleMapPanel*>()->findChild<QSpinBox*>()->maximum(), 3);
  lab.findChild<BlockScaleMapPanel*>()->grab();
  auto* cells = lab.findChild<ScaleMapCells*>();
  QTest::mouseClick(cells, Qt::LeftButton, {}, cells->cellRect(100, 4).center().toPoint());
  const std::vector<float> all = structured(512, 192);
  QCOMPARE(lab.findChild<BlockMicroscopePanel*>()->block().elements[7].value, all[100 * 192 + 4 * 32 + 7]);
  lab.findChild<BlockScaleMapPanel*>()->findChild<QSpinBox*>()->setValue(2);
  QCOMPARE(lab.findChild<BlockMicroscopePanel*>()->block().elements[7].value, all[2 * 128 * 192 + 7]);
}

// Neither an empty panel nor a made-up example says that it was measured.
void MicroscopeTest::whatIsNotThereHasNoKind() {
  TensorLab lab(&selection_);
  for (const Panel* panel : lab.panels())
    QVERIFY2(!panel->caption().contains(QStringLiteral("measured")), qPrintable(panel->caption()));
  QVERIFY(lab.findChild<BlockMicroscopePanel*>()->caption().startsWith(QStringLiteral("example block")));
  lab.setTensor(QStringLiteral("t"), 64, 64, gaussian(64 * 64));
  const auto measured = [](const Panel* panel) { return panel->caption().startsWith(QStringLiteral("measured here")); };
  QVERIFY(measured(lab.browser()));
  QVERIFY(measured(lab.findChild<BlockScaleMapPanel*>()));
  QVERIFY(measured(lab.findChild<BlockMicroscopePanel*>()));
  QTRY_VERIFY_WITH_TIMEOUT(measured(lab.whatIf()), kPatience);
}

void MicroscopeTest::turningTheAxisKeepsTheElement() {
  TensorLab lab(&selection_);
  lab.resize(1280, 800);
  const std::vector<float> values = gaussian(100 * 70);
  lab.setTensor(QStringLiteral("t"), 100, 70, values);
  emit lab.findChild<BlockScaleMapPanel*>()->blockChosen(40, 1);
  lab.findChild<BlockMicroscopePanel*>()->selectElement(5);  // row 40, column 37
  emit lab.findChild<BlockMicroscopePanel*>()->axisChosen(BlockAxis::column);
  QCOMPARE(lab.findChild<BlockScaleMapPanel*>()->axis(), BlockAxis::column);
  for (std::size_t i = 0; i < 32; ++i)
    QCOMPARE(lab.findChild<BlockMicroscopePanel*>()->block().elements[i].value, values[(32 + i) * 70 + 37]);
  lab.setFormat(mx_format(ElementFormat::e2m1, ScaleRule::even, 16), BlockAxis::row);
  QCOMPARE(lab.findChild<BlockMicroscopePanel*>()->block().format.element, ElementFormat::e2m1);
  QCOMPARE(lab.findChild<BlockMicroscopePanel*>()->block().elements.size(), std::size_t(16));
  QCOMPARE(lab.findChild<BlockMicroscopePanel*>()->block().elements[5].value, values[40 * 70 + 37]);
}

void MicroscopeTest::malformedFilesSayWhy() {
  TensorLab lab(&selection_);
  lab.openFile(path_);
  const QString bad = dir_.filePath(QStringLiteral("bad.safetensors"));
  std::ofstream(bad.toStdString()) << "not a safetensors file at all";
  QVERIFY(!lab.openFile(bad));
  QVERIFY(lab.browser()->error().contains(QStringLiteral("header length")));
  QVERIFY(!lab.openFile(dir_.filePath(QStringLiteral("absent"))));
  QVERIFY(lab.browser()->error().contains(QStringLiteral("cannot be opened")));
  QCOMPARE(lab.browser()->findChild<QTableView*>()->model()->rowCount(), 0);
  QVERIFY(lab.openFile(path_));
  QVERIFY(lab.browser()->error().isEmpty());
}

void MicroscopeTest::aFileThatBecomesShorterSaysSo() {
  const QString path = dir_.filePath(QStringLiteral("shorter.safetensors"));
  SafetensorsWriter writer;
  const std::vector<float> values = gaussian(512 * 1024);
  writer.add("w", DType::f32, {512, 1024}, std::as_bytes(std::span(values)));
  writer.write(path.toStdString());
  TensorLab lab(&selection_);
  lab.resize(1280, 800);
  lab.show();
  QVERIFY(QTest::qWaitForWindowExposed(&lab));
  QVERIFY(lab.openFile(path));
  std::filesystem::resize_file(path.toStdString(), 300000);
  emit lab.findChild<BlockScaleMapPanel*>()->blockChosen(511, 7);
  QVERIFY(std::isnan(lab.findChild<BlockMicroscopePanel*>()->block().elements[0].value));
  QVERIFY2(lab.captureBar()->text().contains(QStringLiteral("was truncated")), qPrintable(lab.captureBar()->text()));
  lab.grab();
}

void MicroscopeTest::codesWithScalesAreShownAsTheWeight() {
  TensorLab lab(&selection_);
  QVERIFY(lab.openFile(QStringLiteral(MOESCOPE_TEST_DATA "/data/tensors/codes.safetensors")));
  const TensorListModel& model = lab.browser()->model();
  const auto row_of = [&](const char* name) {
    const auto found = std::ranges::find_if(
        model.entries(), [&](const TensorEntry& entry) { return entry.source.name() == QLatin1String(name); });
    return model.rowOf(static_cast<int>(found - model.entries().begin()));
  };
  const auto tool_tip = [&](int row) { return model.index(row, 0).data(Qt::ToolTipRole).toString(); };
  const int weight = row_of("fp8_tiles.weight"), codes = row_of("odd_shape.weight");
  QVERIFY(weight >= 0 && codes >= 0);
  QVERIFY2(tool_tip(weight).contains(QStringLiteral("F8_E4M3 x F8_E8M0 of 128 x 128")), qPrintable(tool_tip(weight)));
  QVERIFY(model.flags(model.index(weight, 0)) & Qt::ItemIsEnabled);
  QVERIFY(!(model.flags(model.index(codes, 0)) & Qt::ItemIsEnabled));
  QVERIFY(tool_tip(codes).contains(QStringLiteral("codes without their scales")));
  QVERIFY(lab.browser()->selectNamed(QStringLiteral("fp8_tiles.weight")));
  const TensorFile expected = open_tensors(MOESCOPE_TEST_DATA "/data/tensors/codes_expected.safetensors");
  emit lab.findChild<BlockScaleMapPanel*>()->blockChosen(130, 4);
  QCOMPARE(lab.findChild<BlockMicroscopePanel*>()->block().elements[5].value,
           expected.at("fp8_tiles.weight").floats(130 * 200 + 4 * 32 + 5, 1)[0]);
}

// 5 GB in one tensor, without blocks on the disk: only what is shown may be read.
void MicroscopeTest::hugeFilesOpenAtOnce() {
  constexpr std::size_t kRows = 16384, kCols = 163840;
  const QString path = dir_.filePath(QStringLiteral("huge.safetensors"));
  std::string header = R"({"w":{"dtype":"BF16","shape":[16384,163840],"data_offsets":[0,5368709120]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  {
    std::ofstream file(path.toStdString(), std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), 8).write(header.data(), std::streamsize(length));
  }
  std::filesystem::resize_file(path.toStdString(), 8 + length + kRows * kCols * 2);
  const auto residentPages = [] {
    std::size_t all = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident;
  };
  TensorLab lab(&selection_);
  lab.resize(1280, 800);
  const std::size_t before = residentPages();
  QElapsedTimer timer;
  timer.start();
  QVERIFY(lab.openFile(path));
  lab.findChild<BlockScaleMapPanel*>()->grab();
  const qint64 opened = timer.elapsed();
  QTRY_VERIFY_WITH_TIMEOUT(!lab.whatIf()->table()->rows().empty(), kPatience);
  lab.setFormat(mx_format(ElementFormat::e4m3), BlockAxis::column);
  lab.findChild<BlockScaleMapPanel*>()->grab();
  const double grown = static_cast<double>(residentPages() - before) * 4096;
  qInfo("opened and drawn in %lld ms, %.0f MB resident", static_cast<long long>(opened), grown / 1e6);
  QVERIFY(grown < 250e6);  // reading all of it would be 5.4 GB
  QVERIFY(opened < 5000);  // on a busy machine; some 0.1 s on a quiet one
}

void MicroscopeTest::capturedTensorReplacesItsOlderSelf() {
  TensorLab lab(&selection_);
  lab.setTensor(QStringLiteral("dY"), 64, 64, std::vector<float>(64 * 64, 1.0f));
  lab.setTensor(QStringLiteral("dY"), 64, 64, std::vector<float>(64 * 64, 2.0f));
  QCOMPARE(lab.browser()->model().entries().size(), std::size_t(1));
  QCOMPARE(lab.findChild<BlockMicroscopePanel*>()->block().elements[0].value, 2.0f);
}

void MicroscopeTest::samplesKeepBlocksWhole() {
  constexpr std::size_t kRows = 1600, kCols = 2100;
  std::vector<float> values(kRows * kCols);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const TensorSource source(QStringLiteral("t"), kRows, kCols, values);
  const TensorSource::Sample sample = source.sample(0, 512 * 1024);
  QVERIFY(!sample.whole);
  QCOMPARE(sample.rows * sample.cols, sample.values.size());
  QVERIFY(sample.values.size() <= 600 * 1024);
  for (std::size_t r = 0; r < sample.rows; ++r)
    for (std::size_t c = 0; c < sample.cols; ++c) {
      const auto at = static_cast<std::size_t>(sample.values[r * sample.cols + c]);
      QCOMPARE(at % kCols % 512, c % 512);
      QCOMPARE(at / kCols % 512, r % 512);
    }
  QVERIFY(source.sample(0, kRows * kCols).whole);
}

// Every block of FP8 on both axes is what the quantizer makes of the tensor, whatever shares its scale.
void MicroscopeTest::fp8BlocksAreTheQuantizers() {
  constexpr std::size_t kRows = 300, kCols = 200;  // the last blocks are short on both axes
  const std::vector<float> x = structured(kRows, kCols);
  const TensorSource source(QStringLiteral("t"), kRows, kCols, x);
  std::vector<float> decoded(x.size());
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column})
    for (const auto granularity : {ScaleGranularity::tensor, ScaleGranularity::row, ScaleGranularity::block_1x128,
                                   ScaleGranularity::block_128x128})
      for (const auto& [element, power_of_two] :
           {std::pair(ElementFormat::e4m3, false), std::pair(ElementFormat::e4m3, true),
            std::pair(ElementFormat::e5m2, false)}) {
        const OperandFormat choice = fp8_format(granularity, element, power_of_two);
        QuantSums wanted, sums;
        quantize_operand({{x.data(), kRows, kCols, kCols}, choice, axis, {}, &wanted}, {decoded.data(), kRows, kCols});
        const bool along_row = axis == BlockAxis::row;
        const std::size_t lines = along_row ? kRows : kCols, length = along_row ? kCols : kRows;
        for (std::size_t line = 0; line < lines; ++line)
          for (std::size_t index = 0; index * 128 < length; ++index) {
            const BlockAnatomy block = block_anatomy(choice, source.readBlock(0, along_row, line, index, 128), 0,
                                                     source.sharedAmax(0, choice, axis, line, index));
            for (std::size_t i = 0; i < block.elements.size(); ++i) {
              const std::size_t along = index * 128 + i;
              QCOMPARE(block.elements[i].dequantized, decoded[along_row ? line * kCols + along : along * kCols + line]);
            }
            sums.add(block.sums);
          }
        QCOMPARE(sums.underflow, wanted.underflow);
        QCOMPARE(sums.clipped, wanted.clipped);
        QVERIFY(std::fabs(sums.sqnr_db() - wanted.sqnr_db()) < 1e-4);
      }
}

// The scheme cells of What if and the microscope's list lead to them, and the map follows.
void MicroscopeTest::fp8IsChosenFromStripAndList() {
  TensorLab lab(&selection_);
  lab.setTensor(QStringLiteral("w"), 256, 192, structured(256, 192));
  lab.show();
  QVERIFY(QTest::qWaitForWindowExposed(&lab));
  auto* table = lab.findChild<WhatIfTable*>();
  QTRY_VERIFY_WITH_TIMEOUT(!table->schemes().empty(), kPatience);
  for (int scheme = 1; scheme < kWhatIfSchemes; ++scheme) {
    QTest::mouseClick(table, Qt::LeftButton, {}, table->schemeRect(scheme).center());
    const BlockAnatomy& block = lab.findChild<BlockMicroscopePanel*>()->block();
    QVERIFY(block.format == table->schemes()[static_cast<std::size_t>(scheme)].format);
    QCOMPARE(block.elements.size(), std::size_t(128));
    QTRY_COMPARE(lab.findChild<BlockScaleMapPanel*>()->csv().count('\n'), 1 + 256 * 2);
  }
  // One scale for the tensor is one colour.
  auto* cells = lab.findChild<ScaleMapCells*>();
  const auto oneColor = [&] {
    for (int row = 0; row < cells->rows(); ++row)
      for (int column = 0; column < cells->columns(); ++column)
        if (cells->cellColor(row, column) != cells->cellColor(0, 0)) return false;
    return cells->rows() > 0;
  };
  QTRY_VERIFY(oneColor());
}

void MicroscopeTest::formatsAreNamedAsWhatTheyAre() {
  OperandFormat format;
  format.scheme = QuantScheme::mx;
  format.element = ElementFormat::e2m1;
  QCOMPARE(operandFormatLabel(format), QStringLiteral("MXFP4 E2M1, RCEIL, blocks of 32"));
  format.block = 16;
  QCOMPARE(operandFormatLabel(format), QStringLiteral("E2M1, RCEIL, blocks of 16"));
  format.block = 32, format.element = ElementFormat::int8;
  QCOMPARE(operandFormatLabel(format), QStringLiteral("MXINT8, RCEIL, blocks of 32"));
}

// What the help says FLOOR can cut off amax, against blocks of one value each.
void MicroscopeTest::helpSaysWhatFloorCutsInEveryElement() {
  const QString help = BlockMicroscopePanel(&selection_).explain();
  const auto cut_of = [](const OperandFormat& format) {
    double cut = 0;
    for (int step = 1; step <= 4096; ++step) {  // up to just under 2
      const std::vector<float> block{std::nextafter(1 + static_cast<float>(step) / 4096, 0.0f)};
      const BlockAnatomy anatomy = block_anatomy(format, block, 0, 4000);
      if (anatomy.elements[0].clipped)
        cut = std::max(cut, 1 - static_cast<double>(anatomy.elements[0].dequantized) / static_cast<double>(block[0]));
    }
    return cut;
  };
  const std::pair<ElementFormat, const char*> kSaid[] = {{ElementFormat::e4m3, "1/8 in E4M3, E5M2 and E3M2"},
                                                         {ElementFormat::e5m2, "1/8 in E4M3, E5M2 and E3M2"},
                                                         {ElementFormat::e3m2, "1/8 in E4M3, E5M2 and E3M2"},
                                                         {ElementFormat::e2m3, "1/16 in E2M3"},
                                                         {ElementFormat::e2m1, "1/4 in E2M1"},
                                                         {ElementFormat::int8, "1/128 in INT8"}};
  for (const auto& [element, said] : kSaid) {
    const double cut = cut_of(mx_format(element, ScaleRule::floor, 1));
    const QString share = QStringLiteral("1/%1").arg(std::lround(1 / cut));
    QVERIFY2(QString::fromLatin1(said).startsWith(share + QLatin1Char(' ')), qPrintable(share));
    QVERIFY2(help.contains(QLatin1String(said)), said);
    QVERIFY(cut_of(mx_format(element, ScaleRule::even, 1)) < cut);
    QCOMPARE(cut_of(mx_format(element, ScaleRule::rceil, 1)), 0.0);
    QCOMPARE(cut_of(mx_format(element, ScaleRule::ceil, 1)), 0.0);
  }
  QCOMPARE(std::lround(1 / cut_of(kNvfp4Format)), 17L);
  QVERIFY(help.contains(QStringLiteral("1/17")));
}

void MicroscopeTest::whatIfSaysWhatAnotherFormatWouldKeep() {
  WhatIfPanel strip(&selection_);
  QVERIFY(strip.answerText().isEmpty());
  strip.setSource(TensorSource(QStringLiteral("t"), 64, 256, gaussian(64 * 256)));
  QTRY_VERIFY_WITH_TIMEOUT(!strip.table()->rows().empty(), kPatience);
  const auto sqnr = [&](ElementFormat element) { return strip.table()->sumsOf(element, BlockAxis::row)->sqnr_db(); };
  const double now = sqnr(ElementFormat::e4m3);
  const QString expected = QStringLiteral("INT8 would keep %1 dB more, E2M1 would lose %2")
                               .arg(sqnr(ElementFormat::int8) - now, 0, 'f', 1)
                               .arg(now - sqnr(ElementFormat::e2m1), 0, 'f', 1);
  QCOMPARE(strip.answerText(), expected);
  strip.setChoice(mx_format(ElementFormat::int8), BlockAxis::row);
  QVERIFY2(strip.answerText().startsWith(QStringLiteral("No other format keeps more")), qPrintable(strip.answerText()));
  // One loud column in 32: blocks down columns keep it from the others.
  std::vector<float> loud = gaussian(128 * 256);
  for (std::size_t i = 0; i < loud.size(); i += 32) loud[i] *= 16;
  strip.setSource(TensorSource(QStringLiteral("loud"), 128, 256, loud));
  QTRY_VERIFY_WITH_TIMEOUT(!strip.table()->rows().empty(), kPatience);
  QVERIFY2(strip.answerText().contains(QStringLiteral("blocks down columns would keep")),
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
  for (const BlockCard& card : cards) labels << card.label, shown << card.value;
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

namespace {

void writeTensors(const QString& path, const std::vector<std::pair<const char*, std::vector<float>>>& tensors) {
  SafetensorsWriter writer;
  for (const auto& [name, values] : tensors)
    writer.add(name, DType::f32, {values.size() / 256, 256}, std::as_bytes(std::span(values)));
  writer.write(path.toStdString());
}

}  // namespace

void MicroscopeTest::verdictNamesTheTensorThatLosesMost() {
  std::vector<float> wide = gaussian(64 * 256);  // one value of a block is so large that the others become zero
  for (std::size_t i = 0; i < wide.size(); i += 64) wide[i] = 1e6f;
  const QString path = dir_.filePath(QStringLiteral("wide.safetensors"));
  writeTensors(path, {{"model.experts.0.w1", gaussian(64 * 256, 2)}, {"model.experts.45.w2", wide}});
  TensorLab lab(&selection_);
  lab.resize(1280, 800);
  lab.show();
  QVERIFY(QTest::qWaitForWindowExposed(&lab));
  QVERIFY(!lab.verdict()->isVisible());
  QVERIFY(lab.openFile(path));
  QTRY_VERIFY_WITH_TIMEOUT(lab.verdict()->text().contains(QStringLiteral("all others keep")), kPatience);
  const QString text = lab.verdict()->text();
  QVERIFY2(text.startsWith(QStringLiteral("Unhealthy 45.w2 keeps ")), qPrintable(text));
  QVERIFY(text.contains(QStringLiteral(" in MXFP8 and loses ")));
  QCOMPARE(lab.tensorName(), QStringLiteral("model.experts.0.w1"));
  emit lab.verdict()->linkActivated();
  QCOMPARE(lab.tensorName(), QStringLiteral("model.experts.45.w2"));
  // Of a format in which no tensor loses more than the format itself costs.
  writeTensors(path, {{"a", gaussian(64 * 256, 2)}, {"b", gaussian(64 * 256, 3)}});
  QVERIFY(lab.openFile(path));
  for (const ElementFormat element : {ElementFormat::e4m3, ElementFormat::e2m1}) {
    lab.setFormat(mx_format(element), BlockAxis::row);
    QTRY_VERIFY_WITH_TIMEOUT(lab.verdict()->text().startsWith(QStringLiteral("Healthy All 2 tensors keep ")),
                             kPatience);
  }
  QVERIFY(explainTensorVerdict().contains(formatPercent(kAttentionLimits.to_zero)));
}

// Nothing is said of a file before a tensor is measured, and no "Healthy" before all are.
void MicroscopeTest::verdictWaitsForTheTensors() {
  TensorListModel tensors;
  std::vector<TensorEntry> entries(2);
  for (TensorEntry& entry : entries)
    entry.source = TensorSource(QStringLiteral("t"), 4, 32, std::vector<float>(128, 1));
  tensors.setEntries(entries);
  const OperandFormat format = mx_format(ElementFormat::e4m3);
  QVERIFY(tensorVerdict(tensors, format).sentence.isEmpty());
  tensors.setFigures(0, normalFigures(format), false);
  const VerdictLine::Judgement half = tensorVerdict(tensors, format);
  QCOMPARE(half.word, QStringLiteral("Too early to tell"));
  QCOMPARE(half.sentence, QStringList{"1 of 2 tensors measured"});
  tensors.setFigures(1, normalFigures(format), false);
  QCOMPARE(tensorVerdict(tensors, format).sign, Sign::good);
  QuantSums broken = normalFigures(format);
  broken.e8m0_blocks[255] = 3;
  tensors.setFigures(1, broken, false);
  QCOMPARE(tensorVerdict(tensors, format).sign, Sign::bad);
  QCOMPARE(worstTensor(tensors, format), 1);
}

void MicroscopeTest::pictures() {
  const QString to = qEnvironmentVariable("MOESCOPE_PICTURES");
  if (to.isEmpty()) QSKIP("set MOESCOPE_PICTURES to a directory");
  for (const bool dark : {true, false}) {
    useTheme(dark);
    for (const QSize size : {QSize(1280, 800), QSize(1920, 1080)}) {
      const QString tag = QStringLiteral("%1-%2.png").arg(dark ? "dark" : "light").arg(size.width());
      TensorLab lab(&selection_);
      lab.resize(size);
      lab.show();
      QVERIFY(QTest::qWaitForWindowExposed(&lab));
      lab.openFile(path_);
      QTRY_VERIFY_WITH_TIMEOUT(!lab.whatIf()->table()->rows().empty(), kPatience);
      const auto* list = lab.browser()->findChild<QTableView*>()->model();
      QTRY_VERIFY_WITH_TIMEOUT(list->index(3, TensorListModel::kSqnr).data().toString() != QStringLiteral("-"),
                               kPatience);
      emit lab.findChild<BlockScaleMapPanel*>()->blockChosen(40, 2);
      lab.findChild<BlockMicroscopePanel*>()->selectElement(13);
      QVERIFY(lab.grab().save(to + QStringLiteral("/lab-") + tag));
      lab.setFormat(mx_format(ElementFormat::e2m1, ScaleRule::floor, 32), BlockAxis::column);
      lab.whatIf()->findChildren<QComboBox*>().last()->setCurrentIndex(1);
      QTest::qWait(300);
      QVERIFY(lab.grab().save(to + QStringLiteral("/lab-fp4-") + tag));
      NumberFormatsPanel explorer(&selection_);
      explorer.resize(size / 2 + QSize(200, 50));
      choose(&explorer, "Second format on the number line", "with E5M2");
      auto* value = control<QLineEdit>(&explorer, "Value to encode");
      value->setText(QStringLiteral("0.3"));
      QTest::keyClick(value, Qt::Key_Return);
      explorer.findChild<QCheckBox*>()->setChecked(true);
      QVERIFY(explorer.grab().save(to + QStringLiteral("/formats-") + tag));
    }
  }
}

QTEST_MAIN(MicroscopeTest)
#include "qt_microscope.moc"
