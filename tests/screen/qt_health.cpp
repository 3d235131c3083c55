// The verdict on the router: its banner, the layer that an opened log shows first, and the tiles.
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QInputDialog>
#include <QLabel>
#include <QMenu>
#include <QPushButton>
#include <QStandardPaths>
#include <QTest>
#include <QTextDocumentFragment>
#include <QTimer>
#include <algorithm>
#include <cmath>

#include "app/actions/file_actions.h"
#include "app/bars/popovers.h"
#include "app/setup/field_editor.h"
#include "app/window/main_window.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/frame/frame.h"
#include "core/frame/router_stats.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/recording/history/router_window.h"
#include "tests/support/controls.h"
#include "tests/support/made_up_run.h"
#include "tests/support/screen_test.h"
#include "widgets/look/fitted_text.h"
#include "widgets/overview/findings_panel.h"
#include "widgets/overview/health_banner.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/overview/sentence_links.h"
#include "widgets/overview/timeline_bar.h"
#include "widgets/overview/verdict_tiles.h"
#include "widgets/panel/explain_card.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/value_tile.h"
#include "widgets/router/balance_panel.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/expert_panel.h"
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
    for (ValueTile* candidate : panel->findChildren<ValueTile*>())
      if (candidate->text() == name) return candidate;
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
    QVERIFY2(banner->shownText().contains("experts 16, 28, 45"), qPrintable(banner->shownText()));
    Selection* selection = window.selection();
    const int worst = least_even_layer(*selection->history(), INT64_MAX).layer;
    QVERIFY(worst != 8);
    QCOMPARE(selection->layer(), worst);

    // A click on the banner beside its links shows the finding in the list of Router. The event is sent to the window,
    // as for a real mouse.
    QTest::mouseClick(window.windowHandle(), Qt::LeftButton, {}, banner->mapTo(&window, QPoint(40, 20)));
    QCOMPARE(window.workspaces()->current()->name(), QString("Router"));
    QCOMPARE(selection->layer(), worst);
    QVERIFY(selection->expert() >= 0);
    QVERIFY2(text.contains(QString("experts %1").arg(selection->expert())), qPrintable(text));
    QVERIFY2(text.contains(QString("since step %1").arg(selection->step())), qPrintable(text));
    auto* findings = window.workspaces()->router()->findChild<FindingsPanel*>();
    QTRY_VERIFY(findings->isVisible());
    FindingRow* open = nullptr;
    for (FindingRow* row : findings->findChildren<FindingRow*>())
      if (row->finding().layers.front() == worst && row->finding().kind == FindingKind::collapsed) open = row;
    QVERIFY(open);
    // The log is that of another program: its settings are cited, and none of this program is offered.
    QVERIFY(!open->findChild<QPushButton*>("router.bias_update_rate")->isVisible());
    QVERIFY(open->findChild<QLabel*>("stated")->text().startsWith("Settings that affect it: "));
  }

  // The tiles show the worst layer until the user chooses a layer.
  void theLayerOfAClickedFindingStaysChosen() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    window.files()->open({samplePath("unbalanced_bf16")});
    Selection* selection = window.selection();
    auto* balance = window.workspaces()->router()->findChild<BalancePanel*>();
    auto* findings = window.workspaces()->router()->findChild<FindingsPanel*>();
    QTRY_VERIFY_WITH_TIMEOUT(findings->findChildren<FindingRow*>().size() > 1, 60000);
    const auto layers = [&] {
      for (const QComboBox* box : balance->findChildren<QComboBox*>())
        if (box->accessibleName() == "Layers") return box->currentText();
      return QString();
    };
    QCOMPARE(layers(), QString("worst layer"));  // opening a file chooses no layer
    const StepRange all = selection->history()->steps();
    emit findings->findChild<QLabel*>("more_findings")->linkActivated("all");
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);  // deletes the rows of several layers
    for (FindingRow* row : findings->findChildren<FindingRow*>()) {
      if (row->finding().layers.empty()) continue;
      emit row->clicked();
      const int chosen = row->finding().layers.front();
      QCOMPARE(selection->layer(), chosen);
      QCOMPARE(layers(), QString("layer %1").arg(chosen));
      for (std::int64_t step = all.first; step <= all.last; step += all.size() / 7) {
        selection->setStep(step);
        QCOMPARE(balance->findChildren<ValueTile*>().front()->figure().layer, chosen);
      }
    }
  }

  void layersExpertsAndStepsOfTheSentenceAreLinks() {
    const QString html = withLinks(
        "3 of 8 MoE layers have collapsed (1, 2 and 13). Worst: layer 12, since step 1,480: experts 16, 28 and 3 more "
        "take 46 % of its token copies and 171 of 256 get none.");
    for (const char* link :
         {"'layer:1'", "'layer:13'", "'layer:12'>layer 12<", "'step:1480'>step 1,480<", "'expert:16'", "'expert:28'"})
      QVERIFY2(html.contains(link), link);
    QCOMPARE(static_cast<int>(html.count("<a ")), 7);
    QCOMPARE(QTextDocumentFragment::fromHtml(html).toPlainText().left(60),
             QString("3 of 8 MoE layers have collapsed (1, 2 and 13). Worst: layer").left(60));
    // The number of experts that are not named is no expert.
    for (const int more : {3, 34, 250, 1234}) {
      const QString sentence = QString("experts 7, 12, 30, 41, 55, 63 and %1 more get no token.").arg(more);
      const QString links = withLinks(sentence);
      QCOMPARE(static_cast<int>(links.count("<a ")), 6);
      QVERIFY2(links.contains(QString(" and %1 more get").arg(more)), qPrintable(links));
      QCOMPARE(QTextDocumentFragment::fromHtml(links).toPlainText(), sentence);
    }

    Selection selection;
    FindingsWatch watch(&selection);
    HealthBanner banner(&selection, &watch);
    banner.resize(1400, banner.sizeHint().height());
    banner.show();
    selection.setHistories({sample("unbalanced_bf16")});
    QTRY_VERIFY(banner.text().contains("Unhealthy"));
    // While the cursor is elsewhere, the sentence names the step of which it speaks.
    const StepRange all = selection.history()->steps();
    QVERIFY(!banner.text().contains("At step"));
    selection.setStep(all.first + 100);
    QVERIFY2(banner.text().contains(QString("At step %1: ").arg(formatCount(all.last))), qPrintable(banner.text()));
    selection.setStep(all.last);
    QVERIFY(!banner.text().contains("At step"));
    QCOMPARE(withLinks("Experts 4 to 11, 13 and 15 to 19 get no token").count("expert:"), 5);
    auto* words = banner.findChild<QLabel*>("health_words");
    emit words->linkActivated("expert:7");
    QCOMPARE(selection.expert(), 7);
    emit words->linkActivated("layer:3");
    QCOMPARE(selection.layer(), 3);
    emit words->linkActivated("step:300");
    QCOMPARE(selection.step(), 300);
    auto* help = banner.findChild<QPushButton*>();
    QVERIFY(help->isVisible());
    help->click();
    const auto cards = banner.findChildren<ExplainCard*>();
    QCOMPARE(cards.size(), 1);
    QVERIFY2(cards[0]->text().contains("Try bias_update_rate > 0"), qPrintable(cards[0]->text()));
  }

  void noDigitOfTheVerdictIsCut_data() {
    QTest::addColumn<QString>("file");
    QTest::addColumn<QSize>("size");
    for (const char* file : {"unbalanced_bf16", "domain_shift"})
      for (const QSize size : {QSize(1024, 700), QSize(1280, 800), QSize(1440, 900), QSize(1920, 1080)})
        QTest::addRow("%s %d", file, size.width()) << QString(file) << size;
  }

  void noDigitOfTheVerdictIsCut() {
    QFETCH(QString, file);
    QFETCH(QSize, size);
    MainWindow window(false);
    window.resize(size);
    window.show();
    window.files()->open({samplePath(qPrintable(file))});
    auto* banner = window.workspaces()->overview()->findChild<HealthBanner*>();
    QTRY_VERIFY2(banner->text().contains("since step"), qPrintable(banner->text()));
    banner->grab();
    const auto* words = banner->findChild<QLabel*>("health_words");
    QVERIFY2(words->sizeHint().width() <= words->width() + 1, qPrintable(banner->shownText()));
    QVERIFY2(banner->shownText().endsWith('.'), qPrintable(banner->shownText()));
    int shown = 0;
    for (const VerdictTile* shown_tile : banner->findChildren<VerdictTile*>()) {
      if (!shown_tile->isVisible()) continue;
      ++shown;
      QVERIFY2(shown_tile->leastWidth() <= shown_tile->width(), qPrintable(shown_tile->text()));
    }
    QVERIFY(shown >= 3);
  }

  // The verdict and the tiles use the same window of steps: the sentence's multiple of the fair share is MaxVio + 1.
  void verdictAndTilesAreOfTheSameSteps() {
    Selection selection;
    FindingsWatch watch(&selection);
    HealthBanner banner(&selection, &watch);
    banner.addTiles();
    banner.resize(1400, banner.sizeHint().height());
    banner.show();
    MadeUp run("[router]\nbias_update_rate = 0.001\naux_mode = \"none\"\n");
    MadeUp::Shares shares = MadeUp::even();
    for (int step = 0; step < 327; ++step) {  // the load drifts; 327 is not a multiple of a block's 10 steps
      shares[3] = 1 + 0.002 * step;
      run.steps(1, shares, MadeUp::even());
    }
    selection.setHistories({run.history()});
    QTRY_VERIFY2(banner.text().contains("expert 3 gets"), qPrintable(banner.text()));
    auto* tiles = banner.findChild<VerdictTiles*>();
    tiles->grab();
    const double told_ratio = banner.text().section("expert 3 gets ", 1).section(' ', 0, 0).toDouble();
    const double tile = tiles->tiles()[0]->content().value.toDouble();
    QVERIFY2(std::abs(told_ratio - 1 - tile) < 0.006, qPrintable(QString("%1, %2").arg(told_ratio).arg(tile)));
    QVERIFY(tiles->tiles()[0]->content().context[0].contains("layer 1, expert 3"));
    QVERIFY(tiles->tiles()[0]->content().context[0].contains("chance alone: 0.0"));
    QCOMPARE(tiles->tiles()[3]->content().value, QString("0"));
    QCOMPARE(tiles->tiles()[3]->content().unit, QString("of 32"));
    for (const VerdictTile* tile : tiles->tiles()) QCOMPARE(tile->content().steps, QString("steps 277 to 326"));
    QVERIFY2(banner.text().contains("in steps 277 to 326"), qPrintable(banner.text()));
    tiles->tiles()[0]->click();
    QVERIFY(!banner.findChildren<ExplainCard*>().isEmpty());
    // If the cursor is at an earlier step, the tiles show this step.
    selection.setStep(60);
    tiles->grab();
    QVERIFY(tiles->tiles()[0]->content().value.toDouble() < tile - 0.2);
  }

  void tilesDropWholeWhereTheyDoNotFit() {
    Selection selection;
    FindingsWatch watch(&selection);
    VerdictTiles tiles(&selection, &watch, nullptr);
    MadeUp run;
    run.steps(100, MadeUp::even(), MadeUp::even());
    selection.setHistories({run.history()});
    tiles.show();
    int before = 5;
    for (const int width : {1400, 500, 330, 160}) {
      tiles.resize(width, tiles.sizeHint().height());
      tiles.grab();
      int shown = 0;
      for (const VerdictTile* shown_tile : tiles.tiles())
        if (shown_tile->isVisible()) {
          ++shown;
          QVERIFY(shown_tile->leastWidth() <= shown_tile->width());
        }
      QVERIFY(shown < before);
      before = shown;
    }
    QVERIFY(tiles.tiles()[0]->isVisible());
  }

  void theAnswersAreThoseOfTheirRuns() {
    MadeUp run;
    MadeUp::Shares full = MadeUp::even();
    full[3] = 4;
    const auto losses = [&](int steps, const MadeUp::Shares& shares, float from, float to) {
      for (int i = 0; i < steps; ++i) {
        TelemetryFrame& frame = run.next();
        frame.routers = {run.router(1, shares), run.router(2, MadeUp::even())};
        frame.ce_loss = from + (to - from) * static_cast<float>(i) / static_cast<float>(steps) + 0.01f * (i % 3);
        run.push();
      }
    };
    Selection selection;
    const auto answers = [&] {
      selection.setHistories({});
      selection.setHistories({run.history()});
      const LossPanel loss(&selection);
      const ExpertLoadPanel load(&selection, ExpertLoadPanel::over_time);
      return QStringList{loss.answerText(), load.answerText()};
    };
    losses(20, full, 5, 4.9f);
    QCOMPARE(answers()[0], QString("Is it learning? Too early to tell: 20 of 40 steps"));
    losses(400, full, 4.9f, 3);
    QVERIFY2(answers()[0].startsWith("Is it learning? Yes: down 0.9"), qPrintable(answers()[0]));
    QVERIFY2(answers()[0].endsWith("(medians of 50 losses, 200 steps apart)"), qPrintable(answers()[0]));
    QVERIFY2(
        answers()[1].startsWith("Who gets the tokens? 1 of 2 layers is uneven; expert 3 of layer 1 gets the most, 3."),
        qPrintable(answers()[1]));
    losses(400, MadeUp::even(), 3, 3);
    QVERIFY2(answers()[0].startsWith("Is it learning? Not measurably: changed by less than 0.0"),
             qPrintable(answers()[0]));
    QVERIFY2(answers()[1].startsWith("Who gets the tokens? Mostly even"), qPrintable(answers()[1]));
    losses(300, MadeUp::even(), 3, 3.8f);
    QVERIFY2(answers()[0].startsWith("Is it learning? No: up 0."), qPrintable(answers()[0]));
    run.next().ce_loss = std::nanf("");
    run.push();
    QCOMPARE(answers()[0], QString("Is it learning? No: the loss is NaN or infinite"));
  }

  void equalLoadsHaveNoFullestExpert() {
    MadeUp run;
    for (int step = 0; step < 60; ++step) {
      RouterFrame router = run.router(1, MadeUp::even());
      std::ranges::fill(router.tokens_per_expert, 128u);
      router.max_vio = 0;
      run.next().routers = {router};
      run.push();
    }
    Selection selection;
    selection.setHistories({run.history()});
    using View = ExpertLoadPanel::View;
    for (const View view : {ExpertLoadPanel::over_time, ExpertLoadPanel::all_layers, ExpertLoadPanel::one_layer}) {
      const QString answer = ExpertLoadPanel(&selection, view).answerText();
      QVERIFY2(answer.endsWith("? All experts get their fair share"), qPrintable(answer));
    }
  }

  void aHealthyRunSaysSoAndAYoungOneThatItIsYoung() {
    Selection selection;
    FindingsWatch watch(&selection);
    HealthBanner banner(&selection, &watch);
    MadeUp run("[router]\nbias_update_rate = 0.001\naux_mode = \"none\"\n");
    run.steps(60, MadeUp::even(), MadeUp::even());
    selection.setHistories({run.history()});
    QVERIFY(banner.text().contains("Reading"));
    QTRY_VERIFY2(banner.text().contains("Too early to tell 60 of about 150 steps."), qPrintable(banner.text()));
    run.steps(200, MadeUp::even(), MadeUp::even());
    selection.refresh();
    QTRY_VERIFY2(banner.text().contains("Healthy"), qPrintable(banner.text()));
    banner.resize(1400, banner.sizeHint().height());
    banner.grab();
    QCOMPARE(banner.shownBalance(), QString("Balance: bias update rate 0.001, no auxiliary loss"));

    // When another run is opened, the verdict on the one before disappears immediately.
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
    FindingsWatch watch(&selection);
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
    const auto says = [&](const char* name, Metric metric, Worst worst, const QString& steps) {
      const LayerValue found = worst_layer(*history, metric, selection.step(), worst);
      QVERIFY(found.layer > 0);
      const QString text = tile(&panel, name)->accessibleDescription();
      QVERIFY2(text.endsWith(QString(", layer %1, %2").arg(found.layer).arg(steps)), qPrintable(text));
    };
    says("MaxVio", Metric::max_vio_window, Worst::largest, "5 loads, steps 1,300 to 1,380");
    says("Entropy", Metric::max_vio_window, Worst::largest, "5 loads, steps 1,300 to 1,380");  // the same place
    const LayerValue uneven = worst_layer(*history, Metric::max_vio_window, selection.step());
    const LayerWindow window = layer_window(*history, uneven.layer, selection.step());
    QVERIFY(tile(&panel, "CV")->accessibleDescription().startsWith(formatValue(window.cv, 3)));
    QVERIFY(tile(&panel, "Entropy")->accessibleDescription().startsWith(formatPercent(window.entropy)));
    QVERIFY(panel.csv().contains("\"MaxVio (window), layer "));
    for (int step = 0; step < 1300; step += 100) {  // the worst layer is that of each step, not of the mean
      const LayerValue worst = worst_layer(*history, Metric::max_vio, step);
      for (const int layer : history->info().moe_layers)
        QVERIFY(history->value_at(Metric::max_vio, layer, step) <= worst.value);
    }
    panel.findChild<QComboBox*>()->setCurrentIndex(0);
    panel.grab();
    QVERIFY(tile(&panel, "MaxVio")->accessibleDescription().contains(", mean of layers, 5 loads, steps "));
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
    // Spans of severe findings are on top; among them, the one that began last.
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
    QTest::mouseClick(track, Qt::LeftButton, {}, {track->xOf(1300), 8});  // a click above the spans moves the cursor
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
    const QStringList lines = track.textAt({track.xOf(1000), 8});
    QCOMPARE(lines.size(), 2);
    QVERIFY2(lines[0].startsWith("step 1,000: kill 1:5 ("), qPrintable(lines[0]));
    QVERIFY2(lines[1].startsWith("step 1,001: bias of 2:2 = 1 ("), qPrintable(lines[1]));
    QVERIFY(track.textAt({track.xOf(300), 8}).isEmpty());
  }

  void theLossOnTheTimelineBeginsAtTheFirstStep() {
    Selection selection;
    MadeUp run;
    run.steps(5, MadeUp::even(), MadeUp::even());
    selection.setHistories({run.history()});
    TimelineTrack track(&selection);
    track.resize(600, 38);
    track.show();
    track.grab();
    const QImage picture = track.grab().toImage();
    const auto has_curve = [&](int x) {
      for (int y = 0; y < picture.height(); ++y)
        if (picture.pixelColor(x, y) == seriesColor(0, false)) return true;
      return false;
    };
    QVERIFY(has_curve(track.xOf(0) + 1));
    QVERIFY(has_curve(track.xOf(2)));
    QVERIFY(!has_curve(track.xOf(0) - 3));
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
    double largest_bias = 0;
    QTimer::singleShot(0, [&largest_bias] {
      auto* dialog = qobject_cast<QInputDialog*>(QApplication::activeModalWidget());
      QVERIFY(dialog);
      largest_bias = dialog->doubleMaximum();
      dialog->setDoubleValue(300);
      dialog->accept();
    });
    go->trigger();
    QCOMPARE(largest_bias, static_cast<double>(selection->history()->steps().last));
    QCOMPARE(selection->step(), 300);
    QCOMPARE(selection->range(), (StepRange{250, 349}));
  }

  // The scale of the load reaches the largest load that lasts, and the largest of the step in the view of a step.
  void theLoadScaleReachesTheData() {
    QCOMPARE(utilisationCode(16, 16), 255);
    QCOMPARE(utilisationCode(64, 64), 255);
    for (const double load : {0.5, 0.7, 1.0, 1.3, 2.0}) QCOMPARE(utilisationCode(load, 64), utilisationCode(load));
    QVERIFY(utilisationCode(4, 16) < utilisationCode(4) && utilisationCode(4, 64) < utilisationCode(16, 64));
    const auto weights =
        utilisationWeights(64);  // of cells that share a pixel, the one with the largest weight is drawn
    QVERIFY(weights[utilisationCode(16, 64)] > weights[kZeroLoadCode]);
    QVERIFY(weights[utilisationCode(3, 64)] < weights[kZeroLoadCode]);
    QVERIFY(weights[utilisationCode(1 / 64.0, 64)] < weights[kZeroLoadCode]);
    QCOMPARE(utilisationCode(1, 64), utilisationCode(1));
    QCOMPARE(utilisationCode(0, 64), kZeroLoadCode);
    QCOMPARE(utilisationCode(NAN, 16), kNoDataCode);
    Selection selection;
    selection.setHistories({sample("unbalanced_bf16")});
    ExpertLoadPanel panel(&selection);
    panel.resize(700, 400);
    panel.show();
    auto* cells = panel.findChild<MatrixPlot*>();
    cells->grab();
    const Lut lut = utilisationLut(isDark(panel.palette()));
    int row = 0;
    for (const RouterFrame& router : selection.frame()->routers) {
      const auto& counts = router.tokens_per_expert;
      for (std::size_t e = 0; e < counts.size(); ++e) {
        const double load = static_cast<double>(utilisation(counts, e));
        QVERIFY2(load < 4 || cells->cellColor(row, static_cast<int>(e)) != lut[utilisationCode(4)],
                 qPrintable(QString("%1 times the fair share is drawn as 4").arg(load)));
      }
      ++row;
    }
    QVERIFY(cells->legend().high != utilisationLegend(false).high);
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
    QVERIFY(tile(&card, "Bias")->isVisible());
    QVERIFY(!tile(&card, "Score mass")->isVisible());  // the run has no score mass

    RouterConfidenceAndLossesPanel confidence(&selection);
    confidence.resize(500, 300);
    confidence.show();
    confidence.grab();
    const QString margin = tile(&confidence, "Margin")->accessibleDescription();
    QVERIFY2(margin.endsWith("step 120"), qPrintable(margin));
    selection.setStep(older);
    confidence.grab();
    QCOMPARE(tile(&confidence, "Margin")->accessibleDescription().section(", ", 1),
             QString("mean of layers, step 120"));
  }

  // A panel that replaces hidden panels has enough room.
  void twoLogsShowWhetherOneHasRegressed() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    Workspace* compare = window.workspaces()->compare();
    window.workspaces()->bringUp(compare);
    window.files()->open({samplePath("unbalanced_bf16"), samplePath("domain_shift")});
    QTRY_COMPARE(window.selection()->histories().size(), 2u);
    for (const QDockWidget* panel : compare->docks())
      if (panel->objectName() == "dock_compare_gap" || panel->objectName() == "dock_compare_regression")
        QTRY_VERIFY2(panel->geometry().left() >= 0 && panel->width() > compare->width() / 3 &&
                         panel->width() < compare->width() * 2 / 3,
                     qPrintable(panel->objectName()));
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
    QVERIFY2(words.contains("copies between ranks (\"volume\"), quantization statistics"), qPrintable(words));
    const auto dock = [&](const char* name) { return window.workspaces()->overview()->findChild<QDockWidget*>(name); };
    for (const char* name : {"dock_all_to_all", "dock_quant_error"}) {
      QVERIFY2(hidden.contains(dock(name)->windowTitle()), name);
      QVERIFY2(dock(name)->isHidden(), name);
    }
    QVERIFY(!dock("dock_expert_load")->isHidden());
    Overview* overview = window.workspaces()->overview();
    // The saved layout has all panels, and what the user has changed since. A hidden panel that the user has shown and
    // closed again stays closed.
    dock("dock_loss")->hide();
    dock("dock_all_to_all")->toggleViewAction()->trigger();
    QVERIFY(!dock("dock_all_to_all")->isHidden());
    dock("dock_all_to_all")->close();
    const QVariantMap remembered = overview->remembered();
    for (QLabel* label : lacks->findChildren<QLabel*>())
      if (label->accessibleName() == "Show the hidden panels") emit label->linkActivated("#");
    QVERIFY(dock("dock_loss")->isHidden());
    QVERIFY(!dock("dock_quant_error")->isHidden());
    QVERIFY(dock("dock_all_to_all")->isHidden());
    for (QLabel* label : lacks->findChildren<QLabel*>())
      if (label->accessibleName() == "Hide the panels without data") emit label->linkActivated("#");
    QVERIFY(lacks->isVisible() && dock("dock_quant_error")->isHidden());
    dock("dock_loss")->show();
    overview->restore(remembered);
    for (const char* name : {"dock_loss", "dock_all_to_all"}) QVERIFY2(dock(name)->isHidden(), name);
    dock("dock_loss")->show();
    QVERIFY(dock("dock_quant_error")->isHidden());  // hidden again, because the log has no such data

    // Each of the other workspaces shows at least one panel.
    const auto shown = [&](const char* workspace) {
      QStringList names;
      for (const Workspace* candidate : window.workspaces()->all())
        for (const QDockWidget* shown_dock : candidate->name().compare(workspace, Qt::CaseInsensitive) == 0
                                                 ? candidate->docks()
                                                 : QList<QDockWidget*>())
          if (!shown_dock->isHidden()) names << shown_dock->objectName();
      return names.join(' ');
    };
    QCOMPARE(shown("all-to-all"), QString("dock_a2a_placement"));
    QCOMPARE(shown("microscaling"), QString("dock_micro_microscope"));
    QCOMPARE(shown("text"), QString("dock_text_specialisation dock_text_coactivation"));
    QCOMPARE(shown("compare"), QString("dock_compare_table"));

    auto* bar = window.findChild<LivePopover*>();
    QVERIFY(!bar->editor(&OptimizerConfig::lr)->isEnabled());
    QMenu* menu = nullptr;
    for (QMenu* candidate : window.findChildren<QMenu*>())
      if (candidate->title() == "&Run") menu = candidate;
    QVERIFY(menu);
    emit menu->aboutToShow();
    int off = 0;
    for (QAction* action : menu->actions())
      off += !action->isEnabled() && action->toolTip().contains("Only for a run in training");
    QCOMPARE(off, 4);  // Compare with, a noise twin, two dense twins
    emit menu->aboutToHide();
  }
};

}  // namespace moescope

SCREEN_TEST(moescope::QtHealth)
#include "qt_health.moc"
