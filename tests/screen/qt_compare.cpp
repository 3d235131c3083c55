// The panels of Compare with trained runs: their figures equal those of core/findings/comparison.
#include <QDockWidget>
#include <QHeaderView>
#include <QLabel>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <algorithm>
#include <cmath>

#include "app/workspaces/workspaces.h"
#include "core/config/config_difference.h"
#include "core/findings/comparison/operand_sqnr.h"
#include "core/frame/router_stats.h"
#include "tests/support/compare_window.h"
#include "tests/support/controls.h"
#include "tests/support/screen_test.h"
#include "widgets/compare/gradient_error_panel.h"
#include "widgets/compare/load_difference_panel.h"
#include "widgets/compare/loss_gap_panel.h"
#include "widgets/compare/routing_flips_panel.h"
#include "widgets/microscaling/operand_costs_panel.h"
#include "widgets/overview/health_banner.h"
#include "widgets/panel/format_text.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/plots/axis.h"

using namespace moescope;

namespace {

QStringList column(const QString& csv, int index) {
  QStringList values;
  const QStringList lines = csv.split('\n', Qt::SkipEmptyParts);
  for (const QString& line : lines.mid(1)) values << line.split(',')[index];
  return values;
}

OperandCostsPanel* raisedCosts(CompareWindow& w) {
  w.window.workspaces()->bringUp("microscaling");
  auto* costs = w.window.workspaces()->microscaling()->findChild<OperandCostsPanel*>();
  for (QDockWidget* dock : w.window.workspaces()->microscaling()->findChildren<QDockWidget*>())
    if (dock->isAncestorOf(costs)) {
      dock->show();
      dock->raise();
    }
  return costs;
}

}  // namespace

class CompareTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() { useFolderOfTest(home_); }
  void init() { useSettingsOfTest(home_); }

  void overviewOfForcedBalanceHasTheVerdictsOnTheLosses() {
    RunConfig config = comparedNano();
    config.router.force_balance = true;
    CompareWindow w(config);
    auto* overview = w.window.workspaces()->overview();
    w.window.workspaces()->bringUp("overview");
    auto* banner = overview->findChild<HealthBanner*>();
    QTRY_VERIFY(banner->isVisible());  // one run is not compared
    w.addFormat("mxfp8_floor");        // leads to Compare
    w.trainTo(60);
    w.window.workspaces()->bringUp("overview");
    auto* strip = overview->findChild<VerdictStrip*>();
    QTRY_VERIFY(strip->isVisible() && !banner->isVisible());
    QTRY_VERIFY(overview->dock("dock_overview_gap")->isVisible());
    QVERIFY(!overview->dock("dock_expert_load")->isVisible() && !overview->dock("dock_all_to_all")->isVisible());
    w.window.workspaces()->bringUp("compare");
    QTRY_COMPARE(strip->text(), w.strip()->text());
    QVERIFY2(strip->text().contains("B MXFP8"), qPrintable(strip->text()));
  }

  void panelsSayWhatTheComparisonSays() {
    CompareWindow w;
    w.addFormat("mxfp8_floor");
    w.addTwin(noise_twin(w.window.session()->config()));
    w.trainTo(60);
    const auto& h = w.window.selection()->histories();
    const StepRange all{0, 59};
    QCOMPARE(w.window.selection()->range(), all);

    const QString gaps = w.panel<LossGapPanel>()->csv();
    const PairedRun twins[] = {{h[2], false}};
    const Conclusion conclusion = conclude(h[0], {h[1]}, twins);
    QCOMPARE(conclusion.steps, (StepRange{10, 59}));
    GapTrack gap(h[0], h[1]);
    gap.update();
    const auto raw = gap.series(slice_edges(all, 60));
    const auto smooth = gap.smoothed(slice_edges(all, 60));
    QCOMPARE(column(gaps, 1).size(), 60);
    for (int step : {0, 1, 30, 59}) {
      QCOMPARE(column(gaps, 1)[step].toFloat(), static_cast<float>(raw[step].mean()));
      QCOMPARE(column(gaps, 2)[step].toFloat(), smooth[step]);
      QCOMPARE(column(gaps, 5)[step], step < 10 ? QString() : exactText(conclusion.gap));
      QCOMPARE(column(gaps, 6)[step], step < 10 ? QString() : exactText(conclusion.half_width));
    }
    const VerdictRow b = w.row(1);
    QCOMPARE(*b.word, verdict_word(conclusion));
    QCOMPARE(b.reasons.front().toStdString(), verdict_reasons(conclusion).front());
    QCOMPARE(b.gap, conclusion.gap);
    QCOMPARE(b.half_width, conclusion.half_width);
    QCOMPARE(b.note, QStringLiteral("experts in MXFP8, scales rounded down"));
    QVERIFY(!w.row(0).word && !w.row(2).word);
    QCOMPARE(w.row(2).letter, QStringLiteral("N"));
    QCOMPARE(w.row(2).note, QStringLiteral("noise twin: A with another seed"));
    QTRY_VERIFY2(w.strip()->text().startsWith(to_text(verdict_word(conclusion))), qPrintable(w.strip()->text()));

    const RunFigures figures = run_figures(*h[1], last_common_steps(h, VerdictsPanel::kWindow));
    const QString table = w.panel<VerdictsPanel>()->csv();
    QVERIFY2(table.contains(exactText(figures.mean_loss)), qPrintable(table));
    const OperandSqnr sqnr = operand_sqnr(h, 59)[1];
    QCOMPARE(sqnr.choice, OperandChoice::differing);
    for (const float figure : {sqnr.worst_db, sqnr.mean_db})
      QVERIFY2(table.contains(exactText(figure)), qPrintable(table));
    QVERIFY2(table.contains("precision.experts=mxfp8_floor"), qPrintable(table));

    const auto flips = h[1]->flip_frame_at(59);
    QVERIFY(flips);
    button(w.panel<RoutingFlipsPanel>(), "by rounding")->setChecked(false);
    QVERIFY(w.panel<RoutingFlipsPanel>()->csv().contains(exactText(flips->flips[0].flip_rate)));
    const auto gradients = h[1]->gradient_frame_at(59);
    QVERIFY(gradients);
    QVERIFY(w.panel<GradientErrorPanel>()->csv().contains(exactText(gradients->gradients.back().cosine)));

    const auto difference = load_difference(h[0]->frame_at(59)->routers[0], h[1]->frame_at(59)->routers[0]);
    const QStringList shown = column(w.panel<LoadDifferencePanel>()->csv(), 3);
    for (std::size_t e = 0; e < difference.size(); ++e) QCOMPARE(shown[static_cast<int>(e)].toFloat(), difference[e]);
    const QStringList loads_of_b = column(w.panel<LoadDifferencePanel>()->csv(), 4);
    for (std::size_t e = 0; e < difference.size(); ++e)
      QCOMPARE(loads_of_b[static_cast<int>(e)].toFloat(),
               utilisation(h[1]->frame_at(59)->routers[0].tokens_per_expert, e));
    for (Panel* panel : w.window.workspaces()->compare()->panels()) {
      QVERIFY2(panel->csv().count('\n') > 1, qPrintable(panel->title()));
      QVERIFY2(!panel->explain().isEmpty(), qPrintable(panel->title()));
    }
  }

  // In the step of a live change the weights of both runs are still equal, so that the change alone causes the flips.
  void flipsOfTheStepOfAChangeAreItsOwn() {
    RunConfig config = comparedNano();
    config.telemetry.flips_every = 1;
    config.telemetry.gradient_every = 0;
    CompareWindow w(config);
    std::vector<RunConfig> runs = {config, config};
    runs[1].name = "gate";
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.runControl()->startAll(runs, RunControl::Start::paused);
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    w.trainTo(20);
    QTRY_VERIFY(w.answer<RoutingFlipsPanel>().contains("the same experts as in A"));
    QCOMPARE(
        w.window.session()->change({.run = 1, .setting = &PrecisionConfig::router_gate, .value = std::string("mxfp4")}),
        QString());
    w.trainTo(21);
    QTRY_VERIFY2(w.answer<RoutingFlipsPanel>().contains("the weights still equal those of A"),
                 qPrintable(w.answer<RoutingFlipsPanel>()));
    w.trainTo(25);
    QTRY_VERIFY2(w.answer<RoutingFlipsPanel>().contains("the weights of the runs differ too"),
                 qPrintable(w.answer<RoutingFlipsPanel>()));
  }

  // A copy of the run rounds one operand at a time and measures the gradients, while the run goes on training.
  void whatEachOperandDoesToTheGradientIsMeasured() {
    CompareWindow w;
    w.addFormat("mxfp4");
    w.trainTo(3);
    OperandCostsPanel* costs = raisedCosts(w);
    auto* table = costs->findChild<QTableView*>();
    QTRY_VERIFY2(costs->answerText().startsWith("Not measured yet: a copy of B"), qPrintable(costs->answerText()));
    costs->findChild<QPushButton*>()->click();
    QTRY_VERIFY2_WITH_TIMEOUT(costs->answerText().contains("changes the gradient most"),
                              qPrintable(costs->answerText()), kWaitMs);
    const QString sentence = costs->answerText();
    QVERIFY2(costs->caption().contains("step 2") && costs->caption().contains("B "), qPrintable(costs->caption()));
    const ModelConfig& m = w.window.session()->live()->config(1).model;
    const int rows = table->model()->rowCount();
    QCOMPARE(rows, 6 * (m.n_layers - m.n_dense_layers));  // the routed experts alone are rounded
    const auto cell = [&](int row, int column) { return table->model()->index(row, column).data().toString(); };
    QVERIFY2(sentence.contains(cell(0, 2)), qPrintable(sentence + cell(0, 2)));
    QCOMPARE(costs->csv().count('\n'), rows + 1);
  }

  // The answers of the panels, without which the pictures are hard to read.
  void panelsSayInWordsWhatTheirPicturesMean() {
    CompareWindow w;
    w.addFormat("mxfp4");
    w.addTwin(noise_twin(w.window.session()->config()));
    w.trainTo(12);
    w.window.selection()->setRun(1);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    const auto& h = w.window.selection()->histories();

    auto* gradients = w.panel<GradientErrorPanel>();
    for (const auto* option : gradients->findChildren<QToolButton*>())  // options are in the menu only
      if (option->text() == "by layer" || option->text() == "experts pinned") QVERIFY(!option->isVisible());
    const float snr = h[1]->value_at(Metric::gradient_snr_db, kWholeRun, 10);
    const QString off = "B: " + formatPercent(std::pow(10.0, -snr / 20.0));
    QTRY_VERIFY2(w.answer<GradientErrorPanel>().contains(off), qPrintable(off));

    // By layer, as a difference of B and A.
    button(gradients, "by layer")->click();
    button(gradients, "minus A")->click();
    QVERIFY(std::isinf(h[0]->gradient_frame_at(11)->gradients.front().snr_db));  // A is FP32
    const auto cell = [&] { return gradients->findChild<MatrixPlot*>()->describe(0, 0).join(' '); };
    QTRY_VERIFY2(cell().contains("; exact in A"), qPrintable(cell()));
    QVERIFY2(gradients->caption().contains("minus A"), qPrintable(gradients->caption()));
    w.window.selection()->setRun(2);  // by layer the answer is about the shown run; N is in FP32
    QTRY_VERIFY2(!w.answer<GradientErrorPanel>().contains(off), qPrintable(off));
    w.window.selection()->setRun(1);

    auto* flips = w.panel<RoutingFlipsPanel>();
    auto* by_rounding = button(flips, "by rounding");
    QVERIFY(by_rounding->isChecked());  // flips by rounding are shown first if they were measured
    const auto compared = h[1]->gradient_frame_at(11);
    QVERIFY(compared);
    double rate = 0;
    for (const FlipFrame& layer : compared->rounding_flips) rate += layer.flip_rate / compared->rounding_flips.size();
    QVERIFY(rate > 0);
    QTRY_VERIFY2(w.answer<RoutingFlipsPanel>().contains("B: " + formatPercent(rate)),
                 qPrintable(w.answer<RoutingFlipsPanel>()));
    by_rounding->click();
    QTRY_VERIFY2(w.answer<RoutingFlipsPanel>().contains("noise twin N"), qPrintable(w.answer<RoutingFlipsPanel>()));
    w.window.selection()->setRun(2);  // the answer is about the active run, whose margins are drawn
    QTRY_VERIFY2(w.answer<RoutingFlipsPanel>().startsWith("N: "), qPrintable(w.answer<RoutingFlipsPanel>()));
    w.window.selection()->setRun(1);

    auto* loads = w.panel<LoadDifferencePanel>();
    QTRY_VERIFY2(w.answer<LoadDifferencePanel>().contains("noise twin N"), qPrintable(w.answer<LoadDifferencePanel>()));
    QVERIFY(loads->caption().contains("B MXFP4 minus A"));
  }

  void aSingleRunSaysWhatToTrainBesideIt() {
    CompareWindow w;
    w.trainTo(2);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    QTRY_VERIFY2(w.strip()->text().startsWith("Nothing to compare: train another"), qPrintable(w.strip()->text()));
    auto* gap = w.window.workspaces()->compare()->findChild<QDockWidget*>("dock_compare_gap");
    QTRY_VERIFY(gap->isHidden());
    QVERIFY(w.panel<VerdictsPanel>()->findChild<VerdictTable*>()->notice().isEmpty());
    const auto labels = w.panel<VerdictsPanel>()->findChildren<QLabel*>();
    QVERIFY(std::ranges::any_of(labels, [](const QLabel* label) {
      return label->isVisible() && label->text().contains("A noise twin</b> shows");
    }));
    w.window.session()->addRun(w.window.session()->config());
    QTRY_VERIFY(!gap->isHidden());
  }

  void theButtonSwitchesGradientsOn() {
    RunConfig config = comparedNano();
    config.telemetry.gradient_every = 0;
    CompareWindow w(config);
    w.trainTo(2);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    auto* measure = button(w.panel<GradientErrorPanel>(), "Measure every 20 steps");
    QTRY_VERIFY(measure->isVisible());
    QTest::mouseClick(measure, Qt::LeftButton);
    QCOMPARE(w.window.session()->config().telemetry.gradient_every, 20);
    w.trainTo(21);
    QTRY_VERIFY(!measure->isVisible());
  }
};

SCREEN_TEST(CompareTest)
#include "qt_compare.moc"
