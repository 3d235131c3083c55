// Lessons in the window, completed with keys and clicks while a model trains.
#include <QClipboard>
#include <QDockWidget>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QScrollArea>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>

#include "app/actions/live_settings.h"
#include "app/actions/run_control.h"
#include "app/bars/run_chips.h"
#include "app/lessons/lesson_actions.h"
#include "app/lessons/lesson_guide.h"
#include "app/lessons/lesson_pane.h"
#include "app/look/theme.h"
#include "app/start/first_steps.h"
#include "app/start/full_page.h"
#include "app/window/main_window.h"
#include "app/workspaces/panel_dock.h"
#include "app/workspaces/workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/config/config_toml.h"
#include "tests/support/laid_out.h"
#include "tests/support/lesson_window.h"
#include "tests/support/screen_test.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/panel/explain_card.h"

using namespace moescope;

namespace {

// Writes a lesson into the folder and returns the path of the file.
QString lessonFile(const QTemporaryDir& folder, const QByteArray& toml) {
  QFile file(folder.filePath("lesson.toml"));
  if (!file.open(QIODevice::WriteOnly) || file.write(toml) != toml.size()) qFatal("no lesson was written");
  return file.fileName();
}

const QByteArray kNano = "title = \"x\"\nteaches = \"x\"\n[runs]\npreset = \"nano\"\n";
const QByteArray kStep = "[[step]]\ntitle = \"x\"\ntext = \"x\"\n";
// Returns the TOML of a task that trains to `step` and is done as soon as there is a loss.
QByteArray trainTo(int step) {
  return "[[step.do]]\nrun_until = " + QByteArray::number(step) +
         "\n[[step.check]]\ntext = \"x\"\nfigure = \"ce_loss\"\nabove = 0\n";
}

// Writes a lesson of three steps: the first trains its run to step 4, the second starts and trains another run, and the
// third trains the other run further.
QString lessonOfTwoStarts(const QTemporaryDir& folder) {
  return lessonFile(folder, kNano + kStep + trainTo(4) + kStep +
                                "[[step.do]]\ntext = \"Start\"\n[step.do.start]\npreset = \"nano\"\n"
                                "name = \"other\"\nset = { seed = 7 }\n" +
                                trainTo(4) + kStep + "[[step.do]]\nrun_until = 6\n");
}

}  // namespace

class LessonTest : public QObject {
  Q_OBJECT

 private slots:
  void aTensorLessonGoesToItsEndByKeyboard() {
    LessonWindow open;
    open.open("mx-block");
    open.takeLesson();
    // The prediction of a number was skipped, so it does not count.
    QVERIFY2(open.pageText().contains("Correct predictions: **2 of 2**"), qPrintable(open.pageText()));
    QCOMPARE(open.window.workspaces()->microscaling()->tensorLab()->tensorName(), QString("near-0.93"));
  }

  void thePageFollowsTheTheme() {
    applyTheme(Theme::dark);
    LessonWindow open;
    open.open("mx-block");
    for (const Theme theme : {Theme::light, Theme::dark}) {
      applyTheme(theme);
      QCoreApplication::processEvents();
      const QPalette expected = themePalette(theme);
      for (const QWidget* part : open.pane()->findChildren<QWidget*>()) {
        if (!part->isVisible() || part->objectName().startsWith("figure_")) continue;
        QVERIFY2(part->palette().color(QPalette::Active, QPalette::WindowText) ==
                     expected.color(QPalette::Active, QPalette::WindowText),
                 qPrintable(part->metaObject()->className() + (' ' + part->objectName())));
      }
      QWidget* dock = open.window.findChild<QDockWidget*>("dock_lesson");
      const QColor behind = dock->grab().toImage().pixelColor(dock->width() / 2, dock->height() - 12);
      QCOMPARE(behind, expected.color(QPalette::Base));
    }
  }

