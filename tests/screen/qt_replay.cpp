// Recordings that are replayed, continued and reproduced.
#include <QMessageBox>
#include <QPointer>
#include <QProgressDialog>
#include <QPushButton>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTest>

#include "app/actions/file_actions.h"
#include "app/bars/window_bar.h"
#include "app/session/replay.h"
#include "app/session/run_session.h"
#include "app/window/main_window.h"
#include "core/files/sqlite.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/engine/live_runs.h"
#include "tests/support/screen_test.h"
#include "tests/support/small_run.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/takes_keys.h"

namespace moescope {

class QtReplay : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;

  // Records a run of 30 steps with a checkpoint every 10 steps; the one of step 10 is kept permanently.
  QString recorded(const char* name) {
    const QString path = folder_.filePath(QString(name) + ".moescope");
    RunConfig config = small_run();
    config.name = name;
    config.telemetry.checkpoint_every = 10;
    LiveRuns live({config}, path.toStdString());
    live.run_until(10);
    while (live.status().step < 10) live.flush();
    live.keep_checkpoint();
    live.run_until(30);
    while (live.status().step < 30) live.flush();
    live.flush();
    return path;
  }

  static void alter(const QString& recording, const char* sql) {
    Connection(recording.toStdString(), SQLITE_OPEN_READWRITE).execute(sql);
  }

  static QAction* action(MainWindow* window, const QString& part) {
    for (QAction* candidate : window->findChildren<QAction*>())
      if (QString(candidate->text()).remove('&').contains(part)) return candidate;
    return nullptr;
  }

 private slots:
  void initTestCase() { QStandardPaths::setTestModeEnabled(true); }

  void theCursorGoesThroughTheSteps() {
    SyntheticRun run({.layers = 2, .experts = 8});
    run.append(200);
    Selection selection;
    selection.setHistories({run.history()});
    Replay replay(&selection);
    replay.setSpeed(2000);
    replay.play();  // the cursor is at the last step, so playing starts at the first
    QVERIFY(replay.playing());
    QCOMPARE(selection.step(), 0);
    QSignalSpy moved(&selection, &Selection::timeChanged);
    QTRY_VERIFY(selection.step() > 20);
    QCOMPARE(selection.range().last, std::max<std::int64_t>(selection.step(), 1));
    replay.pause();
    const auto held = selection.step();
    QTest::qWait(80);  // no step is played
    QCOMPARE(selection.step(), held);
    replay.stepOnce();
    QCOMPARE(selection.step(), held + 1);
    replay.play();  // plays from the current step
    QVERIFY(selection.step() >= held + 1);
    QTRY_VERIFY(!replay.playing());
    QCOMPARE(selection.step(), 199);
    QVERIFY(moved.size() > 3);
  }

  void theBarPlaysARecording() {
    MainWindow window(false);
    window.show();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.files()->open({recorded("played")});
    QTRY_COMPARE(opened.size(), 1);
    QVERIFY(takesKeys(&window));
    WindowBar* bar = window.findChild<WindowBar*>();
    QVERIFY(bar->runAction()->isEnabled());
    bar->resetAction()->trigger();
    QCOMPARE(window.selection()->step(), 0);
    QTest::keyClick(&window, Qt::Key_Period);
    QCOMPARE(window.selection()->step(), 1);
    QCOMPARE(bar->runAction()->text(), QString("Play"));
    bar->runAction()->trigger();
    QCOMPARE(bar->runAction()->text(), QString("Pause"));
    bar->runAction()->trigger();
    QCOMPARE(bar->runAction()->text(), QString("Play"));
  }

  void aRecordingIsReproduced() {
    MainWindow window(false);
    window.show();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.files()->open({recorded("again")});
    QTRY_COMPARE(opened.size(), 1);
    QVERIFY(takesKeys(&window));
    action(&window, "Reproduce this recording")->trigger();
    QTRY_VERIFY_WITH_TIMEOUT(window.findChild<QMessageBox*>("reproduction"), 20000);
    auto* box = window.findChild<QMessageBox*>("reproduction");
    QVERIFY2(box->text().contains("The same losses to the bit over 30 steps"), qPrintable(box->text()));
    box->accept();
  }

