// Panels that are used with mouse and keyboard events, and the resulting pixels and tables.
#include <QApplication>
#include <QSignalSpy>
#include <QTabWidget>
#include <QTest>
#include <algorithm>
#include <cmath>

#include "tests/support/controls.h"
#include "tests/support/drawn_texts.h"
#include "tests/support/screen_test.h"
#include "tests/support/shown_panel.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/test_look.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/microscaling/block_scales_panel.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/overview/timeline_bar.h"
#include "widgets/panel/metric_text.h"
#include "widgets/plots/band_bars.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/time_heat_map.h"
#include "widgets/router/balance_panel.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/layer_stack_map.h"
#include "widgets/router/router_confidence_and_losses_panel.h"
#include "widgets/selection/compared_runs.h"

using namespace moescope;

namespace {

constexpr std::int64_t kSteps = 200;

void drag(QWidget* widget, QPoint from, QPoint to, Qt::MouseButton button = Qt::LeftButton) {
  QTest::mousePress(widget, button, {}, from);
  move(widget, (from + to) / 2);
  move(widget, to);
  QTest::mouseRelease(widget, button, {}, to);
}

// Counts how often a panel's plots are painted.
class Paints : public QObject {
 public:
  explicit Paints(const Panel* panel) {
    for (PlotFrame* plot : panel->findChildren<PlotFrame*>()) plot->installEventFilter(this);
  }
  int count() const { return count_; }

 protected:
  bool eventFilter(QObject* plot, QEvent* event) override {
    count_ += event->type() == QEvent::Paint;
    return QObject::eventFilter(plot, event);
  }

 private:
  int count_ = 0;
};

}  // namespace