  // Uses the lesson with the shortest training. test_lessons trains all of them.
  void aTrainingLessonGoesToItsEndByKeyboard() {
    LessonWindow open;
    open.open("capacity");
    QCOMPARE(open.window.session()->histories().size(), std::size_t{1});
    QCOMPARE(open.window.session()->live()->status().step, 0);  // the lesson has not started the training
    QCOMPARE(open.window.workspaces()->current()->name(), QString("Compare"));
    open.takeLesson();
    QVERIFY2(open.pageText().contains("Correct predictions: **3 of 3**"), qPrintable(open.pageText()));
  }

  void aSettingForAllRunsIsMadeInEveryRun() {
    QTemporaryDir folder;
    LessonWindow open;
    open.open(
        qPrintable(lessonFile(folder, kNano + "[[runs.run]]\nname = \"twin\"\nset = { router.top_k = 1 }\n" + kStep +
                                          "[[step.do]]\nrun = \"all\"\nset = { router.bias_update_rate = 0.25 }\n")));
    // The same change in run A only, made by hand, does not complete the task.
    const auto* tasks = open.window.findChild<LessonTasks*>();
    const LessonTask& task = open.guide()->lesson().steps[0].tasks[0];
    QVERIFY(tasks->runsAreOurs() && !tasks->done(task));
    open.window.findChild<LiveSettings*>()->change(0, &RouterConfig::bias_update_rate, 0.25);
    QVERIFY(!tasks->done(task));
    const int before = open.window.findChild<QUndoStack*>()->count();
    open.takeStep();
    QCOMPARE(open.window.findChild<QUndoStack*>()->count(), before + 1);  // the change of all runs can be undone
    for (int place : {0, 1}) QCOMPARE(open.window.session()->config(place).router.bias_update_rate, 0.25);
  }

  // A twin that catches up with the other runs is not offered a second time. It has the lesson's name.
  void aTwinIsAddedOnce() {
    QTemporaryDir folder;
    LessonWindow open;
    open.open(
        qPrintable(lessonFile(folder, kNano + kStep + "[[step.do]]\nrun_until = 9\n[[step.do]]\ntext = \"Add\"\n" +
                                          "twin = { router.top_k = 1 }\nname = \"one-expert\"\n")));
    for (int task : {0, 1}) {
      QTRY_VERIFY_WITH_TIMEOUT(open.tasks()[task]->isEnabled(), kLessonWaitMs);
      open.tasks()[task]->click();
    }
    QVERIFY(!open.tasks()[1]->isEnabled());
    QTRY_VERIFY_WITH_TIMEOUT(open.tasks()[1]->done(), kLessonWaitMs);
    QCOMPARE(open.window.session()->histories().size(), std::size_t{2});
    QCOMPARE(open.window.session()->config(1).name, std::string("one-expert"));
  }

  void tasksWaitForThePredictionAndOneAnother() {
    LessonWindow open;
    open.open("precision-routing");
    open.guide()->next();
    for (QPushButton* task : open.tasks()) QVERIFY(!task->isEnabled());
    open.choices()[1]->click();
    QVERIFY(open.tasks()[0]->isEnabled());
    QVERIFY(!open.tasks()[1]->isEnabled());
  }

  void aWrongPredictionIsToldAndCounted() {
    LessonWindow open;
    open.open("outlier-channel");
    open.choices()[0]->setFocus();
    QTest::keyClick(open.choices()[0], Qt::Key_Space);
    open.goOn();
    QTRY_VERIFY(open.reveal()->isVisible());
    open.goOn();
    QVERIFY2(open.pageText().contains("Not as predicted"), qPrintable(open.pageText()));
  }

