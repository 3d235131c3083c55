// Findings on the screen: the list, the evidence and the settings of each finding, and the number of findings.
#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QLabel>
#include <QMenu>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTest>
#include <algorithm>
#include <limits>

#include "app/actions/file_actions.h"
#include "app/bars/popovers.h"
#include "app/bars/status_line.h"
#include "app/setup/field_editor.h"
#include "app/setup/setup_form.h"
#include "app/window/main_window.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/logs/lines/import_jsonl.h"
#include "tests/support/controls.h"
#include "tests/support/made_up_run.h"
#include "tests/support/screen_test.h"
#include "tests/support/synthetic_run.h"
#include "widgets/overview/findings_panel.h"
#include "widgets/overview/health_banner.h"
#include "widgets/panel/explain_card.h"

namespace moescope {

namespace {

std::shared_ptr<const History> sample(const char* name) {
  return import_jsonl(std::string(MOESCOPE_TEST_DATA) + "/../assets/samples/" + name + ".jsonl").runs.front();
}

// A made-up run of this program in which two experts of layer 1 get all tokens.
MadeUp collapsedRun() {
  MadeUp run("[router]\nbias_update_rate = 0.0\naux_coeff = 0.0\n");
  MadeUp::Shares two{};
  two[3] = two[7] = 1;
  run.steps(400, two, MadeUp::even());
  return run;
}

struct ShownPanel {
  Selection selection;
  FindingsWatch watch{&selection};
  FindingsPanel panel{&selection, &watch};
  ShownPanel() {
    panel.resize(340, 600);
    panel.show();
  }
  void open(const std::shared_ptr<const History>& history = sample("unbalanced_bf16")) {
    selection.setHistories({history});
    QTRY_VERIFY(watch.ready());
  }
};

}  // namespace

class QtFindings : public QObject {
  Q_OBJECT

 private:
  // Returns the rows of the list from top to bottom.
  static QList<FindingRow*> rows(FindingsPanel& panel) {
    QApplication::processEvents();
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);  // deletes rows before the last update
    panel.grab();                                                         // lays out the rows
    QList<FindingRow*> shown = panel.findChildren<FindingRow*>();
    std::ranges::sort(shown, {}, &QWidget::y);
    return shown;
  }
  static void click(QWidget* widget) { QTest::mouseClick(widget, Qt::LeftButton, {}, {20, 5}); }
  static bool isOpen(const FindingRow* row) {
    const auto* words = row->findChild<QLabel*>("words");
    return words && words->isVisibleTo(row);
  }
  static void showAll(FindingsPanel& panel) { emit panel.findChild<QLabel*>("more_findings")->linkActivated("all"); }
  static bool says(const FindingsPanel& panel, const QString& words) {
    return std::ranges::any_of(panel.findChildren<QLabel*>(), [&](const QLabel* label) {
      return label->isVisibleTo(&panel) && label->text().contains(words);
    });
  }

 private slots:
  void initTestCase() { QStandardPaths::setTestModeEnabled(true); }

