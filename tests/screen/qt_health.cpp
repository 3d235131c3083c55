// Healthy or not, at once: the banner over the Overview, the layer that an opened log shows first, and the tiles.
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QInputDialog>
#include <QLabel>
#include <QMenu>
#include <QStandardPaths>
#include <QTest>
#include <QTimer>
#include <algorithm>
#include <cmath>

#include "app/actions/file_actions.h"
#include "app/bars/live_popover.h"
#include "app/setup/field_editor.h"
#include "app/window/main_window.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/overview.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/telemetry/frame/change_marker.h"
#include "core/telemetry/frame/router_stats.h"
#include "core/telemetry/history/worst_layer.h"
#include "core/telemetry/logs/import_jsonl.h"
#include "tests/support/made_up_run.h"
#include "widgets/overview/balance_panel.h"
#include "widgets/overview/findings_panel.h"
#include "widgets/overview/health_banner.h"
#include "widgets/overview/timeline_bar.h"
#include "widgets/panel/explain_card.h"
#include "widgets/look/fitted_text.h"
#include "widgets/plots/value_tile.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/expert_panel.h"
#include "widgets/router/gate_mass_against_load_panel.h"
#include "widgets/router/router_confidence_and_losses_panel.h"

namespace moescope {

class QtHealth : public QObject {
  Q_OBJECT

 private:
  static QString samplePath(const char* name) {
    return QString(MOESCOPE_TEST_DATA) + "/../assets/samples/" + name + ".jsonl";
  }
  static HistoryPtr sample(const char* name) { return import_jsonl(samplePath(name).toStdString()).runs.front(); }
  static ValueTile* tile(QWidget* panel, const QString& name) {
    for (ValueTile* each : panel->findChildren<ValueTile*>())
      if (each->text() == name) return each;
    return nullptr;
  }

 private slots:
  void initTestCase() { QStandardPaths::setTestModeEnabled(true); }

  void anOpenedLogShowsItsVerdictAndItsWorstLayer() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    auto* banner = window.workspaces()->overview()->findChild<HealthBanner*>();
    QVERIFY(banner && !banner->isVisible());  // no run
    window.files()->open({samplePath("unbalanced_bf16")});
    QTRY_VERIFY(banner->text().contains("Unhealthy"));
    QVERIFY(banner->isVisible());
    const QString text = banner->text();
    QVERIFY2(text.contains("3 of 8 MoE layers have collapsed (1, 2 and 3)"), qPrintable(text));
    QVERIFY2(text.contains("bias_update_rate = 0, aux_coeff = 0"), qPrintable(text));
    for (const char* setting : {"precision", "bf16", "lr", "0.0006"}) QVERIFY2(text.contains(setting), setting);
    Selection* selection = window.selection();
    const int worst = least_even_layer(*selection->history(), INT64_MAX).layer;
    QVERIFY(worst != 8);
    QCOMPARE(selection->layer(), worst);

    // As a mouse does it, by way of the window: the words lie over the banner.
    QTest::mouseClick(window.windowHandle(), Qt::LeftButton, {}, banner->mapTo(&window, QPoint(200, 10)));
    QCOMPARE(selection->layer(), worst);
    QVERIFY(selection->expert() >= 0);
    QVERIFY2(text.contains(QString("experts %1").arg(selection->expert())), qPrintable(text));
    QVERIFY2(text.contains(QString("since step %1").arg(selection->step())), qPrintable(text));
    auto* findings = window.workspaces()->overview()->findChild<FindingsPanel*>();
    QTRY_VERIFY(findings->isVisible());
    FindingRow* open = nullptr;
    for (FindingRow* row : findings->findChildren<FindingRow*>())
      if (row->finding().layers.front() == worst && row->finding().kind == FindingKind::collapsed) open = row;
    QVERIFY(open);
    QVERIFY(open->findChild<QToolButton*>("router.bias_update_rate")->isVisible());
  }