  void leavingBringsTheOwnArrangementBack() {
    LessonWindow open;
    open.window.workspaces()->bringUp("Overview");
    Workspace* overview = open.window.workspaces()->current();
    auto* closed = open.window.findChild<QDockWidget*>("dock_quant_error");
    closed->close();
    QTemporaryDir folder;
    open.open(
        qPrintable(lessonFile(folder, kNano + kStep + "workspace = \"Overview\"\npanels = [\"dock_all_to_all\"]\n")));
    QTRY_VERIFY(!open.window.findChild<QDockWidget*>("dock_loss")->isVisible());
    QVERIFY(open.window.findChild<QDockWidget*>("dock_all_to_all")->isVisible());
    QVERIFY(open.window.findChild<QDockWidget*>("dock_lesson")->isVisible());
    open.window.lessons()->leave();
    QVERIFY(!open.window.findChild<QDockWidget*>("dock_lesson")->isVisible());
    QTRY_VERIFY(open.window.findChild<QDockWidget*>("dock_loss")->isVisible());
    QVERIFY(!closed->isVisible());
    QCOMPARE(open.window.workspaces()->current(), overview);
  }

  // Train in the bar ends at the task of the step; from there a click goes on.
  void aTrainingInTheBarEndsWithTheTask() {
    QTemporaryDir folder;
    LessonWindow open;
    open.open(qPrintable(lessonOfTwoStarts(folder)));
    RunControl* control = open.window.runControl();
    QTRY_COMPARE(control->end(), std::optional<qint64>(4));
    control->goOn();
    QTRY_VERIFY_WITH_TIMEOUT(open.tasks()[0]->done() && !open.window.session()->live()->status().running,
                             kLessonWaitMs);
    QCOMPARE(open.window.session()->live()->status().step, 4);
    auto* go_on = open.window.findChild<QToolButton*>("status_offer");
    QTRY_VERIFY(go_on->isVisible());
    go_on->click();
    QTRY_VERIFY_WITH_TIMEOUT(open.window.session()->live()->status().step > 4, kLessonWaitMs);
  }

  void theCardOfATermOpensFromTheText() {
    LessonWindow open;
    open.open("precision-routing");
    open.guide()->next();
    for (QLabel* label : open.pane()->findChildren<QLabel*>())
      if (label->text().contains("](margin_histogram)")) emit label->linkActivated("margin_histogram");
    const auto* card = open.window.findChild<ExplainCard*>();
    QVERIFY(card && card->isVisible());
    QVERIFY2(card->text().contains("margin", Qt::CaseInsensitive), qPrintable(card->text()));
  }

  // What was revealed stays, also when a later step changes the same runs.
  void aRevealedStepStaysAsItWas() {
    QTemporaryDir folder;
    LessonWindow open;
    open.open(qPrintable(
        lessonFile(folder, kNano + "[[step]]\ntitle = \"x\"\ntext = \"x\"\nreveal = \"The loss was {loss}.\"\n" +
                               trainTo(4) + "[step.values]\nloss = { figure = \"ce_loss\" }\n" + kStep +
                               "[[step.do]]\nset = { router.bias_update_rate = 0.25 }\n" + trainTo(9))));
    open.takeStep();
    const QList<LessonFigureRow> figures = open.figures();
    QTRY_VERIFY(open.pageText().contains("The loss was "));
    const QString explanation = open.pageText().section("The loss was ", 1).section('\n', 0, 0);
    QVERIFY(!explanation.isEmpty());
    open.guide()->next();
    open.takeStep();
    open.guide()->back();
    QTest::qWait(300);  // no figure changes: the guide judges four times per second
    QVERIFY(open.figures() == figures);
    QCOMPARE(open.pageText().section("The loss was ", 1).section('\n', 0, 0), explanation);
  }

  // A prediction stands beside the figure that was asked for, not beside another one of the same kind.
  void aPredictedNumberStandsBesideItsFigure() {
    LessonWindow open;
    open.open("outlier-channel");
    open.guide()->next();
    auto* line = open.pane()->findChild<QLineEdit*>();
    line->setText("50");
    QTest::keyClick(line, Qt::Key_Return);
    for (const LessonFigureRow& row : open.figures())
      QCOMPARE(row.note.contains("you predicted 50 %"), row.name == "Flushed to zero, E2M1");
  }

