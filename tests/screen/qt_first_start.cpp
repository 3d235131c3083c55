// The start page and the page of all lessons: what can be started from them, and the ways to them and back.
#include <QAbstractButton>
#include <QComboBox>
#include <QFileDialog>
#include <QInputDialog>
#include <QLabel>
#include <QMessageBox>
#include <QPushButton>
#include <QScrollBar>
#include <QSignalSpy>
#include <QTabBar>
#include <QTemporaryDir>
#include <QTest>
#include <QToolBar>
#include <QToolButton>

#include "app/lessons/lesson_actions.h"
#include "app/look/theme.h"
#include "app/setup/setup_drawer.h"
#include "app/setup/setup_form.h"
#include "app/start/first_steps.h"
#include "app/start/full_page.h"
#include "app/start/lesson_list.h"
#include "app/start/start_page.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/config/config_difference.h"
#include "core/lessons/assignment.h"
#include "core/lessons/lesson.h"
#include "tests/support/open_window.h"
#include "tests/support/screen_test.h"
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
  LessonsPage* lessonsPage() { return window.firstSteps()->lessonsPage(); }
  void key(Qt::Key key, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
    QTest::keyClick(QApplication::focusWidget() ? QApplication::focusWidget() : &window, key, modifiers);
  }
  QPushButton* button(const char* name) { return page()->findChild<QPushButton*>(name); }
};

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
    auto* cost = w.page()->findChild<QLabel*>("start_cost");
    QCOMPARE(presets->currentText(), QString("small"));
    QVERIFY2(cost->text().startsWith("16 experts in 3 layers, MXFP8. "), qPrintable(cost->text()));
    const QString small_cost = cost->text();
    presets->setCurrentText("nano");
    QVERIFY(cost->text() != small_cost);
    QVERIFY2(cost->text().contains(" parameters, ") && cost->text().contains("MB, "), qPrintable(cost->text()));
  }

  void theFirstLessonStartsUnasked() {
    EmptyWindow w;
    w.window.firstSteps()->showPage();
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    QCOMPARE(w.button("start_lesson")->text(), QString("Start lesson 1"));
    w.button("start_lesson")->click();
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
    w.window.firstSteps()->offerPage();  // as after --lesson mx-block
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
    QCOMPARE(w.window.session()->histories().size(), std::size_t{5});
    QCOMPARE(w.window.session()->config(2).precision.experts, Recipe::nvfp4);
    QCOMPARE(w.window.session()->config(3).precision.experts, Recipe::mxfp4);
    QVERIFY(is_noise_twin(w.window.session()->config(), w.window.session()->config(4)));  // for a verdict
    QVERIFY(w.window.session()->config().router.force_balance);
    QCOMPARE(w.window.workspaces()->current()->name(), QString("Compare"));
    QVERIFY(w.page()->isHidden());
    w.window.firstSteps()->showPage();
    const auto open_run = w.window.session()->histories().front();
    for (const HistoryPtr& history : w.window.session()->histories())
      QTRY_VERIFY_WITH_TIMEOUT(!history->steps().empty(), kWaitMs);
    w.button("start_train")->click();  // asks before it closes a comparison that has steps
    auto* box = w.window.findChild<QMessageBox*>();
    QVERIFY(box);
    QVERIFY2(box->text().contains("closes what is open: BF16, MXFP8"), qPrintable(box->text()));
    QCOMPARE(w.window.session()->histories().front(), open_run);
    box->findChild<QPushButton*>("close_open_runs")->click();
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(w.window.session()->histories().front() != open_run);
  }

  void aSampleOpensByItsLink() {
    EmptyWindow w;
    w.window.firstSteps()->showPage();
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    QLabel* samples = nullptr;
    for (QLabel* label : w.page()->findChildren<QLabel*>())
      if (label->text().contains("domain_shift.jsonl")) samples = label;
    QVERIFY(samples);
    emit samples->linkActivated("domain_shift.jsonl");
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(w.window.session()->path().endsWith("domain_shift.jsonl"));
    QCOMPARE(w.window.session()->histories().size(), std::size_t{1});
  }

  void allSettingsOpenTheDrawer() {
    EmptyWindow w;
    w.window.firstSteps()->showPage();
    w.page()->findChild<QComboBox*>("start_presets")->setCurrentText("nano");
    w.page()->findChild<QToolButton*>("start_setup")->click();
    QTRY_VERIFY(w.window.findChild<SetupDrawer*>()->isVisible());
    QCOMPARE(w.window.findChild<SetupForm*>()->draft().name, std::string("nano"));
  }

  // While no run is open, all workspaces show the page but two, which work without a run.
  void aWorkspaceWithoutARunShowsThePage() {
    EmptyWindow w;
    w.window.firstSteps()->offerPage();
    for (Workspace* workspace : w.window.workspaces()->all()) {
      w.window.workspaces()->bringUp(workspace);
      const bool needs_run = workspace->name() != "Microscaling" && workspace->name() != "Cluster";
      QVERIFY2(w.page()->isVisible() == needs_run, qPrintable(workspace->name()));
      for (const bool by_default : {false, true}) {  // Microscaling hides the panels of a run and says so
        if (by_default) menuAction(w.window, "Restore the default layout")->trigger();
        const bool hides = workspace->name() == "Microscaling";
        const bool has_hidden = std::ranges::any_of(workspace->docks(), &QDockWidget::isHidden);
        QVERIFY2(has_hidden || !hides, qPrintable(workspace->name()));
        QVERIFY2(workspace->findChild<QToolBar*>("fold_bar")->isHidden() != hides, qPrintable(workspace->name()));
      }
      if (!needs_run) continue;
      const QString about = QString("<i>%1</i> shows these panels of a run: ").arg(workspace->name());
      const auto labels = w.page()->findChildren<QLabel*>();
      const bool is_told =
          std::ranges::any_of(labels, [&](const QLabel* label) { return label->text().startsWith(about); });
      QVERIFY2(is_told == (workspace->name() != "Overview"), qPrintable(workspace->name()));
      QVERIFY(!w.page()->findChild<QToolButton*>("page_back")->isVisible());
    }
    w.window.workspaces()->bringUp(QString("router"));
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.runControl()->start(nano(), RunControl::Start::paused);
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(w.page()->isHidden() && w.window.workspaces()->isVisible());
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
    for (const char* name :
         {"start_lesson", "start_lessons", "start_compare", "start_presets", "start_train", "start_setup",
          "start_recent", "start_log", "start_recording", "start_checkpoint", "lesson_row"})
      QVERIFY2(reached.contains(name), name);
  }

  void everyKindOfFileHasARow() {
    EmptyWindow w;
    w.window.firstSteps()->showPage();
    for (const auto& [name, filter] : {std::pair{"start_log", "Training logs"}, {"start_recording", "Recordings"}}) {
      w.button(name)->click();
      auto* dialog = w.window.findChild<QFileDialog*>("open_dialog");
      QVERIFY2(dialog && dialog->selectedNameFilter().startsWith(filter), name);
      dialog->close();
      QTRY_VERIFY(!w.window.findChild<QFileDialog*>("open_dialog"));
    }
    QVERIFY(w.button("start_checkpoint")->isVisible());
  }

  void thePagesAreReachedFromEverywhereAndLeadBack() {
    EmptyWindow w;
    QSignalSpy opened(w.window.session(), &RunSession::opened);
    w.window.runControl()->start(nano(), RunControl::Start::paused);
    QVERIFY(opened.wait(kWaitMs));
    QTRY_VERIFY(!w.window.findChild<QProgressDialog*>());
    QVERIFY(takesKeys(&w.window));
    QTabBar* tabs = w.window.workspaces()->tabs();
    for (Workspace* workspace : w.window.workspaces()->all()) {
      w.window.workspaces()->bringUp(workspace);
      w.key(Qt::Key_Home, Qt::AltModifier);
      QVERIFY2(w.page()->isVisible() && !w.window.workspaces()->isVisible(), qPrintable(workspace->name()));
      w.key(Qt::Key_L, Qt::AltModifier);
      QVERIFY2(w.lessonsPage()->isVisible() && !w.page()->isVisible(), qPrintable(workspace->name()));
      w.key(Qt::Key_Escape);
      QVERIFY2(w.window.workspaces()->isVisible(), qPrintable(workspace->name()));
      QCOMPARE(w.window.workspaces()->current(), workspace);
    }
    w.window.firstSteps()->showPage();  // a click on the tab of the current workspace leads back, too
    QTest::mouseClick(tabs, Qt::LeftButton, {}, tabs->tabRect(tabs->currentIndex()).center());
    QVERIFY(w.page()->isHidden() && w.window.workspaces()->isVisible());
    w.window.firstSteps()->showLessons();
    w.lessonsPage()->findChild<QToolButton*>("lessons_start_page")->click();
    QVERIFY(w.page()->isVisible());
    w.page()->findChild<QToolButton*>("page_back")->click();
    QVERIFY(w.window.workspaces()->isVisible());
  }

  void allLessonsAreInSight_data() {
    QTest::addColumn<QSize>("size");
    QTest::newRow("1024x700") << QSize(1024, 700);
    QTest::newRow("1280x800") << QSize(1280, 800);
    QTest::newRow("1920x1080") << QSize(1920, 1080);
  }
  void allLessonsAreInSight() {
    QFETCH(QSize, size);
    EmptyWindow w;
    w.window.resize(size);
    w.window.firstSteps()->showLessons();
    const auto rows = w.lessonsPage()->findChildren<QAbstractButton*>("lesson_row");
    QCOMPARE(rows.size(), static_cast<qsizetype>(lesson_names().size() + exhibit_names().size()));
    for (const QAbstractButton* row : rows) {  // what a lesson teaches would answer its questions
      const auto names = lesson_names();
      const bool is_lesson = std::ranges::any_of(names, [&](const std::string& name) {
        return row->text() == QString::fromStdString(find_lesson(name).lesson.title);
      });
      QCOMPARE(row->toolTip().isEmpty(), !is_lesson);
      QVERIFY2(!row->toolTip().contains(". "), qPrintable(row->toolTip()));
    }
    QTRY_COMPARE(w.lessonsPage()->verticalScrollBar()->maximum(), 0);
    w.window.firstSteps()->showPage();
    QCOMPARE(w.page()->findChildren<QAbstractButton*>("lesson_row").size(),
             static_cast<qsizetype>(lesson_names().size()));
    QTRY_COMPARE(w.page()->verticalScrollBar()->maximum(), 0);
  }

  void aFormOfAProblemSetNeedsTheNameOfAStudent() {
    EmptyWindow w;
    w.window.firstSteps()->showLessons();
    QCOMPARE(w.lessonsPage()->findChildren<QPushButton*>("problem_set_hand_in").size(),
             static_cast<qsizetype>(assignment_names().size()));
    const auto forms = w.lessonsPage()->findChildren<QPushButton*>("problem_set_form");
    QCOMPARE(forms.size(), static_cast<qsizetype>(assignment_names().size()));
    forms.front()->click();
    auto* student = w.window.findChild<QInputDialog*>("problem_set_student");
    QVERIFY(student);
    student->setTextValue("../ada");
    student->accept();
    auto* box = w.window.findChild<QMessageBox*>("warning");
    QVERIFY(box && box->text().contains("must have 1 to 64 letters"));
    box->close();
    QTRY_COMPARE(w.window.findChildren<QInputDialog*>("problem_set_student").size(), 1);
    student = w.window.findChild<QInputDialog*>("problem_set_student");
    QVERIFY2(student->isVisible() && student->textValue() == "../ada", "the name can be corrected");
  }

  void aTypedNumberAndReturnStartALesson() {
    EmptyWindow w;
    QVERIFY(takesKeys(&w.window));
    w.key(Qt::Key_L, Qt::AltModifier);
    QVERIFY(w.lessonsPage()->isVisible());
    w.key(Qt::Key_1);
    w.key(Qt::Key_2);
    const QString row = QApplication::focusWidget()->accessibleName();
    QVERIFY2(row.startsWith("Lesson 12: ") && row.endsWith("not done"), qPrintable(row));
    w.key(Qt::Key_Return);
    QVERIFY(w.window.lessons()->active() && w.lessonsPage()->isHidden());
    QCOMPARE(w.window.lessons()->progress().open_lesson, QString("fp4-gemms"));
  }

  void aPageShowsWhatIsDoneAndGoesOnWithTheRest() {
    EmptyWindow w;
    w.window.lessons()->start("mx-block");
    w.window.firstSteps()->showLessons();
    auto* next = w.lessonsPage()->findChild<QPushButton*>("lessons_next");
    QCOMPARE(next->text(), QString("Continue with lesson 8, step 1"));
    for (const auto* row : w.lessonsPage()->findChildren<QAbstractButton*>("lesson_row"))
      QTRY_VERIFY2(row->height() >= row->heightForWidth(row->width()), qPrintable(row->text()));
    next->click();  // the open lesson is shown again as it is
    QVERIFY(w.lessonsPage()->isHidden() && w.window.lessons()->active());
    LessonProgress progress{{"why-experts", "stale-bias", "mx-block"}, {}, {}};
    QCOMPARE(nextLesson(progress).button, QString("Continue with lesson 2"));
    progress.open_lesson = "mx-block";  // at its end
    QCOMPARE(nextLesson(progress).button, QString("Continue with lesson 9"));
    QCOMPARE(progressText(progress), QString("2 of 12 done, 88 of 101 minutes left; 1 of 10 faults seen"));
    for (const std::string& name : lesson_names()) progress.finished << QString::fromStdString(name);
    QCOMPARE(nextLesson(progress).button, QString("Start lesson 1"));
    QCOMPARE(nextLesson({}).about, QString("lesson 1, Why experts?, 7 minutes"));
    const NextLesson begun = nextLesson({{}, "stale-bias", {{"why-experts", 1}}});  // the open exhibit is no lesson
    QCOMPARE(begun.button, QString("Continue with lesson 1, step 2"));
    QCOMPARE(begun.about, QString("lesson 1, Why experts?, step 2 of 5"));
  }
};

SCREEN_TEST(FirstStartTest)
#include "qt_first_start.moc"
