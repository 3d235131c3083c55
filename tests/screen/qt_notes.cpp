// Notes in the window: they are pinned, listed, edited and deleted for a run in training and for an opened recording.
#include <QContextMenuEvent>
#include <QInputDialog>
#include <QLineEdit>
#include <QListWidget>
#include <QSettings>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include "app/actions/file_actions.h"
#include "app/actions/run_control.h"
#include "app/docks/side_docks.h"
#include "app/window/main_window.h"
#include "app/workspaces/workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/recording/marks.h"
#include "tests/support/screen_test.h"
#include "tests/support/small_run.h"
#include "tests/support/takes_keys.h"
#include "widgets/overview/timeline_bar.h"

using namespace moescope;

namespace {

QListWidget* listOf(const NotesDock* dock) {
  return dock->findChild<QListWidget*>("notes_list");
}

QString rowText(NotesDock* dock, int row) {
  const QListWidgetItem* item = listOf(dock)->item(row);
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
    LiveRuns live({small_run()}, recording_.toStdString());
    live.run_until(30);
    QTRY_VERIFY_WITH_TIMEOUT(!live.status().running && live.status().step == 30, kWaitMs);
    live.flush();
  }

  void notesOfARecordingAreKeptInIt() {
    {
      MainWindow window(false);
      window.show();
      open(window);
      QVERIFY(takesKeys(&window));  // while the run is opened, a progress bar has the focus
      NotesDock* notes = window.findChild<NotesDock*>();
      window.selection()->setStep(12);
      QTest::keyClick(&window, Qt::Key_M);
      auto* dialog = window.findChild<QInputDialog*>("note");
      QVERIFY(dialog);
      dialog->setTextValue("  the load\nturns here ");
      dialog->accept();
      QTRY_COMPARE(listOf(notes)->count(), 1);
      QCOMPARE(rowText(notes, 0), QString("step 12   the load turns here"));
      notes->pin(20, "second");
      QTRY_COMPARE(listOf(notes)->count(), 2);
      listOf(notes)->setCurrentRow(0);
      QCOMPARE(window.selection()->step(), std::int64_t{12});
      notes->pin(12, "another text");
      QTRY_COMPARE(rowText(notes, 0), QString("step 12   another text"));
    }
    MainWindow window(false);
    window.show();
    open(window);
    NotesDock* notes = window.findChild<NotesDock*>();
    QTRY_COMPARE(listOf(notes)->count(), 2);
    QCOMPARE(rowText(notes, 0), QString("step 12   another text"));
    listOf(notes)->setCurrentRow(1);
    notes->show();
    listOf(notes)->setFocus();
    QTest::keyClick(listOf(notes), Qt::Key_Delete);
    QTRY_COMPARE(listOf(notes)->count(), 1);
    QCOMPARE(note_at(*window.session()->histories()[0], 20), std::string());
  }

  void theTimelineFindsNotesUnderTheMouse() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    open(window);
    window.findChild<NotesDock*>()->pin(12, "here");
    auto* track = window.findChild<TimelineTrack*>();
    QVERIFY(track);
    QTRY_COMPARE(track->noteOrStepAt(track->xOf(12) + 4), std::int64_t{12});
    disconnect(track, &TimelineTrack::menuRequested, nullptr, nullptr);
    QSignalSpy menu_requests(track, &TimelineTrack::menuRequested);
    const QPoint at(track->xOf(12) + 4, 8);
    QContextMenuEvent event(QContextMenuEvent::Mouse, at, track->mapToGlobal(at));
    QCoreApplication::sendEvent(track, &event);
    QCOMPARE(menu_requests.size(), 1);
    QCOMPARE(menu_requests[0][1].toLongLong(), 12);
  }

  void notesOfAModelInTrainingAreShownAtOnce() {
    MainWindow window(false);
    window.runControl()->setRecorded(false);
    window.show();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.runControl()->start(small_run(), RunControl::Start::paused);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    window.session()->live()->run_until(5);
    QTRY_VERIFY_WITH_TIMEOUT(window.session()->live()->status().step == 5, kWaitMs);
    window.findChild<NotesDock*>()->pin(3, "live");
    QTRY_COMPARE(listOf(window.findChild<NotesDock*>())->count(), 1);
    window.findChild<NotesDock*>()->pin(3, "");
    QTRY_COMPARE(listOf(window.findChild<NotesDock*>())->count(), 0);
  }

  void aLogSaysThatItCannotKeepNotes() {
    MainWindow window(false);
    window.show();
    const QString log = folder_.filePath("log.jsonl");
    QFile file(log);
    QVERIFY(file.open(QIODevice::WriteOnly));
    for (int step = 0; step < 4; ++step)
      file.write(QString("{\"step\":%1,\"layer\":0,\"tokens_per_expert\":[1,2,3,2]}\n").arg(step).toUtf8());
    file.close();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.files()->open({log});
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    QSignalSpy refused(window.findChild<NotesDock*>(), &NotesDock::refused);
    window.findChild<NotesDock*>()->pin(1, "x");
    QCOMPARE(refused.size(), 1);
    QVERIFY(refused[0][0].toString().contains("import"));
  }

 private:
  void open(MainWindow& window) {
    QSignalSpy opened(window.session(), &RunSession::opened);
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    window.activateWindow();
    QVERIFY(takesKeys(&window));
    window.files()->open({recording_});
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    window.selection()->refresh();
  }
};

SCREEN_TEST(NotesTest)
#include "qt_notes.moc"
