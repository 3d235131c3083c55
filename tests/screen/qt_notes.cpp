// Notes through the window: pinned, listed, edited and deleted, of a model in training and of an opened recording.
#include <QContextMenuEvent>
#include <QInputDialog>
#include <QLineEdit>
#include <QListWidget>
#include <QSettings>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include "app/bars/notes_dock.h"
#include "app/window/main_window.h"
#include "app/workspaces/workspace.h"
#include "core/telemetry/recording/notes.h"
#include "tests/support/small_run.h"
#include "tests/support/takes_keys.h"
#include "widgets/overview/timeline_bar.h"

using namespace moescope;

namespace {

constexpr int kWaitMs = 20000;

QString rowText(NotesDock* dock, int row) {
  const QListWidgetItem* item = dock->list()->item(row);
  return item ? item->text() : QString();
}

}  // namespace

class NotesTest : public QObject {
  Q_OBJECT

  QTemporaryDir folder_;
  QString recording_;

 private slots:
  void initTestCase() {
    QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, folder_.path());
    recording_ = folder_.filePath("run.moescope");
    Lab lab({small_run()}, recording_.toStdString());
    lab.run_until(30);
    QTRY_VERIFY_WITH_TIMEOUT(!lab.status().running && lab.status().step == 30, kWaitMs);
    lab.flush();
  }

  void ofARecordingAreKeptInIt() {
    {
      MainWindow window(false);
      window.show();
      open(window);
      QVERIFY(takesKeys(&window));  // not while it is opened: a progress bar has the keys
      NotesDock* notes = window.notesDock();
      window.selection()->setStep(12);
      QTest::keyClick(&window, Qt::Key_M);
      auto* dialog = window.findChild<QInputDialog*>("note");
      QVERIFY(dialog);
      dialog->setTextValue("  the load\nturns here ");
      dialog->accept();
      QTRY_COMPARE(notes->list()->count(), 1);
      QCOMPARE(rowText(notes, 0), QString("step 12   the load turns here"));
      notes->pin(20, "second");
      QTRY_COMPARE(notes->list()->count(), 2);
      notes->list()->setCurrentRow(0);
      QCOMPARE(window.selection()->step(), std::int64_t{12});
      notes->pin(12, "another text");
      QTRY_COMPARE(rowText(notes, 0), QString("step 12   another text"));
    }
    MainWindow window(false);
    window.show();
    open(window);
    NotesDock* notes = window.notesDock();
    QTRY_COMPARE(notes->list()->count(), 2);
    QCOMPARE(rowText(notes, 0), QString("step 12   another text"));
    notes->list()->setCurrentRow(1);
    notes->show();
    notes->list()->setFocus();
    QTest::keyClick(notes->list(), Qt::Key_Delete);
    QTRY_COMPARE(notes->list()->count(), 1);
    QCOMPARE(note_at(*window.session()->histories()[0], 20), std::string());
  }

  void theTimelineFindsThemUnderTheMouse() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    open(window);
    window.notesDock()->pin(12, "here");
    auto* track = window.workspace()->findChild<TimelineTrack*>();
    QVERIFY(track);
    QTRY_COMPARE(track->noteOrStepAt(track->xOf(12) + 4), std::int64_t{12});
    disconnect(track, &TimelineTrack::menuRequested, nullptr, nullptr);
    QSignalSpy asked(track, &TimelineTrack::menuRequested);
    const QPoint at(track->xOf(12) + 4, 20);
    QContextMenuEvent event(QContextMenuEvent::Mouse, at, track->mapToGlobal(at));
    QCoreApplication::sendEvent(track, &event);
    QCOMPARE(asked.size(), 1);
    QCOMPARE(asked[0][1].toLongLong(), 12);
  }

  void ofAModelInTrainingAreShownAtOnce() {
    MainWindow window(false);
    window.setRecorded(false);
    window.show();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.startRun(small_run(), MainWindow::Start::paused);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    window.session()->lab()->run_until(5);
    QTRY_VERIFY_WITH_TIMEOUT(window.session()->lab()->status().step == 5, kWaitMs);
    window.notesDock()->pin(3, "live");
    QTRY_COMPARE(window.notesDock()->list()->count(), 1);
    window.notesDock()->pin(3, "");
    QTRY_COMPARE(window.notesDock()->list()->count(), 0);
  }

  void aLogSaysThatItCannotKeepThem() {
    MainWindow window(false);
    window.show();
    const QString log = folder_.filePath("log.jsonl");
    QFile file(log);
    QVERIFY(file.open(QIODevice::WriteOnly));
    for (int step = 0; step < 4; ++step)
      file.write(QString("{\"step\":%1,\"layer\":0,\"tokens_per_expert\":[1,2,3,2]}\n").arg(step).toUtf8());
    file.close();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.openFile(log);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QSignalSpy refused(window.notesDock(), &NotesDock::refused);
    window.notesDock()->pin(1, "x");
    QCOMPARE(refused.size(), 1);
    QVERIFY(refused[0][0].toString().contains("import"));
  }

 private:
  void open(MainWindow& window) {
    QSignalSpy opened(window.session(), &RunSession::opened);
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    window.activateWindow();
    QVERIFY(takesKeys(&window));
    window.openFile(recording_);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    window.selection()->refresh();
  }
};

QTEST_MAIN(NotesTest)
#include "qt_notes.moc"