  void theListTellsAndShowsTheEvidence() {
    ShownPanel shown;
    auto& [selection, watch, panel] = shown;
    panel.resize(340, 300);
    QVERIFY(!watch.ready());
    QVERIFY(says(panel, "No run"));
    shown.open();
    QCOMPARE(watch.count(Severity::severe), 3);
    const QList<FindingRow*> first = rows(panel);
    const auto in_sight = std::ranges::count_if(first, [](const FindingRow* row) { return row->isVisible(); });
    QVERIFY(in_sight >= 3);  // as many as have room
    // Layers with the same fault have one row until it is opened.
    QVERIFY2(first[0]->accessibleName().endsWith(": 3 layers have collapsed: 1, 2 and 3"),
             qPrintable(first[0]->accessibleName()));
    click(first[0]);
    QVERIFY(isOpen(rows(panel)[0]) && rows(panel)[2]->finding().layers.front() == 3);
    QTest::keyClick(&panel, Qt::Key_Escape);
    QCOMPARE(rows(panel).size(), first.size());
    showAll(panel);
    QVERIFY(rows(panel).size() >= 7);
    const Finding third = rows(panel)[2]->finding();
    QCOMPARE(third.layers.front(), 3);

    click(rows(panel)[2]);
    QCOMPARE(selection.layer(), 3);
    QCOMPARE(selection.expert(), third.experts.front());
    QVERIFY(third.ongoing && selection.showsAll());  // only the steps of a finding that is over are zoomed to
    QVERIFY(isOpen(rows(panel)[2]));
    QVERIFY(!isOpen(rows(panel)[1]));
    QTest::keyClick(&panel, Qt::Key_Up);
    QCOMPARE(selection.layer(), 2);
    QVERIFY(isOpen(rows(panel)[1]));

    const auto before = rows(panel).size();
    QTest::keyClick(&panel, Qt::Key_Delete);  // mutes the finding
    QTRY_COMPARE(rows(panel).size(), before - 1);
    QCOMPARE(watch.count(Severity::severe), 2);
    QVERIFY(!watch.text().contains("Layer 2 has collapsed"));
    QVERIFY(watch.text().contains("Layer 3 has collapsed"));
    QVERIFY(panel.csv().contains("Layer 3 has collapsed"));
    QVERIFY(panel.explain().contains("MaxVio"));
  }

  void rowsAreWholeAboveTheLinkToTheOthers() {
    for (const int height : {130, 170, 195, 210, 230}) {
      ShownPanel shown;
      shown.panel.resize(340, height);
      shown.open();
      const QList<FindingRow*> listed = rows(shown.panel);
      const auto* more = shown.panel.findChild<QLabel*>("more_findings");
      const auto bottom = [&](const QWidget* widget) {
        return widget->mapTo(&shown.panel, widget->rect().bottomLeft()).y();
      };
      QVERIFY(more->isVisibleTo(&shown.panel) && bottom(more) < height);
      for (const FindingRow* row : listed)
        if (row->isVisibleTo(&shown.panel)) QVERIFY2(bottom(row) < more->mapTo(&shown.panel, QPoint()).y(), "cut");
    }
  }

  void theVerdictOnAnotherRunIsNamedBeside() {
    Selection selection;
    FindingsWatch watch(&selection);
    HealthBanner banner(&selection, &watch);
    MadeUp even("[router]\nbias_update_rate = 0.001\n");
    even.steps(400, MadeUp::even(), MadeUp::even());
    selection.setHistories({even.history(), sample("unbalanced_bf16")});
    QTRY_VERIFY(watch.health(0) && watch.health(1));
    QTRY_VERIFY2(banner.accessibleDescription().contains("B  Unhealthy, step 1,380 3 of 8 MoE layers"),
                 qPrintable(banner.accessibleDescription()));
    QVERIFY(banner.shownText().startsWith("A  "));
    selection.setHistories({even.history(), sample("unbalanced_bf16"), sample("unbalanced_bf16")});
    QTRY_VERIFY2(
        banner.accessibleDescription().contains("C  Unhealthy, step 1,380 \u00b7 B  Unhealthy, step 1,380 3 of"),
        qPrintable(banner.accessibleDescription()));
  }

  // A log of another program has no settings that could be opened here: the finding cites what the log says.
  void theSettingsOfALogAreCited() {
    ShownPanel shown;
    shown.open();
    const auto setting = [&](const char* name) { return rows(shown.panel).front()->findChild<QWidget*>(name); };
    click(rows(shown.panel).front());
    QVERIFY(!setting("router.bias_update_rate")->isVisible());
    QVERIFY(setting("stated")->isVisible());
    const QString stated = qobject_cast<QLabel*>(setting("stated"))->text();
    QVERIFY2(stated.contains("(bias_update_rate = 0") && stated.contains("(aux_coeff = 0"), qPrintable(stated));

    shown.open(collapsedRun().history());
    click(rows(shown.panel).front());
    QVERIFY(!setting("stated")->isVisible());
    QSignalSpy knob(&shown.panel, &FindingsPanel::knobRequested);
    QTest::mouseClick(setting("router.bias_update_rate"), Qt::LeftButton);
    QCOMPARE(knob.size(), 1);
    QCOMPARE(knob[0][0].toString(), QString("router.bias_update_rate"));
  }

