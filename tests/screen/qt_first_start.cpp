// What a new user meets: the doors to the program and the one hint after them.
#include <QLabel>
#include <QPushButton>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>

#include "app/bars/start_card.h"
#include "app/bars/start_doors.h"
#include "app/lessons/lesson_actions.h"
#include "app/window/first_steps.h"
#include "app/workspaces/overview.h"
#include "app/workspaces/workspace_tabs.h"
#include "tests/support/open_window.h"

using namespace moescope;

class FirstStartTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() { useFolderOfTest(home_); }
  void init() { useSettingsOfTest(home_); }

  void doorsStandInEveryEmptyPanelUntilARunIsOpen() {
    MainWindow window;
    window.runControl()->setRecorded(false);
    window.resize(1280, 800);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    const auto doors = [&] {
      int seen = 0;
      for (const StartDoors* each : window.findChildren<StartDoors*>("panel_doors")) seen += each->isVisible();
      return seen;
    };
    for (const char* name : {"overview", "router", "all-to-all", "compare", "text"}) {
      window.workspaces()->bringUp(QString(name));
      QTRY_VERIFY2(doors() >= 3, name);
      for (const StartDoors* each : window.findChildren<StartDoors*>("panel_doors"))
        if (each->isVisible())
          QTRY_VERIFY2(each->parentWidget()->rect().contains(each->geometry()),
                       qPrintable(each->parentWidget()->accessibleName()));
    }
    window.runControl()->start(nano(), RunControl::Start::paused);
    QTRY_COMPARE_WITH_TIMEOUT(doors(), 0, kWaitMs);
    QTRY_VERIFY_WITH_TIMEOUT(!window.session()->opening(), kWaitMs);
    QTRY_COMPARE(doors(), 0);
  }

  void theFirstStartShowsDoorsUntilOneIsTaken() {
    MainWindow window;
    window.runControl()->setRecorded(false);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    auto* card = window.findChild<StartCard*>();
    QVERIFY(card->isHidden());
    window.firstSteps()->showDoors();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.runControl()->start(nano(), RunControl::Start::paused);  // the program's own
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(card->isVisible());
    window.session()->lab()->run_until(2);
    QTRY_COMPARE_WITH_TIMEOUT(window.session()->lab()->status().step, 2, kWaitMs);
    card->findChild<QPushButton*>("door_lesson")->click();
    QVERIFY(window.lessons()->active());  // nobody is asked about a run that the program had begun
    QVERIFY(card->isHidden());
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(card->isHidden());
  }

  void aDoorComparesPrecisions() {
    MainWindow window;
    window.runControl()->setRecorded(false);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    window.firstSteps()->showDoors();
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.runControl()->start(nano(), RunControl::Start::paused);
    QVERIFY(opened.wait(kWaitMs));
    window.findChild<StartCard*>()->findChild<QPushButton*>("door_compare")->click();
    QVERIFY(opened.wait(kWaitMs));
    QCOMPARE(window.session()->histories().size(), std::size_t{4});
    QCOMPARE(window.session()->config(2).precision.experts, Recipe::mxfp4);
    QVERIFY(is_noise_twin(window.session()->config(), window.session()->config(3)));  // so that it has an answer
    QCOMPARE(window.workspaces()->current()->name(), QString("Compare"));
    QVERIFY(window.findChild<StartCard*>()->isHidden());
  }

  void oneHintComesAfterTheFirstStepsAndStaysAway() {
    auto* words = "start_words";
    {
      OpenWindow w;
      auto* card = w.window.findChild<StartCard*>();
      w.trainTo(3);
      QTest::qWait(300);
      QVERIFY(card->isHidden());
      w.trainTo(25);
      QTRY_VERIFY(card->isVisible());
      QVERIFY(card->findChild<QLabel*>(words)->text().contains("press ?"));
      QVERIFY(!card->findChild<QPushButton*>("door_open")->isVisible());
      card->findChild<QToolButton*>("close_start_card")->click();
      w.trainTo(30);
      QTest::qWait(400);
      QVERIFY(card->isHidden());
    }
    OpenWindow again;
    again.trainTo(25);
    QTest::qWait(400);
    QVERIFY(again.window.findChild<StartCard*>()->isHidden());
  }
};

QTEST_MAIN(FirstStartTest)
#include "qt_first_start.moc"