  // 92.6 % become 0; the page says what counts as right before the prediction.
  void aNumberIsRightWithinWhatThePageSays() {
    LessonWindow open;
    open.open("outlier-channel");
    open.guide()->next();
    QVERIFY2(open.pageText().contains("Within 5 percentage points counts as right."), qPrintable(open.pageText()));
    const std::pair<const char*, const char*> words[] = {{"93", "**Correct.** "}, {"86", "**Not as predicted.** "}};
    for (const auto& [number, word] : words) {
      auto* line = open.pane()->findChild<QLineEdit*>();
      line->setText(number);
      QTest::keyClick(line, Qt::Key_Return);
      if (!open.tasks()[0]->done()) open.goOn();
      QTRY_VERIFY(open.reveal()->isVisible());
      open.goOn();
      QTRY_VERIFY2(open.pageText().contains(QString("%1You predicted %2\u00a0%").arg(word, number)),
                   qPrintable(open.pageText()));
      open.guide()->reset();
      open.guide()->next();
    }
  }

  void selectedTextOfALessonIsCopied() {
    QTemporaryDir folder;
    LessonWindow open;
    open.open(qPrintable(lessonFile(folder, kNano + "[[step]]\ntitle = \"x\"\ntext = \"at 20 dB\"\n")));
    QLabel* text = nullptr;
    for (QLabel* label : open.pane()->findChildren<QLabel*>())
      if (label->text().startsWith("at 20")) text = label;
    QVERIFY(text);
    text->setFocus(Qt::MouseFocusReason);
    QTest::mousePress(text, Qt::LeftButton, {}, QPoint(0, text->height() / 2));
    QTest::mouseMove(text, QPoint(text->width() - 1, text->height() / 2));
    QTest::mouseRelease(text, Qt::LeftButton, {}, QPoint(text->width() - 1, text->height() / 2));
    QVERIFY(text->hasSelectedText());
    QTest::keyClick(text, Qt::Key_C, Qt::ControlModifier);
    QCOMPARE(QApplication::clipboard()->text(), QString("at 20 dB"));  // with a usual space
  }

  // Blocks of code have a button that copies them with their own line breaks.
  void linesOfCodeAreCopied() {
    QTemporaryDir folder;
    LessonWindow open;
    const QByteArray wide(200, 'w');
    open.open(
        qPrintable(lessonFile(folder, kNano + "[[step]]\ntitle = \"x\"\ntext = \"x\"\nreveal = \"\"\"\nbefore `" +
                                          wide + "`\n\n```python\nx = 1\nassert x == 1\n```\n\nafter\n\"\"\"\n")));
    open.takeStep();
    const auto* page = open.pane()->findChild<QScrollArea*>("lesson_page");
    QTRY_VERIFY2(page->widget()->width() <= page->viewport()->width(), "a wide word widens nothing but its own line");
    const QString code = "x = 1\nassert x == 1";
    const QList<QLabel*> blocks = open.pane()->findChildren<QLabel*>("lesson_code");
    QCOMPARE(blocks.size(), 1);
    QCOMPARE(blocks[0]->text(), code);
    QVERIFY(!open.pageText().contains("```"));
    blocks[0]->parentWidget()->findChild<QToolButton*>()->click();
    QCOMPARE(QApplication::clipboard()->text(), code + '\n');
  }

  void aStepKeepsItsFiguresWhenAnotherOneStartsRuns() {
    QTemporaryDir folder;
    LessonWindow open;
    open.open(qPrintable(lessonOfTwoStarts(folder)));
    open.takeStep();
    const QList<LessonFigureRow> figures = open.figures();
    QCOMPARE(figures.front().kind, LessonFigureRow::Kind::expected);
    open.guide()->next();
    open.guide()->next();  // a step about runs that have not been started
    QVERIFY(open.pane()->findChild<QLabel*>("lesson_missing")->isVisible());
    QVERIFY(!open.tasks()[0]->isEnabled());
    open.guide()->back();
    open.takeStep();
    open.guide()->back();
    QTRY_VERIFY(open.figures() == figures);
    QTRY_VERIFY(open.tasks()[0]->done());
    open.guide()->next();
    open.guide()->next();
    QTRY_VERIFY(open.tasks()[0]->isEnabled());
  }

