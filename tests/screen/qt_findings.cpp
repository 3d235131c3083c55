// The findings on the screen: the list, its evidence, its knobs, and the badge.
#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QLabel>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTest>
#include <limits>

#include "app/actions/file_actions.h"
#include "app/bars/live_bar.h"
#include "app/bars/status_line.h"
#include "app/setup/field_editor.h"
#include "app/setup/setup_form.h"
#include "app/window/main_window.h"
#include "app/workspaces/overview.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/telemetry/logs/import_jsonl.h"
#include "tests/support/synthetic_run.h"
#include "widgets/overview/findings_panel.h"

namespace moescope {

class QtFindings : public QObject {
  Q_OBJECT

 private:
  static std::shared_ptr<const History> sample(const char* name) {
    return import_jsonl(std::string(MOESCOPE_TEST_DATA) + "/../assets/samples/" + name + ".jsonl").runs.front();
  }

 private slots:
  void initTestCase() { QStandardPaths::setTestModeEnabled(true); }

  void theListTellsAndShowsTheEvidence() {
    Selection selection;
    ComparedRuns runs;
    FindingsWatch watch(&selection, &runs);
    FindingsPanel panel(&selection, &watch);
    panel.resize(340, 300);
    panel.show();
    QVERIFY(!watch.ready());
    QVERIFY(panel.healthyText().contains("No run"));
    selection.setHistories({sample("unbalanced_bf16")});
    QTRY_VERIFY(watch.ready());
    QCOMPARE(watch.count(Severity::severe), 3);
    QVERIFY(panel.rows() >= 7);
    QCOMPARE(panel.row(2)->finding().layers.front(), 3);

    panel.choose(2);
    QCOMPARE(selection.layer(), 3);
    QCOMPARE(selection.expert(), panel.row(2)->finding().experts.front());
    QVERIFY(selection.range().first > 0);
    QVERIFY(selection.range().first < panel.row(2)->finding().steps.first);
    QVERIFY(panel.row(2)->isOpen());
    QVERIFY(!panel.row(1)->isOpen());
    QTest::keyClick(&panel, Qt::Key_Up);
    QCOMPARE(selection.layer(), 2);
    QVERIFY(panel.row(1)->isOpen());

    QSignalSpy knob(&panel, &FindingsPanel::knobRequested);
    QVERIFY(!panel.row(1)->knobs().isEmpty());
    QTest::mouseClick(panel.row(1)->knobs().front(), Qt::LeftButton);
    QCOMPARE(knob.size(), 1);
    QCOMPARE(knob[0][0].toString(), QString("router.bias_update_rate"));

    const int rows = panel.rows();
    QTest::keyClick(&panel, Qt::Key_Delete);  // muted
    QCOMPARE(panel.rows(), rows - 1);
    QCOMPARE(watch.count(Severity::severe), 2);
    QVERIFY(!watch.text().contains("Layer 2 has collapsed"));
    QVERIFY(watch.text().contains("Layer 3 has collapsed"));
    QVERIFY(panel.csv().contains("Layer 3 has collapsed"));
    QVERIFY(panel.explain().contains("MaxVio"));
  }

  void aHealthyRunSaysWhatWasChecked() {
    Selection selection;
    ComparedRuns runs;
    FindingsWatch watch(&selection, &runs);
    FindingsPanel panel(&selection, &watch);
    SyntheticRun run({.layers = 3, .experts = 8, .quant_every = 0, .scalars_only = true});
    run.append(30);
    selection.setHistories({run.history()});
    QTRY_VERIFY(watch.ready());
    QCOMPARE(panel.rows(), 0);
    QVERIFY(panel.healthyText().contains("Nothing found"));
    QVERIFY(panel.healthyText().contains("starved"));
    run.append(100);  // news are read without being asked for
    selection.refresh();
    QTRY_VERIFY(watch.checked().join(' ').contains("0 to 129"));
  }

  void aLossThatWasNaNStaysInTheCount() {
    Selection selection;
    ComparedRuns runs;
    FindingsWatch watch(&selection, &runs);
    FindingsPanel panel(&selection, &watch);
    SyntheticRun run({.layers = 3, .experts = 8, .quant_every = 0, .scalars_only = true});
    run.append(23);
    auto lost = std::make_shared<TelemetryFrame>(*run.next());
    lost->ce_loss = std::numeric_limits<float>::quiet_NaN();
    run.history()->append(lost);
    selection.setHistories({run.history()});
    QTRY_COMPARE(watch.count(Severity::severe), 1);  // in the steps after the last whole block
    QVERIFY(panel.csv().contains("loss NaN or infinite"));
    run.append(300);
    selection.refresh();
    QTRY_VERIFY(watch.checked().join(' ').contains("0 to 323"));
    QCOMPARE(watch.count(Severity::severe), 1);
    QVERIFY(!panel.row(0)->finding().ongoing);
    QVERIFY(!panel.csv().contains("Nothing found"));
  }

  void severalRunsAreToldApart() {
    Selection selection;
    ComparedRuns runs;
    FindingsWatch watch(&selection, &runs);
    FindingsPanel panel(&selection, &watch);
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
    int of_b = -1;
    for (int row = 0; row < panel.rows(); ++row)
      if (panel.row(row)->finding().kind == FindingKind::collapsed) of_b = row;
    QVERIFY(of_b >= 0);
    panel.choose(of_b);
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
    FindingsPanel* panel = window.workspaces()->overview()->findChild<FindingsPanel*>();
    QTest::mouseClick(badge, Qt::LeftButton);
    QTRY_VERIFY(panel->isVisible());
    panel->choose(0);
    QTest::mouseClick(panel->row(0)->knobs().front(), Qt::LeftButton);
    FieldEditor* editor =
        window.findChild<SetupForm*>()->editor("router.bias_update_rate");  // nothing trains: no live bar
    QTRY_VERIFY(editor->isVisible());
    QVERIFY(editor->visibleRegion().boundingRect().height() > 0);
  }
};

}  // namespace moescope

QTEST_MAIN(moescope::QtFindings)
#include "qt_findings.moc"
