// Opens a block of an operand from its cell in the panel Quantization error, with mouse events and a model in training.
#include <QApplication>
#include <QComboBox>
#include <QFile>
#include <QPushButton>
#include <QSettings>
#include <QSignalSpy>
#include <QStandardItemModel>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <algorithm>
#include <cmath>
#include <span>

#include "app/actions/capture_actions.h"
#include "app/actions/file_actions.h"
#include "app/actions/run_control.h"
#include "app/window/main_window.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/config/config_toml.h"
#include "core/files/text/text_escape.h"
#include "tests/support/screen_test.h"
#include "tests/support/takes_keys.h"
#include "widgets/microscaling/block_microscope_panel.h"
#include "widgets/microscaling/block_scale_map_panel.h"
#include "widgets/microscaling/block_scales_panel.h"
#include "widgets/microscaling/capture_bar.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensor_verdict.h"
#include "widgets/microscaling/tensors_panel.h"
#include "widgets/microscaling/what_if_panel.h"
#include "widgets/overview/findings_panel.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/plots/matrix_plot.h"

using namespace moescope;

namespace {

RunConfig quantizedNano() {
  RunConfig config = load_preset("nano").config;
  for (Recipe* recipe :
       {&config.precision.experts, &config.precision.attention, &config.precision.dense_ffn, &config.precision.head})
    *recipe = Recipe::mxfp8_rceil;
  return config;
}

// A shown window with a paused run.
struct CaptureWindow {
  MainWindow window;

  explicit CaptureWindow(const RunConfig& config = quantizedNano(), const QSize& size = {1280, 800}) : window(false) {
    window.runControl()->setRecorded(false);
    window.resize(size);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.runControl()->start(config, RunControl::Start::paused);
    if (opened.isEmpty() && !opened.wait(kWaitMs)) qFatal("no run");
    QVERIFY(takesKeys(&window));
  }
  LiveRuns* live() { return window.session()->live(); }
  MicroscalingWorkspace* page() { return window.workspaces()->microscaling(); }
  TensorLab* tensors() { return page()->tensorLab(); }
  QString bar() { return tensors()->captureBar()->text(); }
  QuantizationErrorPanel* matrix() { return window.workspaces()->overview()->findChild<QuantizationErrorPanel*>(); }
  void trainTo(std::int64_t step) {
    live()->run_until(step);
    QTRY_VERIFY_WITH_TIMEOUT(!live()->status().running && live()->status().step == step, kWaitMs);
    live()->flush();
    window.frameClock()->wake();
    QTRY_COMPARE_WITH_TIMEOUT(window.selection()->step(), step - 1, kWaitMs);
  }
  // Clicks on the cell of an operand in the Overview's matrix, after the choice of the operand's class of GEMMs.
  void click(const OperandPlace& place) {
    MatrixPlot* view = matrix()->findChild<MatrixPlot*>();
    view->grab();
    const auto frame = window.selection()->quantFrame();
    const auto layers = layersOf(*frame, place.gemm_class());
    const auto operands = operandsOf(*frame, place.gemm_class());
    OperandPlace anywhere = place;
    anywhere.layer = 0;
    const auto row = static_cast<int>(std::ranges::find(layers, place.layer) - layers.begin());
    const auto column = static_cast<int>(std::ranges::find(operands, anywhere) - operands.begin());
    QTest::mouseClick(view, Qt::LeftButton, {}, view->cellRect(row, column).center().toPoint());
  }
  void waitForCapture() { QTRY_VERIFY_WITH_TIMEOUT(bar().contains(QStringLiteral(" values")), kWaitMs); }
};

QComboBox* comboOf(QWidget* panel, const char* name) {
  for (QComboBox* box : panel->findChildren<QComboBox*>())
    if (box->accessibleName() == QLatin1String(name)) return box;
  return nullptr;
}

}  // namespace

class CaptureTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() {
    qputenv("XDG_DATA_HOME", home_.path().toUtf8());
    QCoreApplication::setApplicationName(QStringLiteral("moescope"));
    QSettings::setPath(QSettings::IniFormat, QSettings::UserScope, home_.path());
  }

  void aClickOnACellEndsInTheBlock() {
    CaptureWindow w;
    w.trainTo(3);
    w.window.workspaces()->bringUp(w.window.workspaces()->microscaling());
    // Errors, block scales and the microscope are shown together.
    QTRY_VERIFY(!w.page()->findChild<QuantizationErrorPanel*>()->visibleRegion().isEmpty());
    QVERIFY(!w.page()->findChild<BlockScalesPanel*>()->visibleRegion().isEmpty());
    QVERIFY(!w.page()->findChild<BlockMicroscopePanel*>()->visibleRegion().isEmpty());
    w.window.workspaces()->bringUp("overview");
    const OperandPlace place{1, Gemm::expert_w1, OperandRole::dy, Direction::dgrad};
    w.click(place);
    QCOMPARE(w.window.workspaces()->current(), w.window.workspaces()->microscaling());
    w.waitForCapture();
    const auto captured = w.tensors()->captured();
    QVERIFY(captured && captured->place == place && !captured->ahead);
    QCOMPARE(captured->step, std::int64_t(2));           // the step of the page, computed again
    QCOMPARE(w.live()->status().step, std::int64_t(3));  // the capture takes no training step
    for (const char* part : {"layer 1, routed experts, w1 dY dgrad", "run nano", "step 2", "MXFP8 E4M3, RCEIL",
                             "the loss of the step equals the recorded one to the bit"})
      QVERIFY2(w.bar().contains(QLatin1String(part)), qPrintable(w.bar()));

    // The operand follows the page after further steps.
    QVERIFY(!w.tensors()->captureBar()->findChild<QPushButton*>("recompute")->isVisible());
    w.trainTo(6);
    QTRY_VERIFY_WITH_TIMEOUT(w.tensors()->captured()->step == 5, kWaitMs);
    const auto newest = w.tensors()->captured();
    QVERIFY(newest->place == place);

    auto* cells = w.page()->findChild<ScaleMapCells*>();
    cells->grab();
    QCOMPARE(cells->columns(), static_cast<int>((newest->cols + 31) / 32));
    QTest::mouseClick(cells, Qt::LeftButton, {}, cells->cellRect(7, 1).center().toPoint());
    const BlockAnatomy& block = w.page()->findChild<BlockMicroscopePanel*>()->block();
    for (std::size_t i = 0; i < 32; ++i) QCOMPARE(block.elements[i].value, newest->values[7 * newest->cols + 32 + i]);
    QCOMPARE(block.format.element, ElementFormat::e4m3);
  }

  void anOperandAndAPartOfItAreOpened() {
    CaptureWindow w;
    w.trainTo(3);
    auto* actions = w.window.findChild<CaptureActions*>();
    const OperandPlace place{1, Gemm::expert_w1, OperandRole::x, Direction::forward};
    actions->open(place, 2);
    QCOMPARE(w.window.workspaces()->current(), w.window.workspaces()->microscaling());
    w.waitForCapture();
    QVERIFY(w.tensors()->captured()->place == place);
    QCOMPARE(w.tensors()->captured()->step, std::int64_t(2));
    actions->openElement({.place = place, .row = 40, .column = 33}, 1);  // recomputed
    const auto captured = [&] { return w.tensors()->captured(); };
    QTRY_VERIFY_WITH_TIMEOUT(captured() && captured()->step == 1 && w.tensors()->showsBlockOf(40, 33), kWaitMs);
  }

  // A captured operand opens at the block that loses most; the buttons go on to blocks that lose less.
  void theFirstBlockLosesMost() {
    RunConfig config = quantizedNano();
    config.precision.experts = Recipe::mxfp4;
    CaptureWindow w(config);
    w.trainTo(3);
    w.click({1, Gemm::expert_w1, OperandRole::dy, Direction::dgrad});
    w.waitForCapture();
    auto* microscope = w.page()->findChild<BlockMicroscopePanel*>();
    const auto lost = [&] {
      const QuantSums& sums = microscope->block().sums;
      return static_cast<double>(sums.underflow + sums.clipped);
    };
    const double full_loss = lost();
    QVERIFY(full_loss > 0);
    double before = full_loss;
    for (int i = 0; i < 20; ++i) {
      emit microscope->stepped(1);
      QVERIFY(lost() <= before);
      before = lost();
    }
    for (int i = 0; i < 20; ++i) emit microscope->stepped(-1);
    QCOMPARE(lost(), full_loss);
  }

  // A recording has no tensors: a click on a cell computes its step again.
  void aCellOfARecordingIsComputedAgain() {
    QString recording;
    {
      CaptureWindow trained;
      trained.window.runControl()->setRecorded(true);
      QSignalSpy opened(trained.window.session(), &RunSession::opened);
      RunConfig config = quantizedNano();
      config.precision.experts = Recipe::mxfp4;
      trained.window.runControl()->start(config, RunControl::Start::paused);
      QVERIFY(opened.wait(kWaitMs));
      trained.trainTo(3);
      recording = trained.window.session()->path();
    }
    CaptureWindow w;
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.files()->open({recording});
    QVERIFY(opened.wait(kWaitMs));
    w.window.workspaces()->bringUp("overview");
    QTRY_VERIFY_WITH_TIMEOUT(w.window.selection()->quantFrame(), kWaitMs);
    const OperandPlace place{1, Gemm::expert_w1, OperandRole::dy, Direction::dgrad};
    w.click(place);
    const BlockAnatomy& example = w.page()->findChild<BlockMicroscopePanel*>()->block();
    QCOMPARE(example.format.element, ElementFormat::e2m1);  // the example has the format of the run
    w.waitForCapture();
    QVERIFY(w.tensors()->captured() && w.tensors()->captured()->place == place && w.tensors()->captured()->step == 2);
    QVERIFY(!w.tensors()->captureBar()->findChild<QPushButton*>("recompute")->isVisible());
  }

  // A log of another program keeps blocks that its training sampled.
  void blocksOfALogOpenInTheMicroscope() {
    std::vector<float> values(128);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 40.5f;
    const std::string text = base64url({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    QTemporaryDir folder;
    QFile log(folder.filePath("blocks.jsonl"));
    QVERIFY(log.open(QIODevice::WriteOnly));
    const auto quant = [](int layer) {
      return QByteArray("{\"layer\": ") + QByteArray::number(layer) +
             ", \"gemm_class\": \"experts\", \"weight\": \"w1\", \"operand\": \"x\", \"direction\": \"forward\", "
             "\"format\": \"mxfp8_e5m2_rceil\", \"sqnr_db\": 25.5}";
    };
    for (const char* step : {"0", "1"})
      log.write(QByteArray("{\"step\": ") + step +
                ", \"loss\": 2.5, \"tokens_per_expert\": [[5, 3], [4, 4]], \"quants\": [" + quant(1) + ", " + quant(0) +
                "], \"markers\": [{\"kind\": \"operands\", \"key\": \"layer 1, "
                "experts w1, x forward\", \"text\": \"{\\\"format\\\": \\\"mxfp8_e5m2_rceil\\\", \\\"what_if\\\": "
                "{\\\"nvfp4\\\": 20.25}, \\\"cols\\\": 64, \\\"dtype\\\": \\\"f32\\\", \\\"values\\\": \\\"" +
                QByteArray::fromStdString(text) + "\\\"}\"}]}\n");
    log.close();
    CaptureWindow w;
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.files()->open({log.fileName()});
    QVERIFY(opened.wait(kWaitMs));
    w.window.workspaces()->bringUp(w.page());
    QTRY_VERIFY_WITH_TIMEOUT(w.tensors()->captured(), kWaitMs);  // without a click, as for a run in training
    QCOMPARE(w.tensors()->captured()->values, values);
    QVERIFY2(w.bar().contains("SQNR of the whole operand: nvfp4 20.3 dB."), qPrintable(w.bar()));
    QCOMPARE(w.tensors()->microscope()->block().format.element, ElementFormat::e5m2);
    const QString caption = w.tensors()->microscope()->caption();
    QVERIFY2(caption.contains("from the log, rounded here, step 1, row "), qPrintable(caption));
    // Another operand is selected, of which the log has no blocks.
    w.window.selection()->setTensor({0, Gemm::expert_w1, OperandRole::x, Direction::forward});
    QVERIFY2(w.bar().contains("The log has no blocks of the selected operand (layer 0"), qPrintable(w.bar()));
    w.window.selection()->setTensor({1, Gemm::expert_w1, OperandRole::x, Direction::forward});
    QVERIFY2(w.bar().contains("which the training sampled"), qPrintable(w.bar()));
    w.window.workspaces()->bringUp("overview");
    QTRY_VERIFY_WITH_TIMEOUT(w.window.selection()->quantFrame(), kWaitMs);
    w.click({1, Gemm::expert_w1, OperandRole::x, Direction::forward});
    QVERIFY(w.bar().contains("which the training sampled"));
  }

  // showElement() counts rows from the first row of the expert. For a whole row (column -1) it shows the block of the
  // largest magnitude.
  void aPartOfAnOperandOpensInTheMicroscope() {
    CaptureWindow w;
    w.trainTo(2);
    const OperandPlace place{1, Gemm::expert_w2, OperandRole::x, Direction::forward};
    w.click(place);
    w.waitForCapture();
    const auto captured = w.tensors()->captured();
    const std::size_t row = captured->expert_rows[3] + 2;
    QVERIFY(row < captured->expert_rows[4]);
    const auto values = std::span(captured->values).subspan(row * captured->cols, captured->cols);
    w.tensors()->showElement({place, 3, 2, 40});
    QVERIFY(w.tensors()->showsBlockOf(row, 40));
    const auto magnitude = [](float value) { return std::fabs(value); };
    const auto largest_index =
        static_cast<std::size_t>(std::ranges::max_element(values, {}, magnitude) - values.begin());
    w.tensors()->showElement({place, 3, 2, -1});
    QVERIFY(w.tensors()->showsBlockOf(row, largest_index));
    w.tensors()->showElement({place, 3, 100000, 0});  // there is no such row
    QVERIFY(w.tensors()->showsBlockOf(row, largest_index));
  }

  void theFirstNaNOpensInTheMicroscope() {
    RunConfig config = load_preset("nano").config;
    config.optimizer.lr = 1;
    config.optimizer.weight_decay = 10;
    config.optimizer.schedule = Schedule::constant;
    CaptureWindow w(config);
    w.live()->run_until(400);
    QTRY_VERIFY_WITH_TIMEOUT(!w.live()->status().running, kWaitMs);
    w.live()->flush();
    w.window.frameClock()->wake();
    w.window.workspaces()->bringUp(w.window.workspaces()->router());
    const auto finding = [&]() -> FindingRow* {
      for (FindingRow* row : w.window.workspaces()->router()->findChildren<FindingRow*>())
        if (row->finding().kind == FindingKind::loss_not_finite && !row->finding().operands.empty()) return row;
      return nullptr;
    };
    QTRY_VERIFY_WITH_TIMEOUT(finding(), kWaitMs);
    const Finding found = finding()->finding();
    QVERIFY2(found.observation.find("the first such value is: layer") != std::string::npos, found.observation.c_str());
    const OperandElement element = found.operands.front();
    w.window.workspaces()->router()->findChild<FindingsPanel*>()->open(QString::fromStdString(finding_id(found)));
    for (QPushButton* button : finding()->findChildren<QPushButton*>())
      if (button->text() == QStringLiteral("Open ") + tensorName(element.place)) button->click();
    QCOMPARE(w.window.workspaces()->current(), w.window.workspaces()->microscaling());
    w.waitForCapture();
    QVERIFY(w.tensors()->captured()->place == element.place);
    QCOMPARE(w.tensors()->captured()->step, found.steps.first);
    QVERIFY(w.tensors()->showsBlockOf(static_cast<std::size_t>(element.row), static_cast<std::size_t>(element.column)));
    const BlockAnatomy& block = w.page()->findChild<BlockMicroscopePanel*>()->block();
    QVERIFY(std::ranges::any_of(block.elements, [](const ElementAnatomy& e) { return std::isnan(e.value); }));
  }

  void aRunningModelIsCapturedInItsStepAndAgainByKey() {
    CaptureWindow w;
    w.trainTo(2);
    w.live()->run();
    w.click({1, Gemm::expert_w2, OperandRole::x, Direction::forward});
    w.waitForCapture();
    const auto first = w.tensors()->captured();
    QVERIFY(!first->ahead);
    QTest::keyClick(&w.window, Qt::Key_T);
    QTRY_VERIFY_WITH_TIMEOUT(w.tensors()->captured() != first, kWaitMs);
    QVERIFY(w.tensors()->captured()->step > first->step);
    // The figures of the page are of the captured step.
    const auto same_step = [&] { return w.window.selection()->quantFrame()->step == w.tensors()->captured()->step; };
    QTRY_VERIFY_WITH_TIMEOUT(same_step(), kWaitMs);
    w.live()->pause();
  }

  // Blocks of an operand of wgrad run down the rows of one expert and end with its last row.
  void noBlockCrossesFromOneExpertIntoTheNext() {
    CaptureWindow w;
    w.trainTo(2);
    w.click({1, Gemm::expert_w1, OperandRole::x, Direction::wgrad});
    w.waitForCapture();
    const auto captured = w.tensors()->captured();
    QCOMPARE(w.page()->findChild<BlockScaleMapPanel*>()->axis(), BlockAxis::column);
    std::size_t blocks = 0;
    std::vector<std::size_t> first_row;
    for (std::size_t e = 0; e + 1 < captured->expert_rows.size(); ++e)
      for (std::size_t row = captured->expert_rows[e]; row < captured->expert_rows[e + 1]; row += 32, ++blocks)
        first_row.push_back(row);
    QCOMPARE(w.page()->findChild<BlockScaleMapPanel*>()->csv().count(QLatin1Char('\n')),
             static_cast<int>(1 + blocks * captured->cols));
    emit w.page()->findChild<BlockScaleMapPanel*>()->blockChosen(5, blocks - 1);
    QCOMPARE(w.page()->findChild<BlockMicroscopePanel*>()->block().elements[0].value,
             captured->values[first_row.back() * captured->cols + 5]);
    // The strip What if divides the tensor into the same blocks.
    QTRY_VERIFY_WITH_TIMEOUT(!w.tensors()->whatIf()->tree()->rows().empty(), kWaitMs);
    const auto& row = w.tensors()->whatIf()->tree()->rows()[std::size_t(what_if_index({}, BlockAxis::column))];
    const QuantSums sums = quantizer_sums(*captured);
    QCOMPARE(row.sums.e8m0_blocks, sums.e8m0_blocks);
    QVERIFY(std::fabs(row.sums.sqnr_db() - sums.sqnr_db()) < 1e-3);
  }

  // In NVFP4, as in the run, every expert is a tensor with its own scale.
  void nvfp4OpensInItsOwnBlocks() {
    RunConfig config = quantizedNano();
    config.precision.experts = Recipe::nvfp4;
    CaptureWindow w(config);
    w.trainTo(2);
    w.click({1, Gemm::expert_w1, OperandRole::x, Direction::wgrad});
    w.waitForCapture();
    QVERIFY2(w.bar().contains(QStringLiteral("NVFP4")), qPrintable(w.bar()));
    const auto captured = w.tensors()->captured();
    const CapturedOperand& all = *captured;
    std::vector<float> decoded(all.values.size());
    QuantSums sums;
    for (const QuantizerCall& call : all.calls)
      quantize_operand({{all.values.data() + call.first_row * all.cols, call.rows, all.cols, all.cols},
                        all.format,
                        all.axis,
                        call.key,
                        &sums},
                       {decoded.data() + call.first_row * all.cols, call.rows, all.cols});
    std::size_t blocks = 0;
    for (std::size_t e = 0; e + 1 < all.expert_rows.size(); ++e)
      blocks += (all.expert_rows[e + 1] - all.expert_rows[e] + 15) / 16;
    for (const std::size_t block : {std::size_t{0}, blocks / 2, blocks - 1}) {
      emit w.page()->findChild<BlockScaleMapPanel*>()->blockChosen(9, block);
      const BlockAnatomy& anatomy = w.page()->findChild<BlockMicroscopePanel*>()->block();
      QVERIFY(anatomy.format.scheme == QuantScheme::nvfp4);
      const TensorSource source(QStringLiteral("t"), captured);
      const auto rows = source.blockRows(block, 16);
      QCOMPARE(anatomy.elements.size(), rows.last - rows.first);
      for (std::size_t i = 0; i < anatomy.elements.size(); ++i)
        QCOMPARE(anatomy.elements[i].dequantized, decoded[(rows.first + i) * all.cols + 9]);
    }
    QTRY_VERIFY_WITH_TIMEOUT(!w.tensors()->whatIf()->tree()->schemes().empty(), kWaitMs);
    const WhatIfRow& row = w.tensors()->whatIf()->tree()->schemes()[kWhatIfSchemes];  // down columns
    QCOMPARE(row.sums.e8m0_blocks, sums.e8m0_blocks);
    QVERIFY(std::fabs(row.sums.sqnr_db() - sums.sqnr_db()) < 1e-6);
    // Clicks on the strip What if change to MX and back to NVFP4.
    auto* table = w.page()->findChild<WhatIfTable*>();
    QTest::mouseClick(table, Qt::LeftButton, {}, table->cellRect(0, 2).center());
    QVERIFY(w.page()->findChild<BlockMicroscopePanel*>()->block().format.scheme != QuantScheme::nvfp4);
    QCOMPARE(w.page()->findChild<BlockMicroscopePanel*>()->block().format.block, 32);
    QTest::mouseClick(table, Qt::LeftButton, {}, table->schemeRect(0).center());
    QVERIFY(w.page()->findChild<BlockMicroscopePanel*>()->block().format.scheme == QuantScheme::nvfp4);
    QCOMPARE(w.page()->findChild<BlockScaleMapPanel*>()->axis(), BlockAxis::column);
  }

  // FP8 of DeepSeek: weights in blocks of 128 x 128 and activations in blocks of 1 x 128, with FP32 scales.
  void fp8OpensUnderItsOwnScales() {
    RunConfig config = quantizedNano();
    config.precision.experts = Recipe::fp8_deepseek_128;
    CaptureWindow w(config);
    w.trainTo(2);
    for (const OperandRole operand : {OperandRole::w, OperandRole::x}) {
      w.click({1, Gemm::expert_w1, operand, Direction::forward});
      w.waitForCapture();
      const CapturedOperand& all = *w.tensors()->captured();
      QVERIFY(all.format.scheme == QuantScheme::fp8);
      std::vector<float> decoded(all.values.size());
      for (const QuantizerCall& call : all.calls)
        quantize_operand({{all.values.data() + call.first_row * all.cols, call.rows, all.cols, all.cols},
                          all.format,
                          all.axis,
                          call.key},
                         {decoded.data() + call.first_row * all.cols, call.rows, all.cols});
      for (const std::size_t row : {std::size_t{0}, all.rows / 2, all.rows - 1}) {
        emit w.page()->findChild<BlockScaleMapPanel*>()->blockChosen(row, 0);
        const BlockAnatomy& anatomy = w.page()->findChild<BlockMicroscopePanel*>()->block();
        QVERIFY(anatomy.format.granularity == all.format.granularity);
        for (std::size_t i = 0; i < anatomy.elements.size(); ++i)
          QCOMPARE(anatomy.elements[i].dequantized, decoded[row * all.cols + i]);
      }
    }
  }

  // The values of a rotated operand are shown as they are quantized; a button shows them before the rotation.
  void rotatedOperandsAreShownAsTheyAreQuantized() {
    RunConfig config = quantizedNano();
    config.precision.experts = Recipe::mxfp4;
    config.precision.hadamard = true;
    CaptureWindow w(config);
    w.trainTo(2);
    w.click({1, Gemm::expert_w1, OperandRole::w, Direction::forward});
    w.waitForCapture();
    const CapturedOperand& captured = *w.tensors()->captured();
    const CapturedOperand turned = rotated(captured);
    const auto shows = [&](const CapturedOperand& expected) {
      emit w.page()->findChild<BlockScaleMapPanel*>()->blockChosen(5, 1);
      const auto& elements = w.page()->findChild<BlockMicroscopePanel*>()->block().elements;
      for (std::size_t i = 0; i < elements.size(); ++i)
        if (elements[i].value != expected.values[5 * expected.cols + 32 + i]) return false;
      return !elements.empty();
    };
    QVERIFY(shows(turned));
    QVERIFY(!w.page()->findChild<BlockMicroscopePanel*>()->caption().contains("edited"));
    auto* button = w.tensors()->captureBar()->rotatedButton();
    QVERIFY(button->isVisible());
    QTest::mouseClick(button, Qt::LeftButton);
    QVERIFY(shows(captured));
    QTest::mouseClick(button, Qt::LeftButton);
    QVERIFY(shows(turned));
  }

  void thePayloadIsAClassOfItsOwn() {
    RunConfig config = quantizedNano();
    config.precision.payload = TokenPayload::mxfp8;
    CaptureWindow w(config);
    w.trainTo(2);
    OperandPlace place{1, Gemm::dispatch, OperandRole::x, Direction::forward};
    w.window.selection()->setTensor(place);
    w.matrix()->findChild<MatrixPlot*>()->grab();
    QCOMPARE(w.matrix()->findChild<MatrixPlot*>()->columns(), 4);
    w.click(place);
    w.waitForCapture();
    QCOMPARE(w.tensors()->captured()->rows, std::size_t(config.data.batch) * config.data.seq);  // a row per token
    place.gemm = Gemm::combine;
    w.window.workspaces()->bringUp(QStringLiteral("overview"));
    w.click(place);
    QTRY_VERIFY_WITH_TIMEOUT(w.bar().contains(QStringLiteral("BF16")), kWaitMs);
  }

  // Until the user selects an operand or the values of one are shown, the page shows the one that the line above the
  // panels names.
  void thePageShowsTheOperandOfTheVerdict() {
    CaptureWindow w;
    w.window.workspaces()->bringUp(w.page());
    for (const std::int64_t step : {2, 5}) {
      w.trainTo(step);
      if (w.tensors()->captured()) break;
      QTRY_COMPARE(w.window.selection()->tensor(), operandOfVerdict(*w.window.selection()).value());
    }
  }

  void valuesOfALiveRunStayWhenItIsPaused() {
    CaptureWindow w;
    w.trainTo(2);
    w.live()->run();
    QTRY_VERIFY_WITH_TIMEOUT(w.window.selection()->step() > 2, kWaitMs);
    w.window.workspaces()->bringUp(w.page());
    QTRY_VERIFY_WITH_TIMEOUT(w.tensors()->captured(), kWaitMs);
    const OperandPlace shown = w.tensors()->captured()->place;
    w.live()->pause();
    QTRY_VERIFY_WITH_TIMEOUT(!w.live()->status().running, kWaitMs);
    w.live()->flush();
    w.window.frameClock()->wake();
    QTRY_COMPARE_WITH_TIMEOUT(w.window.selection()->step(), w.live()->status().step - 1, kWaitMs);
    QCOMPARE(w.window.selection()->tensor(), shown);
    QVERIFY(w.tensors()->captured() && w.tensors()->captured()->place == shown);
  }

  // A captured operand belongs to its training, also if the next one has the same settings.
  void aNewTrainingShowsNoOperandOfTheOneBefore() {
    CaptureWindow w;
    w.trainTo(3);
    w.window.findChild<CaptureActions*>()->open({1, Gemm::expert_w1, OperandRole::x, Direction::forward}, 2);
    w.waitForCapture();
    QTRY_VERIFY_WITH_TIMEOUT(w.tensors()->whatIf()->table().rows() > 0, kWaitMs);
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.runControl()->start(quantizedNano(), RunControl::Start::paused);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QVERIFY(!w.tensors()->captured() && w.tensors()->tensorName().isEmpty());
    QVERIFY(w.tensors()->browser()->model().entries().empty());
    QCOMPARE(w.tensors()->whatIf()->table().rows(), std::size_t{0});
  }

  void everyClassHasItsMatrixAndItsScales() {
    CaptureWindow w;
    w.trainTo(2);
    QComboBox* classes = comboOf(w.matrix(), "Class of GEMMs");
    QVERIFY(classes);
    const auto choose = [&](GemmClass gemm_class) {
      classes->setCurrentIndex(static_cast<int>(gemm_class));
      emit classes->activated(static_cast<int>(gemm_class));
      w.matrix()->findChild<MatrixPlot*>()->grab();
    };
    const auto enabled = [&](GemmClass gemm_class) {
      return static_cast<QStandardItemModel*>(classes->model())->item(static_cast<int>(gemm_class))->isEnabled();
    };
    QVERIFY(enabled(GemmClass::attention) && enabled(GemmClass::head) && enabled(GemmClass::dense_ffn));
    QVERIFY(!enabled(GemmClass::router_gate));
    choose(GemmClass::attention);
    const RunConfig config = w.live()->config(0);
    QCOMPARE(w.matrix()->findChild<MatrixPlot*>()->rows(), config.model.n_layers);
    QCOMPARE(w.matrix()->findChild<MatrixPlot*>()->columns(), 4 * 6);  // wq wkv_a wkv_b wo
    QVERIFY(w.page()->findChild<BlockScalesPanel*>()->csv().contains(QStringLiteral("attention wq x forward")));
    choose(GemmClass::head);
    QCOMPARE(w.matrix()->findChild<MatrixPlot*>()->rows(), 1);
    QCOMPARE(w.window.selection()->tensor().layer, -1);
    w.click({-1, Gemm::output, OperandRole::w, Direction::dgrad});
    w.waitForCapture();
    QCOMPARE(w.tensors()->captured()->rows, std::size_t(config.model.vocab));
    QVERIFY(w.tensors()->captured()->expert_rows.empty());
  }
};

SCREEN_TEST(CaptureTest)
#include "qt_capture.moc"
