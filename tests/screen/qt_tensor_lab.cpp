// From a file of tensors to a block of a tensor, with mouse events.
#include <QSpinBox>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>

#include "app/workspaces/workspaces.h"
#include "core/files/tensors/open_tensors.h"
#include "core/files/tensors/safetensors.h"
#include "tests/support/controls.h"
#include "tests/support/made_tensors.h"
#include "tests/support/processor_time.h"
#include "tests/support/screen_test.h"
#include "tests/support/test_look.h"
#include "widgets/microscaling/block_microscope_panel.h"
#include "widgets/microscaling/block_scale_map_panel.h"
#include "widgets/microscaling/capture_bar.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensor_verdict.h"
#include "widgets/microscaling/tensors_panel.h"
#include "widgets/microscaling/what_if_panel.h"
#include "widgets/panel/format_text.h"

using namespace moescope;

namespace {

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

void writeTensors(const QString& path, const std::vector<std::pair<const char*, std::vector<float>>>& tensors) {
  SafetensorsWriter writer;
  for (const auto& [name, values] : tensors)
    writer.add(name, DType::f32, {values.size() / 256, 256}, std::as_bytes(std::span(values)));
  writer.write(path.toStdString());
}

}  // namespace

class TensorLabTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    useTestLook();
    QVERIFY(dir_.isValid());
    path_ = dir_.filePath(QStringLiteral("w.safetensors"));
    writeFile(path_);
  }
  void labLeadsFromFileToBlock();
  void nvfp4OfABlockHasTheScaleOfTheTensor();
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
  void verdictNamesTheTensorThatLosesMost();
  void verdictWaitsForTheTensors();

 private:
  QTemporaryDir dir_;
  QString path_;
  Selection selection_;
};

void TensorLabTest::labLeadsFromFileToBlock() {
  MicroscalingWorkspace page(&selection_);
  TensorLab& lab = *page.tensorLab();
  page.resize(1280, 800);
  page.show();
  page.showTensors();
  QVERIFY(QTest::qWaitForWindowExposed(&page));
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
  QTRY_VERIFY_WITH_TIMEOUT(sqnr() != QStringLiteral("-"), kWaitMs);
  QVERIFY2(std::fabs(sqnr().toDouble() - 31.5) < 1.5, qPrintable(sqnr()));
  for (const int row : {0, 6})  // a heading, and a tensor of integers
    QVERIFY(!list->model()->flags(list->model()->index(row, 0)).testFlag(Qt::ItemIsEnabled));
  list->selectRow(3);
  QCOMPARE(page.findChild<BlockScaleMapPanel*>()->findChild<QSpinBox*>()->maximum(), 3);
  page.findChild<BlockScaleMapPanel*>()->grab();
  auto* cells = page.findChild<ScaleMapCells*>();
  QTest::mouseClick(cells, Qt::LeftButton, {}, cells->cellRect(100, 4).center().toPoint());
  const std::vector<float> all = structured(512, 192);
  QCOMPARE(page.findChild<BlockMicroscopePanel*>()->block().elements[7].value, all[100 * 192 + 4 * 32 + 7]);
  page.findChild<BlockScaleMapPanel*>()->findChild<QSpinBox*>()->setValue(2);
  QCOMPARE(page.findChild<BlockMicroscopePanel*>()->block().elements[7].value, all[2 * 128 * 192 + 7]);
}