  void theCardsOfALogLinkNoSettings() {
    const auto log = sample("unbalanced_bf16");
    const auto card = [](const History& history) {
      FigureTarget target{.key = "max_vio"};
      target.layer = 1;
      target.step = history.steps().last;
      return figureCard(explain_figure(history, target));
    };
    QVERIFY2(!card(*log).contains("knob:") && card(*log).contains("now 0"), qPrintable(card(*log)));
    QVERIFY(card(*collapsedRun().history()).contains("knob:router.bias_update_rate"));
  }

  void theListOfTheChosenLayerFollowsIt() {
    ShownPanel shown;
    auto& [selection, watch, panel] = shown;
    shown.open();
    choose(&panel, "Layers", QString("layer %1").arg(selection.layer()));
    for (const int layer : {2, 3}) {
      selection.setLayer(layer);
      QVERIFY(!rows(panel).isEmpty());
      for (const FindingRow* row : rows(panel)) {
        const std::vector<int>& layers = row->finding().layers;
        QVERIFY(layers.empty() || std::ranges::find(layers, layer) != layers.end());
      }
    }
  }

  void theLinkOfMoreFindingsCountsThem() {
    ShownPanel shown;
    auto& [selection, watch, panel] = shown;
    panel.resize(340, 300);
    shown.open();
    auto* more = panel.findChild<QLabel*>("more_findings");
    QVERIFY(more->isVisible());
    const auto shown_rows = std::ranges::count_if(rows(panel), [](const FindingRow* row) { return row->isVisible(); });
    QVERIFY2(more->text().startsWith(QString("%1 findings in %2 rows: ").arg(watch.findings().size()).arg(shown_rows)),
             qPrintable(more->text()));
    showAll(panel);
    QCOMPARE(static_cast<std::size_t>(rows(panel).size()), watch.findings().size());
    QVERIFY(!more->isVisible());
  }

  void aListOfExpertsExpands() {
    ShownPanel shown;
    auto& [selection, watch, panel] = shown;
    shown.open();
    showAll(panel);
    FindingRow* starved = nullptr;
    for (FindingRow* row : rows(panel))
      if (!starved && row->finding().kind == FindingKind::starved) starved = row;
    QVERIFY(starved);
    const std::vector<int> experts = starved->finding().experts;
    QVERIFY(experts.size() > 8);
    auto* words = starved->findChild<QLabel*>("words");
    const auto names = [&](int expert) { return words->text().contains(QString("'expert:%1'").arg(expert)); };
    QVERIFY2(words->text().contains(QString("and %1 more").arg(experts.size() - 6)), qPrintable(words->text()));
    QVERIFY(names(experts[5]));
    QVERIFY(!names(experts.back()));
    emit words->linkActivated("more");
    for (const int expert : experts) QVERIFY(names(expert));
    emit words->linkActivated(QString("expert:%1").arg(experts.back()));
    QCOMPARE(selection.expert(), experts.back());
    QCOMPARE(selection.layer(), starved->finding().layers.front());
    emit words->linkActivated("more");
    QVERIFY(!names(experts.back()));
  }

  void aHealthyRunSaysWhatWasChecked() {
    ShownPanel shown;
    auto& [selection, watch, panel] = shown;
    SyntheticRun run({.layers = 3, .experts = 8, .quant_every = 0, .scalars_only = true});
    run.append(30);
    shown.open(run.history());
    QVERIFY(rows(panel).isEmpty());
    QVERIFY(says(panel, "Nothing found"));
    QVERIFY(says(panel, "Checks that passed:"));
    QVERIFY(says(panel, "The loss was finite at every step."));
    QVERIFY(says(panel, "Not checked:"));
    QVERIFY(says(panel, "needs tokens_per_expert"));
    QVERIFY(!says(panel, "starved"));
    run.append(100);  // new steps are read without a request
    selection.refresh();
    QTRY_VERIFY(watch.read().contains("0 to 129"));
  }