  // The letters of other runs would be taken for those of the step.
  void runsOfAnotherStepAreNotShown() {
    QTemporaryDir folder;
    LessonWindow open;
    open.open(qPrintable(lessonOfTwoStarts(folder)));
    open.takeStep();
    const auto is_shown = [&] {
      return open.window.selection()->history() && open.window.findChild<RunChips*>()->isVisible() &&
             open.window.workspaces()->timeline()->isVisible();
    };
    QVERIFY(is_shown());
    open.guide()->next();
    QVERIFY(!open.window.selection()->history());
    QVERIFY(!open.window.findChild<RunChips*>()->isVisible());
    QVERIFY(!open.window.workspaces()->timeline()->isVisible());
    open.guide()->back();
    QVERIFY(is_shown());
    open.guide()->next();
    open.takeStep();
    QVERIFY(is_shown());
    open.guide()->back();
    QVERIFY(!open.window.selection()->history());
    open.window.lessons()->leave();
    QVERIFY(is_shown());
  }

  void aPredictionAfterTheTrainingDoesNotCount() {
    QTemporaryDir folder;
    LessonWindow open;
    const QByteArray asks = "reveal = \"x\"\n[step.predict]\nquestion = \"x\"\nchoices = [\"a\", \"b\"]\nright = 1\n";
    open.open(qPrintable(lessonFile(folder, kNano + kStep + asks + trainTo(2) + kStep + asks + trainTo(4))));
    open.choices()[0]->click();
    open.window.session()->live()->run_until(4);  // beyond the end of the first step
    QTRY_VERIFY_WITH_TIMEOUT(open.reveal()->isVisible(), kLessonWaitMs);
    open.goOn();
    QVERIFY2(open.pageText().contains("Correct"), qPrintable(open.pageText()));
    QTRY_COMPARE_WITH_TIMEOUT(open.window.session()->live()->status().step, 4, kLessonWaitMs);
    open.guide()->next();
    open.choices()[0]->click();
    QTRY_VERIFY(open.reveal()->isVisible());
    open.goOn();
    QVERIFY2(open.pageText().contains("Not counted"), qPrintable(open.pageText()));
    open.guide()->next();
    QVERIFY2(open.pageText().contains("Correct predictions: **1 of 1**"), qPrintable(open.pageText()));
  }

  void aRunThatWentBackHasNotBeenTrained() {
    QTemporaryDir folder;
    LessonWindow open;
    open.open(qPrintable(lessonOfTwoStarts(folder)));
    open.takeStep();
    QCOMPARE(open.window.session()->rewind(0), QString());
    QTRY_VERIFY(!open.tasks()[0]->done());
    QTRY_VERIFY(open.tasks()[0]->isEnabled());
  }

  void theEndOfATaskDoesNotHoldForTheNextRun() {
    QTemporaryDir folder;
    LessonWindow open;
    open.open(qPrintable(lessonOfTwoStarts(folder)));
    open.takeStep();
    open.window.lessons()->leave();
    QSignalSpy opened(open.window.session(), &RunSession::opened);
    open.window.runControl()->start(load_preset("nano").config);
    QVERIFY(opened.wait(kLessonWaitMs));
    QTRY_VERIFY_WITH_TIMEOUT(open.window.session()->live()->status().step > 4, kLessonWaitMs);
  }

