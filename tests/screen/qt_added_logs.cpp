// Logs that are opened beside other logs: "+ Log" in the bar, dropped files, followed logs, other batches.
#include <QDropEvent>
#include <QFile>
#include <QMenu>
#include <QMessageBox>
#include <QMimeData>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <cmath>

#include "app/actions/file_actions.h"
#include "app/bars/run_chips.h"
#include "app/bars/status_line.h"
#include "app/setup/open_dialogs.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "tests/support/open_window.h"
#include "tests/support/screen_test.h"
#include "widgets/compare/judged_runs.h"
#include "widgets/compare/load_difference_panel.h"
#include "widgets/compare/loss_gap_panel.h"
#include "widgets/compare/regression_panel.h"
#include "widgets/compare/verdict_strip.h"

using namespace moescope;

class AddedLogsTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

  // Writes a log of steps with loads, whose loss is that of the tokens read plus `offset`.
  QString loadLog(const QString& name, int tokens, int steps, double offset = 0) {
    QFile file(home_.filePath(name));
    [&] { QVERIFY(file.open(QIODevice::WriteOnly)); }();
    file.write(QString(R"({"run": "%1", "layers": 1, "experts": 2, "top_k": 1, "tokens_per_step": %2})")
                   .arg(name)
                   .arg(tokens)
                   .toUtf8() +
               '\n');
    for (int step = 0; step < steps; ++step)
      file.write(QString(R"({"step": %1, "loss": %2, "tokens_per_expert": [[%3, %3]]})")
                     .arg(step)
                     .arg(3 + offset - 0.001 * tokens * (step + 1))
                     .arg(tokens / 2)
                     .toUtf8() +
                 '\n');
    return file.fileName();
  }

 private slots:
  void initTestCase() { useFolderOfTest(home_); }
  void init() { useSettingsOfTest(home_); }

  // Runs with other batches are compared at the same number of tokens, and the axis says so.
  void aLogIsAddedBesideTheOpenOne() {
    OpenWindow w;
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.files()->open({loadLog("a.jsonl", 10, 80)});
    QVERIFY(opened.wait(kWaitMs));
    auto* add = w.window.findChild<QToolButton*>("compare_button");
    QVERIFY(add->isVisible());
    QCOMPARE(add->text(), QString("Log"));
    add->click();
    QPointer<OpenDialog> dialog = w.window.findChild<OpenDialog*>();
    QVERIFY(dialog && dialog->isVisible());
    emit dialog->filesSelected({loadLog("b.jsonl", 20, 40, 0.125)});
    dialog->close();
    QVERIFY(opened.wait(kWaitMs));
    QCOMPARE(w.window.session()->histories().size(), std::size_t{2});
    QCOMPARE(w.window.workspaces()->current()->name(), QString("Compare"));
    const Selection& selection = *w.window.selection();
    QVERIFY(selection.isByTokens());
    QCOMPARE(selection.stepOf(*selection.histories()[1], 79), 39);
    const GapTrack& gap = w.window.workspaces()->compare()->judged()->track(1);
    QTRY_COMPARE_WITH_TIMEOUT(gap.count(), 40, kWaitMs);
    QVERIFY(std::fabs(gap.raw()[39] - 0.125F) < 1e-5F);
    const QString settles = w.window.workspaces()->compare()->strip()->settlementText();
    QVERIFY2(settles.contains("another log with the settings of A"), qPrintable(settles));

    auto* regression = w.window.workspaces()->compare()->findChild<RegressionPanel*>();
    QTRY_VERIFY_WITH_TIMEOUT(regression->isVisible() && !regression->answerText().isEmpty(), kWaitMs);
    QVERIFY2(regression->answerText().startsWith("Is B like A? "), qPrintable(regression->answerText()));

    QMimeData data;
    data.setUrls({QUrl::fromLocalFile(loadLog("c.jsonl", 10, 80))});
    QDragEnterEvent enter(QPoint(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(&w.window, &enter);
    QDropEvent event(QPointF(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(&w.window, &event);
    QPointer<QMessageBox> box;
    QTRY_VERIFY_WITH_TIMEOUT(box = w.window.findChild<QMessageBox*>("dropped_log"), kWaitMs);
    for (QAbstractButton* button : box->buttons())
      if (button->text() == "Compare") button->click();
    QVERIFY(opened.wait(kWaitMs));
    QCOMPARE(w.window.session()->histories().size(), std::size_t{3});
    QVERIFY(w.window.selection()->isNoiseTwin(2));  // it has the settings of A

    const auto& paths = w.window.session()->paths();
    auto* chips = w.window.findChild<RunChips*>();
    emit chips->chipMenuWanted(1, QPoint(0, 0));
    auto* menu = chips->findChild<QMenu*>(QString(), Qt::FindDirectChildrenOnly);
    QVERIFY(menu);
    QVERIFY2(menu->actions().back()->text().startsWith("Close B, "), qPrintable(menu->actions().back()->text()));
    menu->actions().back()->trigger();
    menu->close();
    QTRY_COMPARE_WITH_TIMEOUT(w.window.session()->histories().size(), std::size_t{2}, kWaitMs);
    QVERIFY(paths[0].endsWith("a.jsonl") && paths[1].endsWith("c.jsonl"));
  }

  // A log that does not state its tokens has no place on an axis of tokens, so that all logs are compared by step.
  void aLogWithoutTokensIsComparedByStep() {
    QFile file(home_.filePath("without_tokens.jsonl"));
    QVERIFY(file.open(QIODevice::WriteOnly));
    for (int step = 0; step < 60; ++step)
      file.write(QString("{\"step\": %1, \"loss\": %2}\n").arg(step).arg(3 - 0.01 * step).toUtf8());
    file.close();
    OpenWindow w;
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.files()->open({loadLog("a.jsonl", 10, 80)});
    QTRY_COMPARE_WITH_TIMEOUT(opened.size(), 1, kWaitMs);
    const Selection& selection = *w.window.selection();
    for (const QString& log : {loadLog("b.jsonl", 20, 40), file.fileName()}) {
      const std::size_t runs = selection.histories().size() + 1;
      w.window.session()->add({log});
      QTRY_COMPARE_WITH_TIMEOUT(selection.histories().size(), runs, kWaitMs);
      QCOMPARE(selection.isByTokens(), runs == 2);
    }
    QCOMPARE(selection.stepOf(*selection.histories()[1], 30), 30);
    QVERIFY(w.window.workspaces()->bringUp("compare"));
    const JudgedRuns& judged = *w.window.workspaces()->compare()->judged();
    QTRY_VERIFY_WITH_TIMEOUT(!judged.candidates().empty(), kWaitMs);
    QTRY_VERIFY_WITH_TIMEOUT(!judged.track(1).by_tokens() && judged.track(1).count() == 40, kWaitMs);
  }

  // Logs with other settings give the loss gap no interval. The strip then has the verdict of the regression gate, and
  // both panels count the same settings that differ.
  void theStripHasTheVerdictOfTheGate() {
    OpenWindow w;
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.files()->open({loadLog("worse.jsonl", 10, 200, 0.5)});
    QTRY_COMPARE_WITH_TIMEOUT(opened.size(), 1, kWaitMs);
    w.window.session()->add({loadLog("good.jsonl", 20, 100)});
    QTRY_COMPARE_WITH_TIMEOUT(w.window.session()->histories().size(), std::size_t{2}, kWaitMs);
    CompareWorkspace* compare = w.window.workspaces()->compare();
    w.window.workspaces()->bringUp(compare);
    const auto strip_begins = [&](const char* text) { return compare->strip()->text().startsWith(text); };
    QTRY_VERIFY2_WITH_TIMEOUT(strip_begins("Better: B good.jsonl since step "), qPrintable(compare->strip()->text()),
                              kWaitMs);
    const auto* regression = compare->findChild<RegressionPanel*>();
    QVERIFY2(regression->answerText().contains("No, better"), qPrintable(regression->answerText()));
    QVERIFY(!regression->visibleRegion().isEmpty());
    QVERIFY(compare->findChild<LoadDifferencePanel*>()->visibleRegion().isEmpty());  // a tab behind the regression
    QCOMPARE(regression->findChild<FittedLabel*>("settings_that_differ")->text(),
             QString("1 setting differs: tokens_per_step: 20 (A: 10)"));
    compare->judged()->setBaseline(1);
    QTRY_VERIFY2_WITH_TIMEOUT(strip_begins("Regressed: A worse.jsonl since step "),
                              qPrintable(compare->strip()->text()), kWaitMs);
    w.window.selection()->setRun(1);
    const auto names_file = [&](const char* file) {  // the status line has the file of the selected run
      return std::ranges::any_of(w.window.findChild<StatusLine*>()->findChildren<QToolButton*>(),
                                 [&](const QToolButton* item) { return item->text().startsWith(file); });
    };
    QTRY_VERIFY_WITH_TIMEOUT(names_file("good.jsonl") && !names_file("worse.jsonl"), kWaitMs);
  }

  // So it has if all other logs are noise twins, of which the loss gap judges none.
  void theStripHasTheVerdictOfTheGateBesideNoiseTwins() {
    OpenWindow w;
    w.window.files()->open({loadLog("worse.jsonl", 10, 200, 0.5), loadLog("twin.jsonl", 10, 200)});
    QTRY_COMPARE_WITH_TIMEOUT(w.window.session()->histories().size(), std::size_t{2}, kWaitMs);
    CompareWorkspace* compare = w.window.workspaces()->compare();
    w.window.workspaces()->bringUp(compare);
    QTRY_VERIFY2_WITH_TIMEOUT(compare->strip()->text().startsWith("Regressed: A worse.jsonl since step "),
                              qPrintable(compare->strip()->text()), kWaitMs);
    QCOMPARE(compare->findChild<LossGapPanel*>()->answerText(), QString());
  }

  void aLogIsAddedToOneThatIsFollowed() {
    OpenWindow w;
    w.window.session()->follow({loadLog("followed.jsonl", 10, 60)});
    QTRY_COMPARE_WITH_TIMEOUT(w.window.session()->histories().size(), std::size_t{1}, kWaitMs);
    w.window.session()->add({loadLog("second.jsonl", 10, 60)});
    QTRY_COMPARE_WITH_TIMEOUT(w.window.session()->histories().size(), std::size_t{2}, kWaitMs);
    QVERIFY(w.window.session()->isFollowing());
    QFile file(home_.filePath("followed.jsonl"));
    QVERIFY(file.open(QIODevice::Append));
    file.write("{\"step\": 60, \"loss\": 2.5}\n");
    file.close();
    QTRY_COMPARE_WITH_TIMEOUT(w.window.session()->histories()[0]->steps().last, 60, kWaitMs);
  }
};

SCREEN_TEST(AddedLogsTest)
#include "qt_added_logs.moc"