  void aLossThatWasNaNStaysInTheCount() {
    ShownPanel shown;
    auto& [selection, watch, panel] = shown;
    SyntheticRun run({.layers = 3, .experts = 8, .quant_every = 0, .scalars_only = true});
    run.append(23);
    auto lost = std::make_shared<TelemetryFrame>(*run.next());
    lost->ce_loss = std::numeric_limits<float>::quiet_NaN();
    run.history()->append(lost);
    selection.setHistories({run.history()});
    QTRY_COMPARE(watch.count(Severity::severe), 1);  // found in the steps after the last whole block
    QVERIFY(panel.csv().contains("loss NaN or infinite"));
    run.append(300);
    selection.refresh();
    QTRY_VERIFY(watch.read().contains("0 to 323"));
    QCOMPARE(watch.count(Severity::severe), 1);
    QVERIFY(!rows(panel).front()->finding().ongoing);
    QVERIFY(!panel.csv().contains("Nothing found"));
  }

  void severalRunsAreToldApart() {
    ShownPanel shown;
    auto& [selection, watch, panel] = shown;
    const RunInfo second = [] {
      RunInfo info = sample("unbalanced_bf16")->info();
      info.run = 1;
      return info;
    }();
    auto b = std::make_shared<History>(second);
    const auto a = sample("domain_shift");
    const auto source = sample("unbalanced_bf16");
    for (std::int64_t step = 0; step <= 1380; step += 20) b->append(source->frame_at(step));
    selection.setHistories({a, b});
    QTRY_VERIFY(watch.ready());
    FindingRow* row_of_b = nullptr;
    for (FindingRow* row : rows(panel))
      if (row->finding().kind == FindingKind::collapsed) row_of_b = row;
    QVERIFY(row_of_b);
    click(row_of_b);
    QCOMPARE(selection.run(), 1);
  }

  void theBadgeGivesWayToAMessage() {
    StatusLine line;
    line.show();
    auto* badge = line.findChild<QToolButton*>("findings_badge");
    line.showFindings(0, 1, true);
    QVERIFY(badge->isVisible());
    line.showMessage("expert 3, 67 tokens");
    line.showFindings(0, 2, true);
    QVERIFY(!badge->isVisible());
    line.clearMessage();
    QVERIFY(badge->isVisible());
    QCOMPARE(badge->text().right(10), QString("2 warnings"));
  }

  void theWindowGoesFromTheBadgeToTheSetting() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.files()->open({QString(MOESCOPE_TEST_DATA) + "/../assets/samples/unbalanced_bf16.jsonl"});
    QTRY_COMPARE(opened.size(), 1);
    QTRY_COMPARE(window.findChild<FindingsWatch*>()->count(Severity::severe), 3);
    auto* badge = window.findChild<QToolButton*>("findings_badge");
    QVERIFY(badge && badge->isVisible());
    QVERIFY(badge->text().contains("3 severe"));
    FindingsPanel* panel = window.workspaces()->router()->findChild<FindingsPanel*>();
    QTest::mouseClick(badge, Qt::LeftButton);  // lists all findings; the chosen one is opened
    auto* list = window.findChild<QMenu*>("findings_menu");
    QVERIFY(list && list->isVisible());
    QCOMPARE(list->actions().size(), static_cast<qsizetype>(window.findChild<FindingsWatch*>()->findings().size()));
    list->actions().front()->trigger();
    list->close();
    QTRY_VERIFY(panel->isVisible());
    window.selection()->setHistories(
        {collapsedRun().history()});  // a run of this program, whose settings can be opened
    QTRY_VERIFY(rows(*panel).front()->findChild<QPushButton*>("router.bias_update_rate"));
    if (!isOpen(rows(*panel).front())) click(rows(*panel).front());
    auto* setting = rows(*panel).front()->findChild<QPushButton*>("router.bias_update_rate");
    QTRY_VERIFY(setting->isVisible());
    QTest::mouseClick(setting, Qt::LeftButton);
    FieldEditor* editor =
        window.findChild<SetupForm*>()->editor("router.bias_update_rate");  // nothing trains: no live settings
    QTRY_VERIFY(editor->isVisible());
    QTRY_VERIFY(editor->visibleRegion().boundingRect().height() > 0);
  }
};

}  // namespace moescope

SCREEN_TEST(moescope::QtFindings)
#include "qt_findings.moc"