  // The projector view enlarges all parts of the page. After it, type, sizes and places are as before.
  void theProjectorViewEnlargesTheLessonAndComesBackExactly() {
    applyTheme(Theme::light);
    LessonWindow open;
    open.window.resize(1280, 800);
    open.open("bias-thermostat");
    QVERIFY(isLaidOut(&open.window, 500));
    const auto state = [&] {
      QMap<QString, QVariant> all;
      int number = 0;
      for (const QWidget* part : open.pane()->findChildren<QWidget*>())
        if (part->isVisible()) {
          const QString name = QString("%1 %2").arg(++number).arg(part->objectName());
          all[name + " type"] = part->font().toString();
          all[name + " place"] = QRect(part->mapTo(&open.window, QPoint(0, 0)), part->size());
        }
      for (const QDockWidget* dock : open.window.workspaces()->current()->docks())
        if (dock->isVisible()) all[dock->objectName()] = dock->geometry();
      return all;
    };
    const auto before = state();
    const auto* title = open.pane()->findChild<QLabel*>("lesson_title");
    const auto* name = open.pane()->findChild<QLabel*>("figure_name");
    const int title_size = title->fontInfo().pixelSize(), name_size = name->fontInfo().pixelSize();
    QTest::keyClick(&open.window, Qt::Key_F5);
    QTRY_VERIFY(title->fontInfo().pixelSize() > 1.35 * title_size);
    QTRY_VERIFY(name->fontInfo().pixelSize() > 1.35 * name_size);
    QCOMPARE(open.window.size(), QSize(1280, 800));
    QTest::keyClick(&open.window, Qt::Key_F5);
    QVERIFY(isLaidOut(&open.window, 500));
    const auto after = state();
    QCOMPARE(after.keys(), before.keys());
    for (auto part = before.begin(); part != before.end(); ++part)
      QVERIFY2(after[part.key()] == part.value(),
               qPrintable(QString("%1: %2, then %3")
                              .arg(part.key(), part->toString() + QDebug::toString(part->toRect()),
                                   QDebug::toString(after[part.key()].toRect()))));
  }

  void aSmallWindowKeepsItsSize() {
    for (const char* lesson : {"rich-get-richer", "mx-block", "bias-or-loss"}) {
      LessonWindow open;
      open.window.resize(1280, 800);
      open.open(lesson);
      QTRY_COMPARE(open.window.size(), QSize(1280, 800));
      QTest::qWait(300);  // the lesson does not enlarge the window later
      QCOMPARE(open.window.size(), QSize(1280, 800));
    }
  }

  // The page scrolls to the next task, which the options push below its edge.
  void theTaskIsInViewAfterThePrediction() {
    for (const char* lesson : {"bias-thermostat", "capacity"}) {
      LessonWindow open;
      open.window.resize(1280, 800);
      open.open(lesson);
      open.choices()[0]->click();
      const QPushButton* task = open.tasks()[0];
      QTRY_COMPARE(task->visibleRegion().boundingRect(), task->rect());
    }
  }

  // The last page of a lesson leads to the exhibits that it explains and to all lessons.
  void theEndOfALessonLeadsOn() {
    LessonWindow open;
    open.open("precision-routing");
    for (int step = 0; step < 4; ++step) open.guide()->next();
    QVERIFY2(open.pageText().contains("[Stored formats in BF16: what is lost](stored-in-bf16)."),
             qPrintable(open.pageText()));
    QCOMPARE(open.window.lessons()->progress().finished, QStringList{"precision-routing"});
    QVERIFY(!open.window.lessons()->progress().steps.contains("precision-routing"));
    open.pane()->findChild<QToolButton*>("lesson_all")->click();
    QVERIFY(open.window.firstSteps()->lessonsPage()->isVisible());
    QVERIFY(!open.pane()->isVisible());  // the page has the whole width
    emit open.pane()->lessonRequested("stored-in-bf16");
    QCOMPARE(open.window.lessons()->progress().open_lesson, QString("stored-in-bf16"));
    QVERIFY(open.pane()->isVisible());
    open.guide()->next();
    QCOMPARE(open.next()->text(), QString("All lessons"));
    open.next()->click();
    QVERIFY(open.window.firstSteps()->lessonsPage()->isVisible());
  }