// The microscope's SQNR of 32 values in NVFP4 is that of these values in the quantized tensor, whose largest value
// sets the scales; it is another one if the 32 values are the whole tensor.
void TensorLabTest::nvfp4OfABlockHasTheScaleOfTheTensor() {
  MicroscalingWorkspace page(&selection_);
  page.resize(1280, 800);
  page.show();
  page.showTensors();
  QVERIFY(QTest::qWaitForWindowExposed(&page));
  QVERIFY(page.tensorLab()->openFile(path_));
  page.tensorLab()->browser()->findChild<QTableView*>()->selectRow(3);
  page.findChild<BlockScaleMapPanel*>()->grab();
  auto* cells = page.findChild<ScaleMapCells*>();
  QTest::mouseClick(cells, Qt::LeftButton, {}, cells->cellRect(100, 4).center().toPoint());
  const std::vector<float> x = structured(512, 192);  // the scale is that of an expert's 128 rows
  const auto sqnr = [&](std::size_t first, std::size_t rows, std::size_t cols, std::size_t block) {
    std::vector<float> q(rows * cols);
    quantize_operand({{x.data() + first, rows, cols, cols}, kNvfp4Format, BlockAxis::row, {}, nullptr},
                     {q.data(), rows, cols});
    double x2 = 0, err2 = 0;
    for (std::size_t i = block; i < block + 32; ++i) {
      const double value = x[first + i], error = value - q[i];
      x2 += value * value;
      err2 += error * error;
    }
    return "NVFP4 " + formatValue(10 * std::log10(x2 / err2), 3) + " dB";
  };
  constexpr std::size_t kBlock = 100 * 192 + 4 * 32;
  const QString answer = page.findChild<BlockMicroscopePanel*>()->answerText();
  QVERIFY2(answer.contains(sqnr(0, 128, 192, kBlock)), qPrintable(answer + " | " + sqnr(0, 128, 192, kBlock)));
  QVERIFY(sqnr(0, 128, 192, kBlock) != sqnr(kBlock, 1, 32, 0));
}

// The caption of an empty panel or of an example does not say "measured".
void TensorLabTest::whatIsNotThereHasNoKind() {
  MicroscalingWorkspace page(&selection_);
  TensorLab& lab = *page.tensorLab();
  for (const Panel* panel : page.panels())
    QVERIFY2(!panel->caption().contains(QStringLiteral("measured")), qPrintable(panel->caption()));
  lab.setFormat(kNvfp4Format, BlockAxis::row);  // has half the values of the example
  const QString caption = page.findChild<BlockMicroscopePanel*>()->caption();
  QVERIFY2(caption.startsWith(QStringLiteral("example, ")) && !caption.contains("edited"), qPrintable(caption));
  lab.setTensor(QStringLiteral("t"), 64, 64, gaussian(64 * 64));
  const auto measured = [](const Panel* panel) { return panel->caption().startsWith(QStringLiteral("measured here")); };
  QVERIFY(measured(lab.browser()));
  QVERIFY(measured(page.findChild<BlockScaleMapPanel*>()));
  QVERIFY(measured(page.findChild<BlockMicroscopePanel*>()));
  QTRY_VERIFY_WITH_TIMEOUT(measured(lab.whatIf()), kWaitMs);
}

void TensorLabTest::turningTheAxisKeepsTheElement() {
  MicroscalingWorkspace page(&selection_);
  TensorLab& lab = *page.tensorLab();
  page.resize(1280, 800);
  const std::vector<float> values = gaussian(100 * 70);
  lab.setTensor(QStringLiteral("t"), 100, 70, values);
  emit page.findChild<BlockScaleMapPanel*>()->blockChosen(40, 1);
  page.findChild<BlockMicroscopePanel*>()->selectElement(5);  // row 40, column 37
  emit page.findChild<BlockMicroscopePanel*>()->axisChosen(BlockAxis::column);
  QCOMPARE(page.findChild<BlockScaleMapPanel*>()->axis(), BlockAxis::column);
  for (std::size_t i = 0; i < 32; ++i)
    QCOMPARE(page.findChild<BlockMicroscopePanel*>()->block().elements[i].value, values[(32 + i) * 70 + 37]);
  lab.setFormat(mx_format(ElementFormat::e2m1, ScaleRule::even, 16), BlockAxis::row);
  QCOMPARE(page.findChild<BlockMicroscopePanel*>()->block().format.element, ElementFormat::e2m1);
  QCOMPARE(page.findChild<BlockMicroscopePanel*>()->block().elements.size(), std::size_t(16));
  QCOMPARE(page.findChild<BlockMicroscopePanel*>()->block().elements[5].value, values[40 * 70 + 37]);
}

