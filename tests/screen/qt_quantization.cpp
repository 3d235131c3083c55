// Panels of the quantization of a run: Quantization error with the block scales, Operand costs.
#include <QTableView>
#include <QTest>
#include <map>
#include <set>

#include "app/workspaces/workspaces.h"
#include "tests/support/controls.h"
#include "tests/support/drawn_texts.h"
#include "tests/support/screen_test.h"
#include "tests/support/shown_panel.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/test_look.h"
#include "widgets/microscaling/block_scales_panel.h"
#include "widgets/microscaling/operand_costs_panel.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/panel/verdict_line.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/plots/time_heat_map.h"
#include "widgets/selection/compared_runs.h"

using namespace moescope;

class QuantizationTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useTestLook(); }

  void init() {
    run_ = std::make_unique<SyntheticRun>(SyntheticShape{});
    run_->append(20);
    selection_ = std::make_unique<Selection>();
    selection_->setHistories({run_->history()});
  }

  // MX stores scales as powers of two in a byte. Scales of NVFP4 and FP8 are counted by the power of two below them.
  void onlyScalesOfMxHaveAByte() {
    QStringList names{"e2m1"};
    for (const NamedFormat& named : named_formats())
      if (is_scaled(named.format)) names << QString::fromStdString(format_name(named.format));
    for (const QString& format : names) {
      QuantFrame quant;
      quant.layer = 1;
      quant.format = quant_format(format.toStdString());
      quant.sqnr_db = 20;
      quant.e8m0_blocks[125] = 2048;
      TelemetryFrame frame;
      frame.quants = {quant};
      RunInfo info;
      info.n_layers = 2;
      info.moe_layers = {1};
      info.n_experts = 8;
      info.top_k = 2;
      const auto history = std::make_shared<History>(info);
      history->append(std::make_shared<const TelemetryFrame>(frame));
      Selection selection;
      selection.setHistories({history});
      selection.setTensor(quant);
      BlockScalesPanel panel(&selection);
      const QStringList readout = panel.findChild<TimeHeatMap*>()->describe(125, 0);
      QCOMPARE(readout.first(), QStringLiteral("step 0, ") + (format.startsWith(QStringLiteral("mx"))
                                                                  ? QStringLiteral("scale 2⁻² (byte 125)")
                                                                  : QStringLiteral("scales from 2⁻² to under 2⁻¹")));
      QVERIFY(readout.last().contains(QStringLiteral("2,048 blocks")) ||
              readout.last().contains(QStringLiteral("2048 blocks")));
      QVERIFY2(panel.csv().contains(QStringLiteral(",%1,125,-2,2048").arg(format)), qPrintable(panel.csv()));
      QVERIFY(QuantizationErrorPanel(&selection).csv().contains(QStringLiteral(",%1,").arg(format)));
    }
  }

  void clickOnTheErrorMatrixChoosesTheTensorOfTheScales() {
    QuantizationErrorPanel panel(selection_.get());
    show(&panel, {800, 300});
    // Columns: w1 forward x w, w1 dgrad dy w, w1 wgrad x dy, then w3, then w2.
    QTest::mouseClick(panel.findChild<MatrixPlot*>(), Qt::LeftButton, {},
                      panel.findChild<MatrixPlot*>()->cellRect(2, 6 + 5).center().toPoint());
    QCOMPARE(selection_->layer(), 3);
    QCOMPARE(selection_->tensor(), (OperandPlace{3, Gemm::expert_w3, OperandRole::dy, Direction::wgrad}));
  }

  // The answer names the operand that loses most to zero, as the verdict does, and the one with the lowest SQNR.
  void theErrorMatrixSaysWhatTheFormatCosts() {
    QuantizationErrorPanel panel(selection_.get());
    show(&panel, {800, 300});
    const auto& quants = selection_->quantFrame()->quants;
    const QuantFrame* worst = nullptr;
    for (const QuantFrame& quant : quants)
      if (quant.gemm_class() == GemmClass::experts && (!worst || quant.sqnr_db < worst->sqnr_db)) worst = &quant;
    QVERIFY(worst);
    const QString answer = panel.answerText();
    QVERIFY2(answer.startsWith(QStringLiteral("What does the format cost? 8.00 % flushed to zero in layer 4, ")),
             qPrintable(answer));
    const QString name = QStringLiteral("; lowest SQNR %1 dB in layer %2, %3 %4")
                             .arg(formatValue(static_cast<double>(worst->sqnr_db), 3))
                             .arg(worst->layer)
                             .arg(QLatin1String(gemm_name(worst->gemm)), QLatin1String(operand_name(worst->operand)));
    QVERIFY2(answer.contains(name), qPrintable(answer + name));
    Selection none;
    QVERIFY(QuantizationErrorPanel(&none).answerText().isEmpty());
  }

  // Formats of several runs are side by side; a click on a row makes its run active.
  void severalRunsHaveARowEach() {
    SyntheticRun other(SyntheticShape{});
    other.append(20);
    Selection selection;
    selection.setHistories({run_->history(), other.history()});
    QuantizationErrorPanel panel(&selection);
    show(&panel, {800, 300});
    auto* matrix = panel.findChild<MatrixPlot*>();
    QCOMPARE(matrix->rows(), 2);
    float lowest = INFINITY;
    for (const QuantFrame& quant : selection.quantFrame()->quants)
      if (quant.gemm_class() == GemmClass::experts) lowest = std::min(lowest, quant.sqnr_db);
    const QString start =
        QString("What do the formats cost? Lowest SQNR, routed experts: A %1, B ").arg(formatValue(lowest, 3));
    QVERIFY2(panel.answerText().startsWith(start), qPrintable(panel.answerText()));
    QTest::mouseClick(matrix, Qt::LeftButton, {}, matrix->cellRect(1, 0).center().toPoint());
    QCOMPARE(selection.run(), 1);
    choose(&panel, "Rows", "by layer");
    show(&panel, {801, 300});
    QCOMPARE(matrix->rows(), to_int(selection.history()->info().moe_layers.size()));
  }

  // The line above the panels names the operand that loses the largest share to zero, whichever is selected, and its
  // link selects that operand.
  void theVerdictLeadsToTheOperandThatItNames() {
    MicroscalingWorkspace page(selection_.get());
    run_->append(120);
    selection_->setHistories({run_->history()});
    VerdictLine* line = page.tensorLab()->verdict();
    const auto frame = selection_->quantFrame();
    const float largest_share = std::ranges::max(frame->quants, {}, &QuantFrame::underflow).underflow;
    for (const QuantFrame& selected : frame->quants) {
      selection_->setTensor(selected);
      emit line->linkActivated();
      const OperandPlace& linked = selection_->tensor();
      QVERIFY2(line->text().contains(placeName(linked) + " loses 8.00 % of its values to zero"),
               qPrintable(line->text()));
      QCOMPARE(findTensor(frame.get(), linked)->underflow, largest_share);
    }
    // Of several runs the line names the judged one. It judges formats, and Compare the loss.
    SyntheticRun other(SyntheticShape{});
    other.append(20);
    selection_->setHistories({run_->history(), other.history()});
    for (int place = 0; place < 2; ++place) {
      selection_->setRun(place);
      QVERIFY2(line->text().startsWith(runLabel(*selection_, place) + ": "), qPrintable(line->text()));
      QVERIFY2(!line->text().contains("Healthy"), qPrintable(line->text()));
    }
  }

  // The names above the cells have one size of type in each line, for every width; all are long or all are short.
  void aHeaderRowHasOneTypeSize() {
    QuantizationErrorPanel panel(selection_.get());
    panel.setMinimumWidth(1);
    for (int width = 200; width < 1300; width += 30) {
      show(&panel, {width, 300});
      std::map<int, std::set<int>> heights;
      for (const DrawnText& drawn : textsDrawnBy(panel.findChild<MatrixPlot*>()))
        for (const char* name : {"forward", "fwd", "f", "dgrad", "d", "wgrad", "w", "w1", "w2", "w3"})
          if (drawn.text == QLatin1String(name) && drawn.place.bottom() < 80)
            heights[static_cast<int>(drawn.place.center().y())].insert(static_cast<int>(drawn.place.height()));
      for (const auto& [y, sizes] : heights)
        QVERIFY2(sizes.size() == 1, qPrintable(QString("%1 pixels wide, at %2").arg(width).arg(y)));
    }
  }

  // SQNR hides small values that become zero: the share has a mark of its own, which the legend explains.
  void valuesLostToZeroAreMarked() {
    const auto markedPixels = [](float underflow) {
      TelemetryFrame frame;
      QuantFrame quant;
      quant.layer = 1;
      quant.format = quant_format("mxfp8_e4m3_rceil");
      quant.sqnr_db = 31;
      quant.underflow = underflow;
      frame.quants = {quant};
      RunInfo info;
      info.n_layers = 2;
      info.moe_layers = {1};
      info.n_experts = 8;
      info.top_k = 2;
      const auto history = std::make_shared<History>(info);
      history->append(std::make_shared<const TelemetryFrame>(frame));
      Selection selection;
      selection.setHistories({history});
      selection.setTensor(quant);
      QuantizationErrorPanel panel(&selection);
      show(&panel, {800, 300});
      const QImage picture = panel.grab().toImage();
      int pixels = 0;
      for (int y = 0; y < picture.height(); ++y)
        for (int x = 0; x < picture.width(); ++x)
          pixels += picture.pixel(x, y) == colors(isDark(panel.palette())).strong_bar;
      return pixels;
    };
    QCOMPARE(markedPixels(0.009f), 0);
    QVERIFY(markedPixels(0.6f) > markedPixels(0.11f) + 100);  // a small share has a pale mark
  }

  // A matrix has a legend only if its cells are too small for numbers.
  void theErrorMatrixHasALegend() {
    const auto legend_pixels = [](QuantizationErrorPanel* panel) {
      const QImage picture = panel->grab().toImage();
      const Lut lut = matrixLut(isDark(panel->palette()));
      const std::set<QRgb> strong(lut.begin() + 200, lut.end());
      int pixels = 0;
      for (int y = 0; y < panel->bodyRect().top(); ++y)
        for (int x = 0; x < picture.width(); ++x) pixels += strong.contains(picture.pixel(x, y));
      return pixels;
    };
    SyntheticRun run_of_59_layers({.layers = 59});
    run_of_59_layers.append(3);
    Selection deep_run;
    deep_run.setHistories({run_of_59_layers.history()});
    QuantizationErrorPanel panel(selection_.get()), tall(&deep_run);
    show(&panel, {800, 300});
    show(&tall, {800, 300});
    QCOMPARE(tall.findChild<MatrixPlot*>()->rows(), 58);
    QVERIFY(legend_pixels(&panel) > 0);
    QVERIFY(legend_pixels(&tall) > 0);
  }

  void theCostliestOperandIsNamed() {
    PrecisionScan scan{.recipe = Recipe::mxfp4, .pieces = 4, .loss = 5, .twins = {}};
    using Scope = PrecisionTwin::Scope;
    scan.twins = {{.scope = Scope::all_operands, .loss_change = {0.02, 0.01}, .divergence = {0.05, 0.01}},
                  {.layer = 2, .loss_change = {0.01, 0.01}, .divergence = {0.03, 0.001}},
                  {.layer = 1, .loss_change = {0.01, 0.01}, .divergence = {0.01, 0.001}, .behind = {0.02, 0.001}}};
    const QString answer = twinsAnswers(scan).value(0);
    QVERIFY2(answer.contains("layer 2 is the most sensitive"), qPrintable(answer));
    QCOMPARE(twinsTable(scan).rows(), 3u);
    QStandardItemModel model;
    fillTwins(model, scan);
    QCOMPARE(model.rowCount(), 3);
    QCOMPARE(model.item(1, 1)->data(Qt::UserRole).toDouble(), 0.03);
    const std::vector<Recipe> recipes = forwardRecipes();
    QVERIFY(std::ranges::find(recipes, Recipe::mxfp4) != recipes.end());
    QVERIFY(std::ranges::find(recipes, Recipe::fp32) == recipes.end());
  }

  // The table shows whole rows only, for every height of the panel.
  void operandCostsEndsInAWholeRow() {
    OperandCostsPanel panel(selection_.get());
    auto measured = std::make_shared<MeasuredOperands>();
    for (int layer = 0; layer < 60; ++layer) measured->scan.effects.push_back({.layer = layer, .recipe = "mxfp4"});
    panel.showMeasured(measured);
    for (const int height : {300, 307, 313, 321}) {
      show(&panel, {600, height});
      const auto* table = panel.findChild<QTableView*>();
      QVERIFY(table->model()->rowCount() * table->rowHeight(0) > table->viewport()->height());
      QCOMPARE(table->viewport()->height() % table->rowHeight(0), 0);
    }
  }

 private:
  std::unique_ptr<SyntheticRun> run_;
  std::unique_ptr<Selection> selection_;
};

SCREEN_TEST(QuantizationTest)
#include "qt_quantization.moc"