class PanelsTest : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { useTestLook(); }

  void init() {
    run_ = std::make_unique<SyntheticRun>(SyntheticShape{});
    run_->append(kSteps);
    selection_ = std::make_unique<Selection>();
    selection_->setHistories({run_->history()});
  }

  void aRestingMouseReadsWhatIsUnderItNow() {
    LossPanel loss(selection_.get());
    show(&loss);
    auto* plot = loss.findChild<LinePlot*>();
    QSignalSpy readouts(plot, &PlotFrame::readoutChanged);
    move(plot, plot->rect().center());
    QVERIFY(!readouts.isEmpty());
    const QString before = readouts.last().first().toString();
    const std::int64_t hovered = selection_->hoverStep();
    run_->append(kSteps);
    selection_->setHistories({run_->history()});
    selection_->fitRange();
    QTRY_VERIFY(selection_->hoverStep() > hovered);
    QTRY_VERIFY(readouts.last().first().toString() != before);
    QVERIFY2(readouts.last().first().toString().startsWith(QString("step %1").arg(selection_->hoverStep())),
             qPrintable(readouts.last().first().toString()));
  }

  // Orange is run B wherever it is open, so that no second curve of run A may have it.
  void furtherCurvesOfARunAreShadesOfItsColour() {
    SyntheticRun other(SyntheticShape{});
    other.append(kSteps);
    selection_->setHistories({run_->history(), other.history()});
    for (const int run : {0, 1}) {
      selection_->setRun(run);
      for (const bool dark : {false, true})
        for (const int curve : {1, 2, 3, 4}) {
          const int shade = curveColor(*selection_, curve);
          QVERIFY(std::abs(seriesColor(shade, dark).hue() - seriesColor(run, dark).hue()) <= 2);
          QVERIFY(seriesColor(shade, dark) != seriesColor(run, dark));
          QVERIFY(seriesLine(shade) != Qt::SolidLine);
        }
    }
    QCOMPARE(seriesLine(kNoiseSeries), Qt::DashLine);
    QVERIFY(seriesLine(kNoiseSeries + kSeriesShade) != Qt::DashLine);
  }

  void theLabelOfASmoothedCurveIsItsValue() {
    LossPanel panel(selection_.get());
    show(&panel);
    const History& history = *run_->history();
    const double raw = history.value_at(Metric::ce_loss, kWholeRun, history.steps().last);
    const StepRange until{history.steps().last - 9, history.steps().last};
    const double smooth = history.series(Metric::ce_loss, kWholeRun, until, 1).front().mean();
    QVERIFY(formatValue(raw, 3) != formatValue(smooth, 3));
    QStringList texts;
    for (const DrawnText& drawn : textsDrawnBy(panel.findChild<LinePlot*>())) texts << drawn.text;
    QVERIFY2(texts.contains(formatValue(smooth, 3)), qPrintable(texts.join(" | ")));
    QVERIFY2(!texts.contains(formatValue(raw, 3)), qPrintable(texts.join(" | ")));
  }

  void clickSelectsTheCellUnderIt() {
    ExpertLoadPanel panel(selection_.get());
    show(&panel);
    QTest::mouseClick(panel.findChild<MatrixPlot*>(), Qt::LeftButton, {},
                      panel.findChild<MatrixPlot*>()->cellRect(2, 7).center().toPoint());
    QCOMPARE(selection_->layer(), 3);
    QCOMPARE(selection_->expert(), 7);
    QTest::keyClick(panel.findChild<MatrixPlot*>(), Qt::Key_Right);
    QTest::keyClick(panel.findChild<MatrixPlot*>(), Qt::Key_Up);
    QCOMPARE(selection_->layer(), 2);
    QCOMPARE(selection_->expert(), 8);
    for (int i = 0; i < 40; ++i) QTest::keyClick(panel.findChild<MatrixPlot*>(), Qt::Key_Right);
    QCOMPARE(selection_->expert(), 15);
  }

  void sortedByLoadTheClickStillFindsItsExpert() {
    ExpertLoadPanel panel(selection_.get());
    choose(&panel, "Steps", "one step");
    choose(&panel, "Order of experts", "by load");
    show(&panel);
    const RouterFrame& router = selection_->frame()->routers[1];
    const auto hottest = std::ranges::max_element(router.tokens_per_expert) - router.tokens_per_expert.begin();
    QTest::mouseClick(panel.findChild<MatrixPlot*>(), Qt::LeftButton, {},
                      panel.findChild<MatrixPlot*>()->cellRect(1, 0).center().toPoint());
    QCOMPARE(selection_->layer(), router.layer);
    QCOMPARE(selection_->expert(), static_cast<int>(hottest));
  }

  void cellHasTheColourOfItsUtilisation() {
    ExpertLoadPanel panel(selection_.get());
    choose(&panel, "Steps", "one step");
    show(&panel);
    const QImage picture = panel.findChild<MatrixPlot*>()->grab().toImage();
    const Lut lut = utilisationLut(isDark(panel.palette()));
    for (const auto& [row, expert] : {std::pair{0, 3}, {1, 12}, {3, 0}}) {
      const auto& counts = selection_->frame()->routers[row].tokens_per_expert;
      // Compares the corner of the cell, because a number may be drawn in its middle.
      const QPoint at = panel.findChild<MatrixPlot*>()->cellRect(row, expert).topLeft().toPoint() + QPoint(3, 3);
      QCOMPARE(picture.pixel(at), lut[utilisationCode(utilisation(counts, expert))]);
    }
  }

  void hoverTellsTheFiguresOfTheCell() {
    ExpertLoadPanel panel(selection_.get());
    choose(&panel, "Steps", "one step");
    show(&panel);
    QSignalSpy readout(&panel, &Panel::readoutChanged);
    move(panel.findChild<MatrixPlot*>(), panel.findChild<MatrixPlot*>()->cellRect(0, 4).center().toPoint());
    QTRY_VERIFY(!readout.isEmpty());
    const QString text = readout.last()[0].toString();
    QVERIFY(text.contains(QStringLiteral("layer 1, expert 4")));
    const auto tokens = selection_->frame()->routers[0].tokens_per_expert[4];
    QVERIFY2(text.contains(QStringLiteral("tokens ") + formatCount(tokens)), qPrintable(text));
  }

  void readoutsAreRowsOfTheTable() {
    ExpertLoadPanel panel(selection_.get());
    choose(&panel, "Steps", "one step");
    show(&panel);
    const ValueTable table = panel.table();
    for (int expert = 0; expert < 16; ++expert)
      QCOMPARE(panel.findChild<MatrixPlot*>()->describe(1, expert),
               rowText(table, static_cast<std::size_t>(16 + expert), 3));
    const QStringList words = rowText(table, 16, 3);
    QCOMPARE(words.front(), QString("step %1, layer 2, expert 0").arg(kSteps - 1));
    const float load = utilisation(selection_->frame()->routers[1].tokens_per_expert, 0);
    QVERIFY2(words.contains("load " + formatValue(load, 3) + " fair shares"), qPrintable(words.join('|')));
  }

  // A narrow panel moves its controls into the menu. They return when the panel is wide enough again.
  void controlsAreNeverClipped() {
    LossPanel panel(selection_.get());
    panel.setMinimumSize(200, 140);  // as in a dock
    show(&panel);
    const auto* metric = control<QComboBox>(&panel, "Metric");
    for (const int width : {700, 220, 700}) {
      panel.resize(width, 300);
      QTRY_COMPARE(metric->isVisible(), width > 400);
      if (metric->isVisible()) QVERIFY(metric->width() >= metric->sizeHint().width());
      QVERIFY(panel.bodyRect().top() > metric->geometry().bottom());
    }
  }

  void loadOverTimeStacksTheLayersAndAClickFindsItsExpert() {
    ExpertLoadPanel panel(selection_.get(), ExpertLoadPanel::over_time);
    show(&panel, {900, 700});
    auto* stack = panel.findChild<LayerStackMap*>();
    stack->grab();
    QCOMPARE(stack->layers(), selection_->history()->info().moe_layers);
    const auto click = [&](int layer, int place) {
      const int y = static_cast<int>(stack->yOf(stack->rowOf(layer, place) + 0.5));
      QTest::mouseClick(stack, Qt::LeftButton, {}, {stack->width() / 2, y});
    };
    click(2, 7);
    QCOMPARE(selection_->layer(), 2);
    QCOMPARE(selection_->expert(), 7);
    selection_->fitRange();
    choose(&panel, "Order of experts", "by load");
    stack->grab();
    click(2, 0);
    QCOMPARE(selection_->layer(), 2);
    QCOMPARE(selection_->expert(), layer_window(*selection_->history(), 2, selection_->step()).fullest);
    panel.restoreState({{"view", 1}});
    QVERIFY(panel.findChild<MatrixPlot*>()->isVisible() && !stack->isVisible());
    QCOMPARE(panel.saveState().value("view").toInt(), 1);
  }

  // A low panel shows only the chosen layer and the most uneven layers.
  void layersThatHaveNoRoomAreLeftOut() {
    ExpertLoadPanel panel(selection_.get(), ExpertLoadPanel::over_time);
    show(&panel, {700, 240});
    auto* stack = panel.findChild<LayerStackMap*>();
    stack->grab();
    const auto fits = static_cast<std::size_t>(stack->mostLayers(99));
    QVERIFY(fits >= 1 && fits < selection_->history()->info().moe_layers.size());
    QCOMPARE(stack->layers().size(), fits);
    for (const int layer : selection_->history()->info().moe_layers) {
      selection_->setLayer(layer);
      selection_->setExpert(3);
      stack->grab();
      QVERIFY(std::ranges::find(stack->layers(), layer) != stack->layers().end());
    }
  }

  void aHiddenPanelTakesItsReadoutAlong() {
    QWidget window;
    auto* panel = new ExpertLoadPanel(selection_.get(), &window);
    show(&window);
    QSignalSpy readout(panel, &Panel::readoutChanged);
    panel->hide();
    QCOMPARE(readout.size(), 1);
    QCOMPARE(readout[0][0].toString(), QString());
  }

  void theReadoutOfALinkNamesIt() {
    AllToAllPanel panel(selection_.get());
    show(&panel, {1200, 400});
    const BandBars* links = panel.findChild<SavingView*>()->links();
    QTRY_VERIFY(links->rows().size() > 2);
    for (int row = 0; row < std::ssize(links->rows()); ++row) {
      if (links->rows()[row].heading) continue;
      const QString link = links->describe(row).first();
      QVERIFY2(link.startsWith("Network") || link.startsWith("NVLink"), qPrintable(link));
    }
  }

  void wheelZoomsTheSharedRangeAboutTheMouse() {
    LossPanel loss(selection_.get());
    ExpertLoadPanel load(selection_.get(), ExpertLoadPanel::one_layer);
    show(&loss);
    show(&load);
    Paints paints(&load);
    wheel(loss.findChild<LinePlot*>(), loss.findChild<LinePlot*>()->rect().center(), 3);
    const StepRange zoomed = selection_->range();
    QVERIFY(zoomed.size() < kSteps * 0.6);
    QVERIFY(zoomed.first > 0 && zoomed.last < kSteps - 1);
    QVERIFY(std::abs((zoomed.first + zoomed.last) / 2 - kSteps / 2) < kSteps / 8);
    QApplication::processEvents();
    QVERIFY(paints.count() > 0);  // both panels show the same range
    wheel(load.findChild<TimeHeatMap*>(), load.findChild<TimeHeatMap*>()->rect().center(), -20);
    QCOMPARE(selection_->range(), (StepRange{0, kSteps - 1}));
  }

  void dragZoomsToTheBoxDoubleClickFitsMiddleDragPans() {
    LossPanel panel(selection_.get());
    show(&panel);
    LinePlot* plot = panel.findChild<LinePlot*>();
    const int y = plot->height() / 2;
    drag(plot, {200, y}, {400, y});
    const StepRange boxed = selection_->range();
    QVERIFY(boxed.first > 20 && boxed.last < kSteps - 20);
    QVERIFY(!selection_->following());

    drag(plot, {200, y}, {260, y}, Qt::MiddleButton);
    const StepRange panned = selection_->range();
    QCOMPARE(panned.size(), boxed.size());
    QVERIFY(panned.first < boxed.first);  // the curve moved right with the mouse
    drag(plot, {100, y}, {5000, y}, Qt::MiddleButton);
    QCOMPARE(selection_->range().first, 0);  // stops at the end
    QCOMPARE(selection_->range().size(), boxed.size());

    QTest::mouseDClick(plot, Qt::LeftButton, {}, {300, y});
    QCOMPARE(selection_->range(), (StepRange{0, kSteps - 1}));
    QVERIFY(selection_->following());
  }

  void clickMovesTheCursorAndHoverTheCrosshair() {
    ExpertLoadPanel panel(selection_.get(), ExpertLoadPanel::one_layer);
    show(&panel);
    const QPoint middle = panel.findChild<TimeHeatMap*>()->rect().center();
    move(panel.findChild<TimeHeatMap*>(), middle);
    QTRY_VERIFY(selection_->hoverStep() > 0);
    const std::int64_t hovered = selection_->hoverStep();
    QTest::mouseClick(panel.findChild<TimeHeatMap*>(), Qt::LeftButton, {}, middle);
    QCOMPARE(selection_->step(), hovered);
    QVERIFY(!selection_->following());
    QCOMPARE(selection_->expert(), panel.findChild<TimeHeatMap*>()->rowAt(middle.y()));
    QTest::keyClick(panel.findChild<TimeHeatMap*>(), Qt::Key_Left);
    QCOMPARE(selection_->step(), hovered - 1);
  }

  // A heat map extends its cached columns as the run grows. It must equal the heat map of a new panel.
  void grownHeatMapEqualsAFreshOne() {
    ExpertLoadPanel grown(selection_.get(), ExpertLoadPanel::one_layer);
    show(&grown, {420, 300});
    for (const int more : {1, 1, 7, 130, 1, 400, 3}) {
      run_->append(more);
      selection_->refresh();
      QApplication::processEvents();
    }
    run_->restartAt(500);
    run_->append(90);
    selection_->refresh();
    QApplication::processEvents();
    ExpertLoadPanel fresh(selection_.get(), ExpertLoadPanel::one_layer);
    show(&fresh, {420, 300});
    QCOMPARE(grown.findChild<TimeHeatMap*>()->size(), fresh.findChild<TimeHeatMap*>()->size());
    // Leaves out the frame of the focus.
    const auto picture = [](const Panel& panel) {
      auto* map = panel.findChild<TimeHeatMap*>();
      return map->grab(map->rect().adjusted(2, 2, -2, -2)).toImage();
    };
    QCOMPARE(picture(grown), picture(fresh));
  }

  void lossTableHoldsTheHistorysValues() {
    LossPanel panel(selection_.get());
    show(&panel);
    selection_->setRange({10, 40});
    QApplication::processEvents();
    const QStringList rows = lines(panel.csv());
    QCOMPARE(rows.size(), 1 + 31);
    QVERIFY(rows[0].contains(QStringLiteral("nats/token")));
    for (int i = 0; i < 31; ++i) {
      const QStringList cells = rows[1 + i].split(QLatin1Char(','));
      QCOMPARE(cells[0].toInt(), 10 + i);
      QCOMPARE(cells[1].toFloat(), run_->history()->value_at(Metric::ce_loss, kWholeRun, 10 + i));
      const StepRange mean_steps{1 + i, 10 + i};  // also of steps before the range
      QCOMPARE(cells[2].toFloat(), run_->history()->series(Metric::ce_loss, kWholeRun, mean_steps, 1).front().mean());
    }
  }

  void tablesOfTheNowPanelsHoldTheFramesValues() {
    selection_->setStep(77);
    const auto frame = selection_->frame();
    ExpertLoadPanel load(selection_.get());
    choose(&load, "Steps", "one step");
    const QStringList rows = lines(load.csv());
    QCOMPARE(rows.size(), 1 + 4 * 16);
    const QStringList cells = rows[1 + 16 + 3].split(QLatin1Char(','));
    QCOMPARE(cells[0], QStringLiteral("77"));
    QCOMPARE(cells[1], QStringLiteral("2"));
    QCOMPARE(cells[2], QStringLiteral("3"));
    QCOMPARE(cells[3].toUInt(), frame->routers[1].tokens_per_expert[3]);

    selection_->setLayer(3);
    AllToAllPanel all_to_all(selection_.get());
    const QStringList copies = lines(all_to_all.csv());
    QCOMPARE(copies.size(), 1 + 8 * 8);
    const QStringList pair = copies[1 + 2 * 8 + 5].split(QLatin1Char(','));
    const VolumeFrame& volume = frame->routers[2].volume;
    QCOMPARE(pair[4].toUInt(), volume.copies_RR[2 * 8 + 5]);
    QCOMPARE(pair[5].toUInt(), volume.copies_RR[2 * 8 + 5] * 2 * 128);  // BF16
    QCOMPARE(pair[6].toUInt(), volume.distinct_RR[2 * 8 + 5]);

    QuantizationErrorPanel quant(selection_.get());
    QCOMPARE(lines(quant.csv()).size(), 1 + static_cast<int>(frame->quants.size()));
    QCOMPARE(lines(quant.csv())[1].split(QLatin1Char(','))[7].toFloat(), selection_->quantFrame()->quants[0].sqnr_db);

    BlockScalesPanel scales(selection_.get());
    double blocks = 0;
    for (const QString& row : lines(scales.csv()).mid(1)) blocks += row.split(QLatin1Char(',')).last().toDouble();
    const auto& quants = selection_->quantFrame()->quants;
    const auto place = std::ranges::find(quants, 3, &QuantFrame::layer);  // the first operand of a layer: w1 x forward
    QCOMPARE(blocks, std::accumulate(place->e8m0_blocks.begin(), place->e8m0_blocks.end(), 0.0));
  }

  void deduplicatedMatrixIsPalerOnTheSameScale() {
    AllToAllPanel panel(selection_.get());
    show(&panel);
    const int standard = qGray(panel.findChild<MatrixPlot*>()->cellColor(0, 5));
    choose(&panel, "Kind of all-to-all", "DeepEP");
    QApplication::processEvents();
    QVERIFY(qGray(panel.findChild<MatrixPlot*>()->cellColor(0, 5)) > standard);
  }

  // The colour scale of errors is the same in every run: a strong colour is a large error.
  void aLargerQuantizationErrorIsDarkerInEveryRun() {
    const auto gray = [](float db) {
      auto frame = std::make_shared<TelemetryFrame>();
      frame->step = 0;
      QuantFrame& quant = frame->quants.emplace_back();
      quant.layer = 1;
      quant.format = quant_format("made up");
      quant.sqnr_db = db;
      auto history = std::make_shared<History>(RunInfo{});
      history->append(std::move(frame));
      Selection selection;
      selection.setHistories({history});
      QuantizationErrorPanel panel(&selection);
      show(&panel);
      return qGray(panel.findChild<MatrixPlot*>()->cellColor(0, 0));
    };
    const int mxfp4 = gray(19), mxfp8 = gray(31.5f), bf16 = gray(56), exact = gray(INFINITY);
    QVERIFY2(mxfp4 + 20 < mxfp8, qPrintable(QString::number(mxfp8)));
    QVERIFY2(mxfp8 + 20 < bf16, qPrintable(QString::number(bf16)));
    QVERIFY(bf16 <= exact);
  }

  void hiddenPanelsDoNotPaint() {
    QTabWidget tabs;
    auto* front = new LossPanel(selection_.get());
    auto* behind = new ExpertLoadPanel(selection_.get(), ExpertLoadPanel::one_layer);
    tabs.addTab(front, QStringLiteral("front"));
    tabs.addTab(behind, QStringLiteral("behind"));
    show(&tabs);
    Paints hidden(behind), seen(front);
    for (int i = 0; i < 10; ++i) {
      run_->append(1);
      selection_->refresh();
      QApplication::processEvents();
    }
    QCOMPARE(hidden.count(), 0);
    QVERIFY(seen.count() > 0);
  }

  void manyChangesInOneTurnPaintOnce() {
    LossPanel panel(selection_.get());
    show(&panel);
    Paints paints(&panel);
    for (int i = 0; i < 50; ++i) {
      run_->append(1);
      selection_->refresh();
    }
    QApplication::processEvents();
    QCOMPARE(paints.count(), 1);
  }

  // A tile shows its whole name or its short name. A figure that the run cannot have has no tile.
  void tilesHaveWholeNamesAndValues() {
    RouterConfidenceAndLossesPanel panel(selection_.get());
    for (const int width : {300, 420, 800}) {
      show(&panel, {width, 220});
      QStringList names;
      for (ValueTile* tile : panel.findChildren<ValueTile*>()) {
        if (!tile->isVisible()) continue;
        const std::vector<DrawnText> drawn = textsDrawnBy(tile);
        QVERIFY2(drawn.size() >= 2, qPrintable(tile->text()));
        names << drawn[0].text;
        QVERIFY2(!drawn[0].text.contains(QChar(0x2026)) && drawn[0].place.right() <= tile->width(),
                 qPrintable(drawn[0].text));
      }
      QVERIFY2(!names.contains("Predicted") && names.contains("Margin"), qPrintable(names.join(", ")));
    }
  }

  void aPlotThatIsTooLowIsFolded() {
    RouterConfidenceAndLossesPanel panel(selection_.get());
    show(&panel, {400, 300});
    const auto plots = [&] {
      const QList<LinePlot*> all = panel.findChildren<LinePlot*>();
      return std::ranges::count_if(all, [](const LinePlot* plot) { return plot->isVisible(); });
    };
    QVERIFY(plots() > 0);
    panel.resize(400, 110);
    QTRY_COMPARE(plots(), 0);
    QVERIFY(panel.findChild<ValueTile*>()->isVisible());
    panel.resize(400, 300);
    QTRY_VERIFY(plots() > 0);
  }

  void aLegendStandsBesideTheCaptionOrAboveIt() {
    BandBars bars;
    bars.setCaption("tokens/s a GPU");
    bars.setLegend({{"published", 0}, {"modelled", 1}});
    bars.setRows({{"BF16", {{1, 0}}, std::nan(""), std::nan(""), "1"}});
    const auto top = [&](const QString& text) {
      for (const DrawnText& drawn : textsDrawnBy(&bars))
        if (drawn.text == text) return drawn.place.center().y();
      return -1.0;
    };
    show(&bars, {500, 200});
    QVERIFY(top("published") > 0);
    QVERIFY(std::abs(top("published") - top("tokens/s a GPU")) < 2);
    show(&bars, {200, 200});
    QVERIFY(top("published") > 0);
    QVERIFY(top("published") + 8 < top("tokens/s a GPU"));
  }

  void statesSurviveARestart() {
    LossPanel one(selection_.get()), two(selection_.get());
    one.setMetric(Metric::grad_norm);
    const QComboBox* smoothing = control<QComboBox>(&two, "Smoothing");
    for (int place = 0; place < smoothing->count(); ++place) {
      control<QComboBox>(&one, "Smoothing")->setCurrentIndex(place);
      two.restoreState(one.saveState());
      QCOMPARE(two.shownMetric(), Metric::grad_norm);
      QCOMPARE(smoothing->currentIndex(), place);
    }
    two.restoreState({{"mean_steps", 300}});
    QCOMPARE(two.saveState().value("mean_steps").toInt(), 300);
  }

  void nanLossBreaksTheCurveAndIsMarked() {
    SyntheticRun run({.scalars_only = true});
    run.append(20);
    auto bad = std::make_shared<TelemetryFrame>();
    bad->step = 20;
    bad->ce_loss = std::numeric_limits<float>::infinity();
    run.history()->append(std::move(bad));
    run.restartAt(21);
    run.append(20);
    Selection selection;
    selection.setHistories({run.history()});
    LossPanel panel(&selection);
    show(&panel);
    const QImage picture = panel.findChild<LinePlot*>()->grab().toImage();
    int marked = 0;
    for (int y = picture.height() - 45; y < picture.height() - 12; ++y)
      for (int x = 250; x < 420; ++x) marked += picture.pixel(x, y) == cursorColor(isDark(panel.palette())).rgb();
    QVERIFY(marked > 10);
    QVERIFY(panel.csv().contains(QStringLiteral("20,NaN")));
  }

  void themeChangeRepaintsEverything() {
    ExpertLoadPanel panel(selection_.get());
    show(&panel);
    QPalette palette = panel.palette();
    palette.setColor(QPalette::Base, QColor(0x1c, 0x1d, 0x20));
    palette.setColor(QPalette::Text, Qt::white);
    panel.setPalette(palette);
    QApplication::processEvents();
    const QImage picture = panel.findChild<MatrixPlot*>()->grab().toImage();
    QCOMPARE(picture.pixel(2, 2), QColor(0x1c, 0x1d, 0x20).rgb());
    const auto& counts = selection_->frame()->routers[0].tokens_per_expert;
    const QPoint at = panel.findChild<MatrixPlot*>()->cellRect(0, 3).topLeft().toPoint() + QPoint(3, 3);
    QCOMPARE(picture.pixel(at), utilisationLut(true)[utilisationCode(utilisation(counts, 3))]);
  }

  void timelineScrubsZoomsAndFollows() {
    TimelineBar bar(selection_.get());
    show(&bar, {700, 40});
    TimelineTrack* track = bar.track();
    QTest::mousePress(track, Qt::LeftButton, {}, {track->xOf(50), 8});
    QCOMPARE(selection_->step(), track->stepAt(track->xOf(50)));
    move(track, {track->xOf(120), 8});
    QTRY_COMPARE(selection_->step(), track->stepAt(track->xOf(120)));
    QTest::mouseRelease(track, Qt::LeftButton, {}, {track->xOf(120), 8});
    QVERIFY(!selection_->following());
    auto* follow = bar.findChild<QToolButton*>();
    QVERIFY(!follow->isChecked());
    QTest::keyClick(track, Qt::Key_Left);
    QCOMPARE(selection_->step(), track->stepAt(track->xOf(120)) - 1);
    QTest::mouseClick(follow, Qt::LeftButton);
    QCOMPARE(selection_->step(), kSteps - 1);
    QVERIFY(selection_->following());

    const int lane = track->height() - 17;
    const std::int64_t first = track->stepAt(track->xOf(80));
    auto* zoom = bar.findChild<QLabel*>("timeline_zoom");
    QVERIFY(zoom->isHidden());
    drag(track, {track->xOf(0), lane}, {track->xOf(80), lane});
    QTRY_COMPARE(selection_->range().first, first);
    QCOMPARE(selection_->range().last, kSteps - 1);
    QVERIFY(selection_->following());  // the range still ends with the newest step
    // The bar says which steps are shown, and leads back; the cursor stays.
    QTRY_VERIFY(zoom->isVisible());
    QVERIFY2(zoom->text().startsWith(QString("Steps %1 to %2 ").arg(first).arg(kSteps - 1)), qPrintable(zoom->text()));
    emit zoom->linkActivated("all");
    QCOMPARE(selection_->range().first, 0);
    QVERIFY(zoom->isHidden());
  }

 private:
  std::unique_ptr<SyntheticRun> run_;
  std::unique_ptr<Selection> selection_;
};

SCREEN_TEST(PanelsTest)
#include "qt_panels.moc"
