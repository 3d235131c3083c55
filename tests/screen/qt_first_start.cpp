// The first start of the program: the start page, what can be started from it, and the buttons of empty panels that
// lead back to it.
#include <QComboBox>
#include <QLabel>
#include <QPushButton>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>

#include "app/lessons/lesson_actions.h"
#include "app/look/theme.h"
#include "app/setup/setup_drawer.h"
#include "app/start/first_steps.h"
#include "app/start/start_page.h"
#include "app/workspaces/overview.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/config/config_difference.h"
#include "tests/support/open_window.h"
#include "widgets/look/fitted_text.h"

using namespace moescope;

namespace {

struct EmptyWindow {
  MainWindow window;
  EmptyWindow() {
    applyTheme(Theme::light);
    window.runControl()->setRecorded(false);
    window.resize(1280, 800);
    window.show();
    if (!QTest::qWaitForWindowExposed(&window)) qFatal("no window");
  }
  StartPage* page() { return window.firstSteps()->page(); }
  QPushButton* button(const char* name) { return page()->findChild<QPushButton*>(name); }
};

int buttonsInEmptyPanels(const MainWindow& window) {
  int seen = 0;
  for (const QPushButton* each : window.findChildren<QPushButton*>("empty_panel_button")) seen += each->isVisible();
  return seen;
}

}  // namespace

class FirstStartTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() { useFolderOfTest(home_); }
  void init() { useSettingsOfTest(home_); }

  void nothingTrainsUntilItIsAskedFor() {
    EmptyWindow w;
    QVERIFY(w.page()->isHidden());
    w.window.firstSteps()->showPage();
    QVERIFY(w.page()->isVisible());
    QVERIFY(!w.window.workspaces()->isVisible());
    QVERIFY(!w.window.session()->opening());
    QVERIFY(w.window.session()->histories().empty());
    w.page()->findChild<QComboBox*>("start_presets")->setCurrentText("nano");
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.button("start_train")->click();
    QVERIFY(w.page()->isVisible());  // the page stays until the run is open
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(w.page()->isHidden());
    QVERIFY(w.window.workspaces()->isVisible());
    QTRY_VERIFY_WITH_TIMEOUT(w.window.session()->live()->status().step > 0, kWaitMs);
    w.window.session()->live()->pause();
  }

  void theCostOfAPresetStandsBesideIt() {
    EmptyWindow w;
    w.window.firstSteps()->showPage();
    auto* presets = w.page()->findChild<QComboBox*>("start_presets");
    auto* cost = w.page()->findChild<FittedLabel*>("start_cost");
    QCOMPARE(presets->currentText(), QString("small"));
    QVERIFY2(cost->text().startsWith("16 experts in 3 layers, MXFP8. "), qPrintable(cost->text()));
    const QString of_small = cost->text();
    presets->setCurrentText("nano");
    QVERIFY(cost->text() != of_small);
    QVERIFY(!cost->shownText().isEmpty());
  }

  void theFirstLessonStartsUnasked() {
    EmptyWindow w;
    w.window.firstSteps()->showPage();
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.button("start_lesson_1")->click();
    QVERIFY(w.window.lessons()->active());
    QVERIFY(w.page()->isHidden());
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(w.page()->isHidden());
  }

  void aLessonWithoutRunsComesBackToThePage() {
    EmptyWindow w;
    w.window.firstSteps()->showPage();
    w.window.lessons()->start("mx-block");
    QVERIFY(w.page()->isHidden());
    w.window.lessons()->leave();
    QTRY_VERIFY(w.page()->isVisible());
  }

  void aComparisonOfPrecisionsHasANoiseTwin() {
    EmptyWindow w;
    w.window.firstSteps()->showPage();
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.button("start_compare")->click();
    QVERIFY(opened.wait(kWaitMs));
    QCOMPARE(w.window.session()->histories().size(), std::size_t{4});
    QCOMPARE(w.window.session()->config(2).precision.experts, Recipe::mxfp4);
    QVERIFY(is_noise_twin(w.window.session()->config(), w.window.session()->config(3)));  // for a verdict
    QCOMPARE(w.window.workspaces()->current()->name(), QString("Compare"));
    QVERIFY(w.page()->isHidden());
  }

  void aSampleOpensByItsLink() {
    EmptyWindow w;
    w.window.firstSteps()->showPage();
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    const auto links = w.page()->findChildren<QLabel*>("start_sample");
    QCOMPARE(links.size(), 2);
    emit links[1]->linkActivated("domain_shift.jsonl");
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(w.window.session()->path().endsWith("domain_shift.jsonl"));
    QCOMPARE(w.window.session()->histories().size(), std::size_t{1});
  }

  void allSettingsOpenTheDrawer() {
    EmptyWindow w;
    w.window.firstSteps()->showPage();
    w.page()->findChild<QToolButton*>("start_setup")->click();
    QTRY_VERIFY(w.window.findChild<SetupDrawer*>()->isVisible());
  }

  // Each empty panel has one button, which shows the start page.
  void aPanelWithoutARunLeadsToThePage() {
    EmptyWindow w;
    for (const char* name : {"router", "all-to-all", "compare", "text"}) {
      w.window.workspaces()->bringUp(QString(name));
      QTRY_VERIFY2(buttonsInEmptyPanels(w.window) >= 2, name);
      for (const QPushButton* each : w.window.findChildren<QPushButton*>("empty_panel_button"))
        if (each->isVisible())
          QTRY_VERIFY2(each->parentWidget()->rect().contains(each->geometry()),
                       qPrintable(each->parentWidget()->accessibleName()));
    }
    for (QPushButton* each : w.window.findChildren<QPushButton*>("empty_panel_button"))
      if (each->isVisible()) {
        each->click();
        break;
      }
    QVERIFY(w.page()->isVisible());
    w.window.workspaces()->bringUp(QString("router"));
    QVERIFY(w.page()->isHidden());
    w.window.runControl()->start(nano(), RunControl::Start::paused);
    QTRY_COMPARE_WITH_TIMEOUT(buttonsInEmptyPanels(w.window), 0, kWaitMs);
    QTRY_VERIFY_WITH_TIMEOUT(!w.window.session()->opening(), kWaitMs);
    QTRY_COMPARE(buttonsInEmptyPanels(w.window), 0);
  }

  void everyWayToBeginIsReachedByTab() {
    EmptyWindow w;
    w.window.firstSteps()->showPage();
    QVERIFY(takesKeys(&w.window));
    QStringList reached;
    w.page()->setFocus();
    for (int i = 0; i < 60; ++i) {
      QTest::keyClick(&w.window, Qt::Key_Tab);
      if (const QWidget* focused = QApplication::focusWidget()) reached << focused->objectName();
    }
    for (const char* name : {"start_lesson_1", "start_open", "start_compare", "start_presets", "start_train",
                             "start_setup", "start_sample"})
      QVERIFY2(reached.contains(name), name);
  }
};

QTEST_MAIN(FirstStartTest)
#include "qt_first_start.moc"