  // If the recording was computed by other kernels, a question names them before the training starts.
  void otherKernelsAreAskedAbout() {
    const QString path = recorded("elsewhere");
    alter(path, "UPDATE run SET kernels = 'OpenBLAS 0.3.21 Prescott, 16-lane-tiled loops, no matrix units'");
    MainWindow window(false);
    window.show();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.files()->open({path});
    QTRY_COMPARE(opened.size(), 1);
    QVERIFY(takesKeys(&window));
    action(&window, "Reproduce this recording")->trigger();
    QPointer<QMessageBox> question = window.findChild<QMessageBox*>("other_kernels");
    QVERIFY(question);
    QVERIFY2(question->text().contains("Computed by OpenBLAS 0.3.21 Prescott, 16-lane-tiled loops, no matrix units"),
             qPrintable(question->text()));
    QVERIFY(!window.findChild<QProgressDialog*>());
#if defined(__x86_64__)
    QVERIFY2(question->findChild<QPushButton*>("with_recorded_kernels"), "any x86-64 runs them");
#endif
    question->reject();
    QTRY_VERIFY(!question);
    QVERIFY(!window.findChild<QMessageBox*>("reproduction"));
    action(&window, "Reproduce this recording")->trigger();
    window.findChild<QMessageBox*>("other_kernels")->findChild<QPushButton*>("with_these_kernels")->click();
    QTRY_VERIFY_WITH_TIMEOUT(window.findChild<QMessageBox*>("reproduction"), 20000);
    window.findChild<QMessageBox*>("reproduction")->accept();

    // The checkpoint names the kernels of this machine, so there is no question.
    action(&window, "Continue this recording")->trigger();
    QVERIFY(!window.findChild<QMessageBox*>("other_kernels"));
    QTRY_COMPARE(opened.size(), 2);
    QVERIFY(window.session()->isLive());
  }

  // Kernels that this CPU cannot run are named, but cannot be chosen.
  void kernelsThatCannotRunHereAreNamedOnly() {
    const QString path = recorded("faraway");
    alter(path, "UPDATE run SET kernels = 'OpenBLAS 0.3.99 Zen9, 16-lane-tiled loops, no matrix units'");
    MainWindow window(false);
    window.show();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.files()->open({path});
    QTRY_COMPARE(opened.size(), 1);
    action(&window, "Reproduce this recording")->trigger();
    auto* question = window.findChild<QMessageBox*>("other_kernels");
    QVERIFY(question);
    QVERIFY2(question->text().contains("cannot run OpenBLAS's Zen9 kernels"), qPrintable(question->text()));
    QVERIFY(!question->findChild<QPushButton*>("with_recorded_kernels"));
  }

  void aRecordingWithoutKernelsSaysThatTheyAreNotRecorded() {
    const QString path = recorded("before");
    alter(path, "UPDATE run SET kernels = ''");
    MainWindow window(false);
    window.show();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.files()->open({path});
    QTRY_COMPARE(opened.size(), 1);
    action(&window, "Reproduce this recording")->trigger();
    QVERIFY(!window.findChild<QMessageBox*>("other_kernels"));
    auto* job = window.findChild<QProgressDialog*>();
    QVERIFY(job);
    QVERIFY2(job->labelText().contains("is not recorded"), qPrintable(job->labelText()));
    QTRY_VERIFY_WITH_TIMEOUT(window.findChild<QMessageBox*>("reproduction"), 20000);
  }

  void aRecordingGoesOnFromTheCheckpointBeforeTheCursor_data() {
    QTest::addColumn<int>("cursor");
    QTest::addColumn<int>("from");
    QTest::newRow("end") << 29 << 20;
    QTest::newRow("middle") << 14 << 10;
    QTest::newRow("the step that made the checkpoint") << 9 << 10;
  }

  void aRecordingGoesOnFromTheCheckpointBeforeTheCursor() {
    QFETCH(int, cursor);
    QFETCH(int, from);
    const QString path = recorded("longer");
    MainWindow window(false);
    window.show();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.files()->open({path});
    QTRY_COMPARE(opened.size(), 1);
    QVERIFY(takesKeys(&window));
    const auto whole = window.session()->histories().front();
    QCOMPARE(checkpoint_steps(checkpoints_of(path.toStdString())).back(), std::int64_t{20});
    window.selection()->setStep(cursor);
    action(&window, "Continue this recording")->trigger();
    QTRY_COMPARE(opened.size(), 2);
    QVERIFY(window.session()->isLive());
    QVERIFY(window.session()->path() != path);
    LiveRuns* live = window.session()->live();
    live->run_until(30);
    QTRY_VERIFY(live->status().step >= 30);
    live->flush();
    const auto resumed = live->histories().front();
    QCOMPARE(resumed->steps().first, std::int64_t{from});
    for (std::int64_t step = from; step < 30; ++step)  // the same bits as without the interruption
      QCOMPARE(resumed->value_at(Metric::ce_loss, kWholeRun, step), whole->value_at(Metric::ce_loss, kWholeRun, step));
  }
};

}  // namespace moescope

SCREEN_TEST(moescope::QtReplay)
#include "qt_replay.moc"