  // The tiles follow the worst layer until a person has chosen one.
  void theLayerOfAClickedFindingStaysChosen() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    window.files()->open({samplePath("unbalanced_bf16")});
    Selection* selection = window.selection();
    auto* balance = window.workspaces()->overview()->findChild<BalancePanel*>();
    auto* findings = window.workspaces()->overview()->findChild<FindingsPanel*>();
    QTRY_VERIFY_WITH_TIMEOUT(findings->findChildren<FindingRow*>().size() > 1, 60000);
    const auto layers = [&] {
      for (const QComboBox* box : balance->findChildren<QComboBox*>())
        if (box->accessibleName() == "Layers") return box->currentText();
      return QString();
    };
    QCOMPARE(layers(), QString("worst layer"));  // opening a file chose none
    const StepRange all = selection->history()->steps();
    for (FindingRow* row : findings->findChildren<FindingRow*>()) {
      if (row->finding().layers.empty()) continue;
      emit row->clicked();
      const int chosen = row->finding().layers.front();
      QCOMPARE(selection->layer(), chosen);
      QCOMPARE(layers(), QString("chosen layer"));
      for (std::int64_t step = all.first; step <= all.last; step += all.size() / 7) {
        selection->setStep(step);
        QCOMPARE(balance->findChildren<ValueTile*>().front()->figure().layer, chosen);
      }
    }
  }

  void theBannersExpertsExpandInPlace() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    MadeUp run("[router]\nbias_update_rate = 0.001\naux_mode = \"none\"\n");
    MadeUp::Shares dead = MadeUp::even();
    std::fill(dead.begin() + 5, dead.begin() + 13, 0.0);
    run.steps(300, MadeUp::even(), dead);
    window.selection()->setHistories({run.history()});
    auto* banner = window.workspaces()->overview()->findChild<HealthBanner*>();
    QTRY_VERIFY2(banner->text().contains("more"), qPrintable(banner->text()));
    auto* words = banner->findChild<QLabel*>("health_words");
    const int experts = static_cast<int>(words->text().count("'expert:"));
    QCOMPARE(experts, 6);
    const int height = banner->heightForWidth(900);
    emit words->linkActivated("more");
    QVERIFY(words->text().count("'expert:") > 6);
    QVERIFY(!banner->text().contains("more"));
    QVERIFY(banner->text().contains("(fewer)"));
    QVERIFY(banner->heightForWidth(900) >= height);
    const auto has_room = [&] {
      return words->height() >= words->heightForWidth(words->width()) && banner->rect().contains(words->geometry());
    };
    QTRY_VERIFY(has_room());
    QVERIFY(banner->heightForWidth(400) > banner->heightForWidth(900));
    window.resize(700, 800);
    QTRY_VERIFY(has_room());
    emit words->linkActivated("expert:7");
    QCOMPARE(window.selection()->expert(), 7);
    QCOMPARE(window.selection()->layer(), 2);
    emit words->linkActivated("more");
    QCOMPARE(static_cast<int>(words->text().count("'expert:")), 6);
  }

  void aHealthyRunSaysSoAndAYoungOneThatItIsYoung() {
    Selection selection;
    ComparedRuns runs;
    FindingsWatch watch(&selection, &runs);
    HealthBanner banner(&selection, &watch);
    MadeUp run("[router]\nbias_update_rate = 0.001\naux_mode = \"none\"\n");
    run.steps(60, MadeUp::even(), MadeUp::even());
    selection.setHistories({run.history()});
    QVERIFY(banner.text().contains("Reading"));
    QTRY_VERIFY2(banner.text().contains("Too early to tell: 60 of about 150 steps"), qPrintable(banner.text()));
    run.steps(200, MadeUp::even(), MadeUp::even());
    selection.refresh();
    QTRY_VERIFY2(banner.text().contains("Healthy"), qPrintable(banner.text()));
    QVERIFY(banner.text().contains("bias_update_rate = 0.001"));

    // Another run: what was said of the one before is gone at once.
    selection.setHistories({sample("domain_shift")});
    QVERIFY(banner.text().contains("Reading"));
    QTRY_VERIFY2(banner.text().contains("Needs attention"), qPrintable(banner.text()));
    QTest::keyClick(&banner, Qt::Key_Return);
    QCOMPARE(selection.layer(), 1);
    QCOMPARE(selection.step(), 700);
  }

  void theCardHasAllSettingsOfTheLog() {
    QWidget window;
    window.resize(900, 600);
    Selection selection;
    ComparedRuns runs;
    FindingsWatch watch(&selection, &runs);
    HealthBanner banner(&selection, &watch, &window);
    selection.setHistories({sample("unbalanced_bf16")});
    QTRY_VERIFY(watch.ready());
    window.show();
    banner.findChild<QToolButton*>()->click();
    const auto cards = window.findChildren<ExplainCard*>();
    QCOMPARE(cards.size(), 1);
    for (const char* words : {"NVIDIA H200", "moe_inter", "highest MaxVio"})
      QVERIFY2(cards[0]->text().contains(words), words);
  }

  void tilesNameTheWorstLayer() {
    Selection selection;
    const HistoryPtr history = sample("unbalanced_bf16");
    selection.setHistories({history});
    BalancePanel panel(&selection);
    panel.resize(420, 320);
    panel.show();
    panel.grab();
    const auto says = [&](const char* name, Metric metric, Worst worst) {
      const LayerValue found = worst_layer(*history, metric, selection.step(), worst);
      QVERIFY(found.layer > 0);
      const QString text = tile(&panel, name)->accessibleDescription();
      QVERIFY2(text.endsWith(QString("layer %1").arg(found.layer)), qPrintable(text));
    };
    says("MaxVio", Metric::max_vio_window, Worst::largest);
    says("Entropy", Metric::entropy_norm, Worst::smallest);
    QVERIFY(panel.csv().contains("\"MaxVio (window), layer "));
    for (int step = 0; step < 1300; step += 100) {  // the worst by the figure itself, not by its mean
      const LayerValue worst = worst_layer(*history, Metric::max_vio, step);
      for (const int layer : history->info().moe_layers)
        QVERIFY(history->value_at(Metric::max_vio, layer, step) <= worst.value);
    }
    panel.findChild<QComboBox*>()->setCurrentIndex(0);
    panel.grab();
    QVERIFY(tile(&panel, "MaxVio")->accessibleDescription().endsWith("mean of layers"));
  }

  void findingsAreSpansOnTheTimeline() {
    Selection selection;
    const HistoryPtr history = sample("unbalanced_bf16");
    selection.setHistories({history});
    TimelineBar bar(&selection);
    bar.resize(900, 40);
    bar.show();
    TimelineTrack* track = bar.track();
    track->grab();
    const std::vector<Finding> findings = find_all(history);
    track->setFindings(findings);
    track->grab();
    // Severe ones lie on top, of these the last to begin.
    QVERIFY(track->spansAt({track->xOf(1300), 8}).isEmpty());
    int lane = 0;
    while (lane < track->height() && track->spansAt({track->xOf(1300), lane}).isEmpty()) ++lane;
    const QStringList severe = track->spansAt({track->xOf(1300), lane});
    QVERIFY2(severe.size() >= 3, qPrintable(severe.join("; ")));
    QVERIFY2(severe[0].contains("has collapsed, since step"), qPrintable(severe[0]));
    QVERIFY(track->spansAt({track->xOf(10), lane}).filter("has collapsed").isEmpty());
    const Finding* newest = nullptr;
    for (const Finding& f : findings)
      if (f.severity == Severity::severe && (!newest || f.steps.first > newest->steps.first)) newest = &f;
    const StepRange range = selection.range();
    QTest::mouseClick(track, Qt::LeftButton, {}, {track->xOf(1300), lane});
    QCOMPARE(selection.step(), newest->steps.first);
    QCOMPARE(selection.layer(), newest->layers.front());
    QCOMPARE(selection.expert(), newest->experts.front());
    QCOMPARE(selection.range(), range);
    QTest::mouseClick(track, Qt::LeftButton, {}, {track->xOf(1300), 8});  // above them it scrubs, as before
    QCOMPARE(selection.step(), track->stepAt(track->xOf(1300)));
  }

  void marksThatShareAPixelAreAllTold() {
    Selection selection;
    MadeUp run("[router]\nkilled_experts = \"\"\n");
    run.steps(2000, MadeUp::even(), MadeUp::even());
    run.history()->append(change_marker(0, 1000, "router.killed_experts", "", "1:5"));
    run.history()->append(change_marker(0, 1001, "router.pinned_bias", "", "2:2=1"));
    selection.setHistories({run.history()});
    TimelineTrack track(&selection);
    track.resize(600, 38);
    track.show();
    track.grab();
    const QStringList told = track.textAt({track.xOf(1000), 8});
    QCOMPARE(told.size(), 2);
    QVERIFY2(told[0].startsWith("step 1,000: kill 1:5 ("), qPrintable(told[0]));
    QVERIFY2(told[1].startsWith("step 1,001: pin 2:2 = 1 ("), qPrintable(told[1]));
    QVERIFY(track.textAt({track.xOf(300), 8}).isEmpty());
  }

  void goesToAStep() {
    MainWindow window(false);
    window.show();
    window.files()->open({samplePath("unbalanced_bf16")});
    QTRY_VERIFY(window.selection()->history());
    Selection* selection = window.selection();
    QAction* go = nullptr;
    for (QAction* action : window.findChildren<QAction*>())
      if (action->shortcut() == QKeySequence("Ctrl+G")) go = action;
    QVERIFY(go);
    selection->setRange({1000, 1099});
    double most = 0;
    QTimer::singleShot(0, [&most] {
      auto* dialog = qobject_cast<QInputDialog*>(QApplication::activeModalWidget());
      QVERIFY(dialog);
      most = dialog->doubleMaximum();
      dialog->setDoubleValue(300);
      dialog->accept();
    });
    go->trigger();
    QCOMPARE(most, static_cast<double>(selection->history()->steps().last));
    QCOMPARE(selection->step(), 300);
    QCOMPARE(selection->range(), (StepRange{250, 349}));
  }

  void theLoadScaleOpens() {
    QCOMPARE(utilisationCode(4, LoadScale::to_4), 255);
    QCOMPARE(utilisationCode(16, LoadScale::to_16), 255);
    QCOMPARE(utilisationCode(64, LoadScale::to_64), 255);
    QCOMPARE(utilisationCode(4, LoadScale::to_16), utilisationCode(2));  // half-way either way
    QCOMPARE(utilisationCode(1, LoadScale::to_64), utilisationCode(1));
    QCOMPARE(utilisationCode(0, LoadScale::to_64), kZeroLoadCode);
    QCOMPARE(utilisationCode(NAN, LoadScale::to_16), kNoDataCode);
    Selection selection;
    const HistoryPtr history = sample("unbalanced_bf16");
    selection.setHistories({history});
    ExpertLoadPanel panel(&selection);
    panel.resize(700, 400);
    panel.show();
    auto* cells = panel.findChild<MatrixPlot*>();
    cells->grab();
    const RouterFrame& router = selection.frame()->routers[0];
    const auto fullest = std::ranges::max_element(router.tokens_per_expert) - router.tokens_per_expert.begin();
    const int column = static_cast<int>(fullest);
    QVERIFY(utilisation(router.tokens_per_expert, static_cast<std::size_t>(fullest)) > 4);
    const QRgb before = cells->cellColor(0, column);
    auto* scale = panel.findChild<LoadScaleButton*>();
    scale->click();
    cells->grab();
    QCOMPARE(scale->text(), QString("to 16x"));
    QVERIFY(cells->cellColor(0, column) != before);
    const QVariantMap state = panel.saveState();
    ExpertLoadPanel other(&selection);
    other.restoreState(state);
    QCOMPARE(other.findChild<LoadScaleButton*>()->text(), QString("to 16x"));
  }

  void whatIsOnSomeStepsOnlyComesFromTheLast() {
    MadeUp run;
    for (int step = 0; step < 129; ++step) {
      TelemetryFrame& frame = run.next();
      frame.routers = {run.router(1, MadeUp::even()), run.router(2, MadeUp::even())};
      for (RouterFrame& router : frame.routers) {
        if (step % 10 == 0) router.expert_bias.assign(MadeUp::kExperts, 0.01f * static_cast<float>(step));
        if (step % 10 == 0) router.gate_mass.assign(MadeUp::kExperts, 1.0f / MadeUp::kExperts);
        if (step % 10 != 0) router.margin = kNoValue;
      }
      run.push();
    }
    const std::int64_t older = 120;
    const HistoryPtr history = run.history();
    Selection selection;
    selection.setHistories({history});
    QCOMPARE(selection.step(), 128);
    selection.setLayer(2);
    selection.setExpert(7);
    ExpertPanel card(&selection);
    card.resize(360, 600);
    card.show();
    card.grab();
    const QString bias = tile(&card, "Bias")->accessibleDescription();
    QVERIFY2(bias.startsWith("1.2"), qPrintable(bias));
    QVERIFY2(bias.endsWith("step 120"), qPrintable(bias));
    QVERIFY(tile(&card, "Score mass")->accessibleDescription().startsWith("not in log"));

    GateMassAgainstLoadPanel gates(&selection);
    gates.resize(500, 300);
    gates.show();
    gates.grab();
    QVERIFY(gates.findChild<PlotFrame*>()->notice().isEmpty());
    QVERIFY2(gates.caption().contains("step 120"), qPrintable(gates.caption()));

    RouterConfidenceAndLossesPanel confidence(&selection);
    confidence.resize(500, 300);
    confidence.show();
    confidence.grab();
    const QString margin = tile(&confidence, "Margin")->accessibleDescription();
    QVERIFY2(margin.endsWith("step 120"), qPrintable(margin));
    selection.setStep(older);
    confidence.grab();
    QCOMPARE(tile(&confidence, "Margin")->accessibleDescription().section(", ", 1), QString("mean of layers"));
  }

  void aLogIsLaidOutByWhatItHolds() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    window.workspaces()->bringUp(window.workspaces()->compare());
    window.files()->open({samplePath("unbalanced_bf16")});
    QTRY_VERIFY(window.selection()->history());
    QCOMPARE(window.workspaces()->current(), window.workspaces()->overview());  // nothing to compare
    auto* lacks = window.workspaces()->overview()->findChild<QFrame*>("lacks");
    QTRY_VERIFY(lacks->isVisible());
    const QString words = lacks->findChild<FittedLabel*>()->text();
    const QString hidden = lacks->findChild<FittedLabel*>()->toolTip();
    QVERIFY2(words.contains("copies between ranks, quantization statistics"), qPrintable(words));
    const auto dock = [&](const char* name) { return window.workspaces()->overview()->findChild<QDockWidget*>(name); };
    for (const char* name : {"dock_all_to_all", "dock_scale_histogram", "dock_quant_error"}) {
      QVERIFY2(hidden.contains(dock(name)->windowTitle()), name);
      QVERIFY2(dock(name)->isHidden(), name);
    }
    QVERIFY(!dock("dock_balance")->isHidden());
    Overview* overview = window.workspaces()->overview();
    QVERIFY(overview->tabifiedDockWidgets(dock("dock_balance")).isEmpty());  // the findings have a place of their own
    // The layout that is kept has all panels, and what was arranged meanwhile.
    dock("dock_load_over_time")->hide();
    const QVariantMap kept = overview->remembered();
    emit lacks->findChild<QLabel*>()->linkActivated("#");
    QVERIFY(dock("dock_load_over_time")->isHidden());
    QVERIFY(!lacks->isVisible());
    for (const char* name : {"dock_all_to_all", "dock_scale_histogram", "dock_quant_error"})
      QVERIFY2(!dock(name)->isHidden(), name);
    QVERIFY(overview->tabifiedDockWidgets(dock("dock_balance")).contains(dock("dock_findings")));
    dock("dock_load_over_time")->show();
    overview->restore(kept);
    QVERIFY(dock("dock_load_over_time")->isHidden());
    dock("dock_load_over_time")->show();
    QVERIFY(dock("dock_quant_error")->isHidden());  // folded again: it is still that log

    // The other workspaces, each with at least one panel left.
    const auto shown = [&](const char* workspace) {
      QStringList names;
      for (const Workspace* of : window.workspaces()->all())
        for (const QDockWidget* each :
             of->name().compare(workspace, Qt::CaseInsensitive) == 0 ? of->docks() : QList<QDockWidget*>())
          if (!each->isHidden()) names << each->objectName();
      return names.join(' ');
    };
    QCOMPARE(shown("all-to-all"), QString("dock_a2a_matrix"));
    QCOMPARE(shown("microscaling"), QString("dock_tensor_lab dock_formats"));
    QCOMPARE(shown("text"),
             QString("dock_text_specialisation dock_text_coactivation dock_text_bytes"));
    QCOMPARE(shown("compare"),
             QString("dock_compare_loss dock_compare_gap dock_compare_table dock_compare_load_difference"));

    auto* bar = window.findChild<LivePopover*>();
    QVERIFY(!bar->editor("optimizer.lr")->isEnabled());
    QMenu* menu = nullptr;
    for (QMenu* each : window.findChildren<QMenu*>())
      if (each->title() == "&Run") menu = each;
    QVERIFY(menu);
    emit menu->aboutToShow();
    int off = 0;
    for (QAction* action : menu->actions())
      off += !action->isEnabled() && action->toolTip().contains("nothing trains here");
    QCOMPARE(off, 5);  // compare with, noise twin, perturbed twin, two dense twins
    emit menu->aboutToHide();
  }
};

}  // namespace moescope

QTEST_MAIN(moescope::QtHealth)
#include "qt_health.moc"