void TensorLabTest::malformedFilesSayWhy() {
  MicroscalingWorkspace page(&selection_);
  TensorLab& lab = *page.tensorLab();
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

void TensorLabTest::aFileThatBecomesShorterSaysSo() {
  const QString path = dir_.filePath(QStringLiteral("shorter.safetensors"));
  SafetensorsWriter writer;
  const std::vector<float> values = gaussian(512 * 1024);
  writer.add("w", DType::f32, {512, 1024}, std::as_bytes(std::span(values)));
  writer.write(path.toStdString());
  MicroscalingWorkspace page(&selection_);
  TensorLab& lab = *page.tensorLab();
  page.resize(1280, 800);
  page.show();
  page.showTensors();
  QVERIFY(QTest::qWaitForWindowExposed(&page));
  QVERIFY(lab.openFile(path));
  std::filesystem::resize_file(path.toStdString(), 300000);
  emit page.findChild<BlockScaleMapPanel*>()->blockChosen(511, 7);
  QVERIFY(std::isnan(page.findChild<BlockMicroscopePanel*>()->block().elements[0].value));
  QVERIFY2(lab.captureBar()->text().contains(QStringLiteral("was truncated")), qPrintable(lab.captureBar()->text()));
  page.grab();
}

void TensorLabTest::codesWithScalesAreShownAsTheWeight() {
  MicroscalingWorkspace page(&selection_);
  TensorLab& lab = *page.tensorLab();
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
  emit page.findChild<BlockScaleMapPanel*>()->blockChosen(130, 4);
  QCOMPARE(page.findChild<BlockMicroscopePanel*>()->block().elements[5].value,
           expected.at("fp8_tiles.weight").floats(130 * 200 + 4 * 32 + 5, 1)[0]);
}

// A sparse file with one tensor of 5 GB. Only the values that are shown may be read.
void TensorLabTest::hugeFilesOpenAtOnce() {
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
  MicroscalingWorkspace page(&selection_);
  TensorLab& lab = *page.tensorLab();
  page.resize(1280, 800);
  const std::size_t before = residentPages();
  const double begin = processor_seconds();
  QVERIFY(lab.openFile(path));
  page.findChild<BlockScaleMapPanel*>()->grab();
  const double opened = processor_seconds() - begin;
  QTRY_VERIFY_WITH_TIMEOUT(!lab.whatIf()->tree()->rows().empty(), kWaitMs);
  lab.setFormat(mx_format(ElementFormat::e4m3), BlockAxis::column);
  page.findChild<BlockScaleMapPanel*>()->grab();
  const double grown = static_cast<double>(residentPages() - before) * 4096;
  qInfo("opened and drawn in %.2f s of a processor, %.0f MB resident", opened, grown / 1e6);
  QVERIFY(grown < 250e6);  // reading all of it would be 5.4 GB
  QVERIFY(opened < 5);     // about 0.1 s
}

void TensorLabTest::capturedTensorReplacesItsOlderSelf() {
  MicroscalingWorkspace page(&selection_);
  TensorLab& lab = *page.tensorLab();
  lab.setTensor(QStringLiteral("dY"), 64, 64, std::vector<float>(64 * 64, 1.0f));
  lab.setTensor(QStringLiteral("dY"), 64, 64, std::vector<float>(64 * 64, 2.0f));
  QCOMPARE(lab.browser()->model().entries().size(), std::size_t(1));
  QCOMPARE(page.findChild<BlockMicroscopePanel*>()->block().elements[0].value, 2.0f);
}

void TensorLabTest::samplesKeepBlocksWhole() {
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

// Blocks of FP8 equal the values of quantize_operand() on both axes and with every granularity of the scales.
void TensorLabTest::fp8BlocksAreTheQuantizers() {
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
        QuantSums expected, sums;
        quantize_operand({{x.data(), kRows, kCols, kCols}, choice, axis, {}, &expected},
                         {decoded.data(), kRows, kCols});
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
        QCOMPARE(sums.underflow, expected.underflow);
        QCOMPARE(sums.clipped, expected.clipped);
        QVERIFY(std::fabs(sums.sqnr_db() - expected.sqnr_db()) < 1e-4);
      }
}

// A click on a scheme in What if changes the format of Block microscope and Block scale map.
void TensorLabTest::fp8IsChosenFromStripAndList() {
  MicroscalingWorkspace page(&selection_);
  TensorLab& lab = *page.tensorLab();
  lab.setTensor(QStringLiteral("w"), 256, 192, structured(256, 192));
  page.show();
  page.showTensors();
  QVERIFY(QTest::qWaitForWindowExposed(&page));
  auto* table = page.findChild<WhatIfTable*>();
  QTRY_VERIFY_WITH_TIMEOUT(!table->schemes().empty(), kWaitMs);
  for (int scheme = 1; scheme < kWhatIfSchemes; ++scheme) {
    QTest::mouseClick(table, Qt::LeftButton, {}, table->schemeRect(scheme).center());
    const BlockAnatomy& block = page.findChild<BlockMicroscopePanel*>()->block();
    QVERIFY(block.format == table->schemes()[static_cast<std::size_t>(scheme)].format);
    QCOMPARE(block.elements.size(), std::size_t(128));
    QTRY_COMPARE(page.findChild<BlockScaleMapPanel*>()->csv().count('\n'), 1 + 256 * 2);
  }
  // With one scale for the tensor, all cells have the same color.
  auto* cells = page.findChild<ScaleMapCells*>();
  const auto oneColor = [&] {
    for (int row = 0; row < cells->rows(); ++row)
      for (int column = 0; column < cells->columns(); ++column)
        if (cells->cellColor(row, column) != cells->cellColor(0, 0)) return false;
    return cells->rows() > 0;
  };
  QTRY_VERIFY(oneColor());
}

void TensorLabTest::verdictNamesTheTensorThatLosesMost() {
  std::vector<float> wide = gaussian(64 * 256);  // in every second block, one value makes all others zero
  for (std::size_t i = 0; i < wide.size(); i += 64) wide[i] = 1e6f;
  const QString path = dir_.filePath(QStringLiteral("wide.safetensors"));
  writeTensors(path, {{"model.experts.0.w1", gaussian(64 * 256, 2)}, {"model.experts.45.w2", wide}});
  MicroscalingWorkspace page(&selection_);
  TensorLab& lab = *page.tensorLab();
  page.resize(1280, 800);
  page.show();
  page.showTensors();
  QVERIFY(QTest::qWaitForWindowExposed(&page));
  QVERIFY(!lab.verdict()->isVisible());
  QVERIFY(lab.openFile(path));
  QTRY_VERIFY_WITH_TIMEOUT(lab.verdict()->text().contains(QStringLiteral("all others keep")), kWaitMs);
  const QString text = lab.verdict()->text();
  QVERIFY2(text.startsWith(QStringLiteral("Unhealthy 45.w2 keeps ")), qPrintable(text));
  QVERIFY(text.contains(QStringLiteral(" in MXFP8 and loses ")));
  QCOMPARE(lab.tensorName(), QStringLiteral("model.experts.0.w1"));
  emit lab.verdict()->linkActivated();
  QCOMPARE(lab.tensorName(), QStringLiteral("model.experts.45.w2"));
  // The verdict is Healthy if no tensor loses more than usual in the format.
  writeTensors(path, {{"a", gaussian(64 * 256, 2)}, {"b", gaussian(64 * 256, 3)}});
  QVERIFY(lab.openFile(path));
  for (const ElementFormat element : {ElementFormat::e4m3, ElementFormat::e2m1}) {
    lab.setFormat(mx_format(element), BlockAxis::row);
    QTRY_VERIFY_WITH_TIMEOUT(lab.verdict()->text().startsWith(QStringLiteral("Healthy All 2 tensors keep ")), kWaitMs);
  }
  QVERIFY(explainTensorVerdict().contains(formatPercent(kAttentionLimits.to_zero)));
}

// There is no verdict before the first tensor is measured, and no "Healthy" before all tensors are measured.
void TensorLabTest::verdictWaitsForTheTensors() {
  TensorListModel tensors;
  std::vector<TensorEntry> entries(2);
  for (TensorEntry& entry : entries)
    entry.source = TensorSource(QStringLiteral("t"), 4, 32, std::vector<float>(128, 1));
  tensors.setEntries(entries);
  const OperandFormat format = mx_format(ElementFormat::e4m3);
  QVERIFY(tensorVerdict(tensors, format).sentence.isEmpty());
  tensors.setFigures(0, normalFigures(format), false);
  const VerdictLine::Judgement incomplete = tensorVerdict(tensors, format);
  QCOMPARE(incomplete.word, QStringLiteral("Too early to tell"));
  QCOMPARE(incomplete.sentence, QStringList{"1 of 2 tensors measured"});
  tensors.setFigures(1, normalFigures(format), false);
  QCOMPARE(tensorVerdict(tensors, format).sign, Sign::good);
  QuantSums broken = normalFigures(format);
  broken.e8m0_blocks[255] = 3;
  tensors.setFigures(1, broken, false);
  QCOMPARE(tensorVerdict(tensors, format).sign, Sign::bad);
  QCOMPARE(worstTensor(tensors, format), 1);
}

SCREEN_TEST(TensorLabTest)
#include "qt_tensor_lab.moc"