  // Each lesson keeps its place while another one is open. Continuing performs the tasks of the steps before it.
  void aLessonGoesOnWhereItWasLeft() {
    QTemporaryDir folder;
    LessonWindow open;
    const QString file = lessonFile(folder, kNano + kStep + trainTo(4) + kStep + trainTo(6));
    open.open(qPrintable(file));
    open.takeStep();
    open.guide()->next();
    open.open("mx-block");
    open.guide()->next();
    open.open(qPrintable(file));
    QTRY_COMPARE_WITH_TIMEOUT(open.step(), 1, kLessonWaitMs);
    QCOMPARE(open.window.session()->live()->status().step, 4);
    open.window.runControl()->runUntil(4);  // that step is reached
    QVERIFY(!open.window.session()->live()->status().running);
    open.window.firstSteps()->showLessons();
    auto* next = open.window.findChild<QPushButton*>("lessons_next");
    QCOMPARE(next->text(), QString("Continue with lesson 8, step 2"));
    next->click();
    QCOMPARE(open.guide()->lesson().name, std::string("mx-block"));
    QCOMPARE(open.step(), 1);
    open.takeStep();
    open.guide()->next();
    open.takeStep();  // with the explanation of its last step a lesson is done
    QCOMPARE(open.window.lessons()->progress().finished, QStringList{"mx-block"});
  }

  void theStepOfATrainingIsShownWhileItRuns() {
    QTemporaryDir folder;
    LessonWindow open;
    open.open(qPrintable(lessonOfTwoStarts(folder)));
    open.window.runControl()->runUntil(100000);
    auto* progress = open.pane()->findChild<QLabel*>("lesson_progress");
    QTRY_VERIFY(progress->isVisible() || open.tasks()[0]->done());
    QTRY_VERIFY_WITH_TIMEOUT(open.tasks()[0]->done(), kLessonWaitMs);
    QVERIFY(progress->text().isEmpty() || progress->text().contains(" of 4"));
  }

  void nextWaitsForTheTasksAndIsAlwaysInSight() {
    LessonWindow open;
    open.window.resize(1280, 800);
    open.open("mx-block");
    QVERIFY(!open.next()->isEnabled());
    QVERIFY(open.next()->isVisible());
    open.takeStep();
    for (QPushButton* button : {open.next(), open.reveal()})
      QVERIFY(open.pane()->rect().contains(button->mapTo(open.pane(), button->rect().center())));
    open.next()->click();
    QCOMPARE(open.step(), 1);
  }

  void aPredictionCanBeChangedUntilTheResultIsShown() {
    LessonWindow open;
    open.open("outlier-channel");
    open.choices()[0]->click();
    auto* change = open.pane()->findChild<QToolButton*>("lesson_change");
    QVERIFY(change->isVisible());
    QVERIFY(!open.choices()[0]->isVisible());
    change->click();
    QAbstractButton* right = open.choices()[open.guide()->lesson().steps[0].prediction->right];
    QVERIFY(right->isVisible());
    right->click();
    QVERIFY(open.pane()->findChild<QLabel*>("lesson_prediction")->text().contains(right->accessibleName()));
    open.goOn();
    QTRY_VERIFY(open.reveal()->isVisible());
    open.goOn();
    QTRY_VERIFY(!change->isVisible());
    QVERIFY(open.pageText().contains("Correct"));
    open.open("softmax-twice");  // covered panels without data show no result yet
    open.choices()[0]->click();
    QVERIFY(change->isVisible());
  }

  void aBrokenFileIsRefusedWithItsLine() {
    QTemporaryDir folder;
    LessonWindow open;
    QSignalSpy failed(&open.window, &MainWindow::failed);
    open.window.lessons()->start(lessonFile(folder, "title = \"x\"\nteaches = \"x\"\nnonsense = 1\n"));
    QCOMPARE(failed.count(), 1);
    QVERIFY(failed[0][0].toString().contains("lesson.toml:3: nonsense: no such key"));
    QVERIFY(!open.guide()->active());
  }
};

SCREEN_TEST(LessonTest)
#include "qt_lessons.moc"
