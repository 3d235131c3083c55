// Lessons in the window, completed with keys and clicks while a model trains.
#include <QComboBox>
#include <QDockWidget>
#include <QLabel>
#include <QLineEdit>
#include <QMenuBar>
#include <QMessageBox>
#include <QPushButton>
#include <QRadioButton>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <algorithm>

#include "app/actions/live_settings.h"
#include "app/actions/run_control.h"
#include "app/lessons/lesson_actions.h"
#include "app/lessons/lesson_guide.h"
#include "app/lessons/lesson_pane.h"
#include "app/look/theme.h"
#include "app/window/main_window.h"
#include "app/workspaces/microscaling_workspace.h"
#include "app/workspaces/overview.h"
#include "app/workspaces/panel_dock.h"
#include "app/workspaces/workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/config/config_toml.h"
#include "core/lessons/lesson_figures.h"
#include "tests/support/takes_keys.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensors_panel.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/router/load_over_time_panel.h"

using namespace moescope;

namespace {

constexpr int kWaitMs = 240000;

struct OpenWindow {
  MainWindow window{false};
  OpenWindow() {
    window.runControl()->setRecorded(false);
    window.show();
    if (!QTest::qWaitForWindowExposed(&window)) qFatal("no window");
  }
  LessonPane* pane() { return window.findChild<LessonPane*>(); }
  LessonGuide* guide() { return window.findChild<LessonGuide*>(); }
  QList<QRadioButton*> choices() { return pane()->findChildren<QRadioButton*>(); }
  QList<LessonTaskButton*> tasks() {
    QList<LessonTaskButton*> all;
    for (QPushButton* button : pane()->findChildren<QPushButton*>("lesson_task"))
      all << static_cast<LessonTaskButton*>(button);
    return all;
  }
  const QList<LessonFigureRow>& figures() { return pane()->findChild<LessonFigureList*>()->rows(); }
  QPushButton* next() { return pane()->findChild<QPushButton*>("lesson_next"); }
  QPushButton* reveal() { return pane()->findChild<QPushButton*>("lesson_reveal"); }
  int step() {  // counted from 0; the page counts from 1
    return pane()->findChild<QLabel*>("lesson_step")->text().section("tep ", 1, 1).section(' ', 0, 0).toInt() - 1;
  }
  QString pageText() {
    QString all;
    for (const QLabel* label : pane()->findChildren<QLabel*>())
      if (label->isVisibleTo(pane())) all += label->text() + "\n";
    return all;
  }
  // Does the next thing of the lesson (Ctrl+Return).
  void goOn() { QTest::keyClick(&window, Qt::Key_Return, Qt::ControlModifier); }
  void open(const char* lesson) {
    QSignalSpy opened(window.session(), &RunSession::opened);
    window.lessons()->start(lesson);
    QVERIFY(guide()->active());
    if (!guide()->lesson().runs.empty()) QVERIFY(opened.wait(kWaitMs));
    QVERIFY(takesKeys(&window));
  }
  // Completes a step: chooses the right prediction (skips one of a number), does the tasks, and reveals the result.
  void takeStep() {
    const LessonStep& step = guide()->lesson().steps[static_cast<std::size_t>(this->step())];
    if (step.prediction && !step.prediction->choices.empty()) {
      QRadioButton* choice = choices()[step.prediction->right];
      choice->setFocus();
      QTest::keyClick(choice, Qt::Key_Space);
    } else if (step.prediction) {
      QRadioButton* skip = choices().last();
      QTest::mouseClick(skip, Qt::LeftButton, {}, QPoint(8, skip->height() / 2));
    }
    for (int i = 0; i < tasks().size(); ++i) {
      QTRY_VERIFY_WITH_TIMEOUT(tasks()[i]->isEnabled(), kWaitMs);
      goOn();
      QTRY_VERIFY_WITH_TIMEOUT(tasks()[i]->done(), kWaitMs);
    }
    if (step.reveal.empty()) return;
    QTRY_VERIFY(reveal()->isVisible());
    QVERIFY(!next()->isVisible());  // only one of the two buttons is visible
    goOn();
    QTRY_VERIFY(pageText().contains("What happened"));
    QVERIFY2(!pageText().contains("differs from the lesson"), qPrintable(pageText()));
    QTRY_VERIFY(next()->isVisible() && next()->isEnabled());
  }
  void takeLesson() {
    const int steps = static_cast<int>(guide()->lesson().steps.size());
    for (int step = 0; step < steps; ++step) {
      QCOMPARE(this->step(), step);
      takeStep();
      if (QTest::currentTestFailed()) return;
      QTest::keyClick(&window, Qt::Key_Right, Qt::AltModifier);
    }
  }
};

// True if no task is ticked and no figure has a value.
bool nothingIsJudged(OpenWindow& open) {
  for (const LessonTaskButton* task : open.tasks())
    if (task->done()) return false;
  return std::ranges::all_of(open.figures(),
                             [](const LessonFigureRow& row) { return row.kind == LessonFigureRow::Kind::missing; });
}

// States in which the window may be before a lesson starts.
class StateBefore {
 public:
  explicit StateBefore(MainWindow* window) : window_(window) {
    QFile log(folder_.filePath("run.jsonl"));
    if (!log.open(QIODevice::WriteOnly)) qFatal("no log");
    for (int step = 0; step < 1000; ++step)
      log.write(
          QString("{\"step\": %1, \"loss\": 2.5, \"tokens_per_expert\": [[10, 20, 30, 40]]}\n").arg(step).toUtf8());
  }

  void enter(const QString& state, const std::string& lesson) {
    QSignalSpy opened(window_->session(), &RunSession::opened);
    if (state == "log being opened") return window_->session()->open({folder_.filePath("run.jsonl")});
    if (state == "log open") window_->session()->open({folder_.filePath("run.jsonl")});
    if (state == "log followed") window_->session()->follow({folder_.filePath("run.jsonl")});
    if (state.contains("lesson")) window_->lessons()->start(state == "same lesson" ? lesson.c_str() : "loud-channel");
    if (state == "comparison" || state.startsWith("run"))
      window_->runControl()->startAll(runs(state == "comparison" ? 3 : 1), RunControl::Start::paused);
    if (!state.contains("lesson") || window_->session()->opening())
      QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty() && !window_->session()->opening(), kWaitMs);
    if (state == "run in training") window_->session()->live()->run();
    const std::int64_t steps = state == "comparison" ? 3 : state == "run beyond the steps" ? 310 : 0;
    if (steps == 0) return;
    window_->session()->live()->run_until(steps);
    QTRY_COMPARE_WITH_TIMEOUT(window_->session()->live()->status().step, steps, kWaitMs);
  }

 private:
  // Returns configs of runs that train as fast as possible.
  static std::vector<RunConfig> runs(int count) {
    RunConfig config = load_preset("nano").config;
    config.model.n_layers = 2;
    config.data.batch = 1;
    config.data.seq = 16;
    config.telemetry.validation_every = 0;
    std::vector<RunConfig> all(static_cast<std::size_t>(count), config);
    for (int i = 1; i < count; ++i) all[static_cast<std::size_t>(i)].seed += i;
    return all;
  }

  MainWindow* window_;
  QTemporaryDir folder_;
};

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
  void everyPanelThatALessonNamesIsThere() {
    OpenWindow open;
    for (const std::string& name : lesson_names()) {
      const QStringList unknown = LessonPanels::unknown(find_lesson(name).lesson, *open.window.workspaces());
      QVERIFY2(unknown.isEmpty(), qPrintable(unknown.join("; ")));
    }
  }

  void aTensorLessonGoesToItsEndByKeyboard() {
    OpenWindow open;
    open.open("mx-block");
    open.takeLesson();
    // The prediction of a number was skipped, so it does not count.
    QVERIFY2(open.pageText().contains("Correct predictions: **2 of 2**"), qPrintable(open.pageText()));
    QCOMPARE(open.window.workspaces()->microscaling()->tensorLab()->tensorName(), QString("near-0.93"));
  }

  void thePageFollowsTheTheme() {
    applyTheme(Theme::dark);
    OpenWindow open;
    open.open("mx-block");
    for (const Theme theme : {Theme::light, Theme::dark}) {
      applyTheme(theme);
      QCoreApplication::processEvents();
      const QPalette wanted = themePalette(theme);
      for (const QWidget* part : open.pane()->findChildren<QWidget*>()) {
        if (!part->isVisible() || part->objectName().startsWith("figure_")) continue;
        QVERIFY2(part->palette().color(QPalette::Active, QPalette::WindowText) ==
                     wanted.color(QPalette::Active, QPalette::WindowText),
                 qPrintable(part->metaObject()->className() + (' ' + part->objectName())));
      }
      QWidget* dock = open.window.findChild<QDockWidget*>("dock_lesson");
      const QColor behind = dock->grab().toImage().pixelColor(dock->width() / 2, dock->height() - 12);
      QCOMPARE(behind, wanted.color(QPalette::Base));
    }
  }

  // Uses the lesson with the shortest training. test_lessons trains all of them.
  void aTrainingLessonGoesToItsEndByKeyboard() {
    OpenWindow open;
    open.open("deepep-measured");
    QCOMPARE(open.window.session()->histories().size(), std::size_t{2});
    QCOMPARE(open.window.session()->live()->status().step, 0);  // the lesson has not started the training
    QCOMPARE(open.window.workspaces()->current()->name(), QString("All-to-all"));
    open.takeLesson();
    QVERIFY2(open.pageText().contains("Correct predictions: **3 of "), qPrintable(open.pageText()));
  }

  void aSettingForAllRunsIsMadeInEveryRun() {
    QTemporaryDir folder;
    OpenWindow open;
    open.open(
        qPrintable(lessonFile(folder, kNano + "[[runs.run]]\nname = \"twin\"\nset = { router.top_k = 1 }\n" + kStep +
                                          "[[step.do]]\nrun = \"all\"\nset = { router.bias_update_rate = 0.25 }\n")));
    // The same change in run A only, made by hand, does not complete the task.
    open.window.findChild<LiveSettings*>()->change(0, &RouterConfig::bias_update_rate, 0.25);
    QTest::qWait(500);  // the guide checks the tasks four times per second
    QVERIFY(!open.tasks()[0]->done());
    const int before = open.window.findChild<QUndoStack*>()->count();
    open.takeStep();
    QCOMPARE(open.window.findChild<QUndoStack*>()->count(), before + 1);  // the change of all runs can be undone
    for (int place : {0, 1}) QCOMPARE(open.window.session()->config(place).router.bias_update_rate, 0.25);
  }

  void tasksWaitForThePredictionAndOneAnother() {
    OpenWindow open;
    open.open("precision-routing");
    open.takeStep();
    open.guide()->next();
    for (QPushButton* task : open.tasks()) QVERIFY(!task->isEnabled());
    open.pane()->findChild<QLineEdit*>()->setText("3");
    QTest::keyClick(open.pane()->findChild<QLineEdit*>(), Qt::Key_Return);
    QVERIFY(open.tasks()[0]->isEnabled());
    QVERIFY(!open.tasks()[1]->isEnabled());
  }

  void aWrongPredictionIsToldAndCounted() {
    OpenWindow open;
    open.open("loud-channel");
    open.choices()[0]->setFocus();
    QTest::keyClick(open.choices()[0], Qt::Key_Space);
    open.goOn();
    QTRY_VERIFY(open.reveal()->isVisible());
    open.goOn();
    QVERIFY2(open.pageText().contains("Not as predicted"), qPrintable(open.pageText()));
  }

  void leavingBringsTheOwnArrangementBack() {
    OpenWindow open;
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

  void panelsThatGiveTheAnswerAwayWaitForThePrediction() {
    OpenWindow open;
    open.open("rich-get-richer");
    for (int step = 0; step < 4; ++step) open.guide()->next();
    QVERIFY(open.guide()->lesson().steps[4].view.after_prediction);
    QCOMPARE(open.window.workspaces()->current()->name(), QString("Router"));
    QTest::keyClick(open.choices()[0], Qt::Key_Space);
    QCOMPARE(open.window.workspaces()->current()->name(), QString("Compare"));
  }

  void aLessonChoosesWhatTheCurvesShow() {
    OpenWindow open;
    open.open("bias-or-loss");
    QCOMPARE(open.window.workspaces()->current()->name(), QString("Compare"));
    auto* loss = open.window.workspaces()->current()->findChild<LossPanel*>();
    QCOMPARE(loss->shownMetric(), Metric::max_vio_window);
    for (const std::string& name : lesson_names()) {
      for (const LessonStep& step : find_lesson(name).lesson.steps) {
        if (!step.view.metric) continue;
        loss->setMetric(*step.view.metric);
        QVERIFY2(loss->shownMetric() == *step.view.metric, step.title.c_str());
      }
    }
    open.window.lessons()->leave();
    QCOMPARE(loss->shownMetric(), Metric::ce_loss);
  }

  void aRunThatAPersonTrainedIsNotReplacedUnasked() {
    OpenWindow open;
    QSignalSpy opened(open.window.session(), &RunSession::opened);
    open.window.runControl()->start(load_preset("nano").config, RunControl::Start::paused);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
    open.window.session()->live()->run_until(3);
    QTRY_COMPARE_WITH_TIMEOUT(open.window.session()->live()->status().step, 3, kWaitMs);
    open.window.lessons()->start("bias-or-loss");
    auto* box = open.window.findChild<QMessageBox*>("lesson_question");
    QVERIFY(box);
    QVERIFY(!open.guide()->active());
    box->button(QMessageBox::Cancel)->click();
    QTRY_VERIFY(!open.window.findChild<QMessageBox*>("lesson_question"));
    QCOMPARE(open.window.session()->live()->status().step, 3);
    open.window.session()->live()->run();
    open.window.lessons()->start("bias-or-loss");
    QVERIFY(!open.window.session()->live()->status().running);  // the question pauses the run
    open.window.findChild<QMessageBox*>("lesson_question")->button(QMessageBox::Cancel)->click();
    QTRY_VERIFY(open.window.session()->live()->status().running);
    QTRY_VERIFY(!open.window.findChild<QMessageBox*>("lesson_question"));
    open.window.lessons()->start("bias-or-loss");
    open.window.findChild<QMessageBox*>("lesson_question")->findChild<QPushButton*>("start_lesson")->click();
    QVERIFY(opened.wait(kWaitMs));
    QVERIFY(open.guide()->active());
    QCOMPARE(open.window.session()->histories().size(), std::size_t{4});
  }

  // A lesson starts with its own tensor, format and block, not with those that another lesson has left.
  void aTensorLessonBeginsAtItsBlockWhereverOneComesFrom() {
    OpenWindow open;
    TensorLab* lab = open.window.workspaces()->microscaling()->tensorLab();
    const MatrixFormat usual{mx_format(ElementFormat::e4m3), BlockAxis::row};
    open.open("loud-channel");
    open.takeLesson();
    QVERIFY(lab->format() != usual);
    lab->browser()->findChild<QLineEdit*>()->setText("outlier");  // the filter must not hide the next lesson's tensor
    open.open("mx-block");
    QCOMPARE(lab->tensorName(), QString("gaussian"));
    QVERIFY(lab->format() == usual);
    QVERIFY(lab->showsBlockOf(2, 36));
    QVERIFY(!open.tasks()[0]->done());
    QVERIFY(!lab->browser()->selectNamed("outlier-channel"));
    open.takeLesson();
    open.open("loud-channel");  // its first task shows the usual format; it is not done in advance
    QCOMPARE(lab->tensorName(), QString("outlier-channel"));
    QVERIFY(!open.tasks()[0]->done());
  }

  // Every lesson starts correctly in every state of the window. A run that is already beyond the lesson's steps must
  // not complete its tasks.
  void everyLessonStartsAfterEveryOtherState_data() {
    QTest::addColumn<QString>("state");
    for (const char* state : {"run in training", "run beyond the steps", "log open", "log followed", "comparison",
                              "other lesson", "same lesson", "log being opened"})
      QTest::newRow(state) << QString(state);
  }

  void everyLessonStartsAfterEveryOtherState() {
    QFETCH(QString, state);
    OpenWindow open;
    StateBefore before(&open.window);
    for (const std::string& name : lesson_names()) {
      before.enter(state, name);
      if (QTest::currentTestFailed()) return;
      QSignalSpy opened(open.window.session(), &RunSession::opened);
      open.window.lessons()->start(QString::fromStdString(name), LessonActions::Ask::never);
      QVERIFY(open.guide()->active());
      const Lesson& lesson = open.guide()->lesson();
      QVERIFY2(nothingIsJudged(open), name.c_str());
      if (lesson.runs.empty()) continue;
      QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty() && !open.window.session()->opening(), kWaitMs);
      QTest::qWait(50);  // the guide checks the tasks after the window has opened the runs
      QVERIFY2(nothingIsJudged(open), name.c_str());
      QCOMPARE(open.window.session()->histories().size(), lesson.runs.size());
      QCOMPARE(open.window.session()->live()->status().step, 0);
      QVERIFY(open.pane()->findChild<QLabel*>("lesson_missing")->isHidden());
      if (lesson.steps.front().prediction) open.choices().last()->click();
      QTRY_VERIFY2(open.tasks()[0]->isEnabled(), name.c_str());
      open.tasks()[0]->click();
      QTRY_VERIFY_WITH_TIMEOUT(open.window.session()->live()->status().step > 0, kWaitMs);
    }
  }

  // If other runs are opened, the lesson shows no figures, because they would be those of the other runs.
  void aLessonSaysThatItsRunsAreGone() {
    OpenWindow open;
    open.open("precision-routing");
    auto* missing = open.pane()->findChild<QLabel*>("lesson_missing");
    StateBefore before(&open.window);
    for (const QString state : {"log open", "run beyond the steps"}) {
      before.enter(state, "precision-routing");
      QTRY_VERIFY(missing->isVisible());
      QVERIFY(!open.tasks()[0]->isEnabled());
      QVERIFY2(nothingIsJudged(open), qPrintable(state));
      QSignalSpy opened(open.window.session(), &RunSession::opened);
      open.guide()->reset();
      QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kWaitMs);
      QTRY_VERIFY(!missing->isVisible());
      QTRY_VERIFY(open.tasks()[0]->isEnabled());
    }
    open.window.session()->removeRun(1);
    QTRY_VERIFY(missing->isVisible());
    QVERIFY(!open.tasks()[0]->isEnabled());
  }

  void aStepKeepsItsFiguresWhenAnotherOneStartsRuns() {
    QTemporaryDir folder;
    OpenWindow open;
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
    QTest::qWait(300);
    QVERIFY(open.figures() == figures);
    QVERIFY(open.tasks()[0]->done());
    open.guide()->next();
    open.guide()->next();
    QTRY_VERIFY(open.tasks()[0]->isEnabled());
  }

  void aRunThatWentBackHasNotBeenTrained() {
    QTemporaryDir folder;
    OpenWindow open;
    open.open(qPrintable(lessonOfTwoStarts(folder)));
    open.takeStep();
    QCOMPARE(open.window.session()->rewind(0), QString());
    QTRY_VERIFY(!open.tasks()[0]->done());
    QTRY_VERIFY(open.tasks()[0]->isEnabled());
  }

  void theEndOfATaskDoesNotHoldForTheNextRun() {
    QTemporaryDir folder;
    OpenWindow open;
    open.open(qPrintable(lessonOfTwoStarts(folder)));
    open.takeStep();
    open.window.lessons()->leave();
    QSignalSpy opened(open.window.session(), &RunSession::opened);
    open.window.runControl()->start(load_preset("nano").config);
    QVERIFY(opened.wait(kWaitMs));
    QTRY_VERIFY_WITH_TIMEOUT(open.window.session()->live()->status().step > 4, kWaitMs);
  }

  void aLessonEnteredFromAnotherStartsClean() {
    OpenWindow open;
    Selection* selection = open.window.selection();
    open.open("bias-thermostat");
    Panel* load = open.window.workspaces()->current()->panel("dock_router_load_over_time");
    QVERIFY(load);
    const QVariantMap initial = load->saveState();
    for (QComboBox* box : load->findChildren<QComboBox*>()) box->setCurrentIndex(box->count() - 1);
    QVERIFY(load->saveState() != initial);
    open.window.runControl()->runUntil(6);
    QTRY_VERIFY_WITH_TIMEOUT(selection->history()->steps().last >= 5, kWaitMs);
    selection->refresh();
    selection->setRun(2);
    selection->setExpert(3);
    selection->setLayer(selection->history()->info().moe_layers.back());
    selection->setRange({1, 3});
    open.open("bias-or-loss");
    QTRY_COMPARE(selection->run(), 0);
    QCOMPARE(selection->expert(), -1);
    QCOMPARE(selection->layer(), selection->history()->info().moe_layers.front());
    QVERIFY(selection->following());
    QCOMPARE(load->saveState(), initial);
  }

  // The projector view enlarges all parts of the page. After it, type, sizes and places are as before.
  void theProjectorViewEnlargesTheLessonAndComesBackExactly() {
    applyTheme(Theme::light);
    OpenWindow open;
    open.window.resize(1280, 800);
    open.open("bias-thermostat");
    QTest::qWait(600);
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
    const int of_title = title->fontInfo().pixelSize(), of_name = name->fontInfo().pixelSize();
    QTest::keyClick(&open.window, Qt::Key_F5);
    QTest::qWait(300);
    QVERIFY(title->fontInfo().pixelSize() > 1.35 * of_title);
    QVERIFY(name->fontInfo().pixelSize() > 1.35 * of_name);
    QCOMPARE(open.window.size(), QSize(1280, 800));
    QTest::keyClick(&open.window, Qt::Key_F5);
    QTest::qWait(600);
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
      OpenWindow open;
      open.window.resize(1280, 800);
      open.open(lesson);
      QTRY_COMPARE(open.window.size(), QSize(1280, 800));
      QTest::qWait(300);
      QCOMPARE(open.window.size(), QSize(1280, 800));
    }
  }

  void aTrainingThatALessonLeavesBehindIsPaused() {
    OpenWindow open;
    open.open("bias-thermostat");
    open.window.runControl()->runUntil(100000);
    QVERIFY(open.window.session()->live()->status().running);
    open.window.lessons()->start("mx-block");
    QTRY_VERIFY_WITH_TIMEOUT(!open.window.session()->live()->status().running, kWaitMs);
  }

  void everyLessonInTheMenuHasAKeyOfItsOwn() {
    OpenWindow open;
    QMenu* menu = nullptr;
    for (const QAction* top : open.window.menuBar()->actions())
      if (top->text() == "&Lessons") menu = top->menu();
    QVERIFY(menu);
    emit menu->aboutToShow();
    QStringList keys;
    QVERIFY(menu->actions()[1]->text().endsWith("The bias thermostat, 6 min"));
    for (int i = 0; i < static_cast<int>(lesson_names().size()); ++i) {
      const QString text = menu->actions()[i]->text();
      QVERIFY2(QString(text).remove('&').startsWith(QString("%1 ").arg(i + 1)), qPrintable(text));
      keys << text.section('&', 1).left(1);
    }
    QCOMPARE(keys.mid(0, 10).join(' '), QString("1 2 3 4 5 6 7 8 9 0"));
  }

  void theStepOfATrainingIsShownWhileItRuns() {
    QTemporaryDir folder;
    OpenWindow open;
    open.open(qPrintable(lessonOfTwoStarts(folder)));
    open.window.runControl()->runUntil(100000);
    auto* progress = open.pane()->findChild<QLabel*>("lesson_progress");
    QTRY_VERIFY(progress->isVisible() || open.tasks()[0]->done());
    QTRY_VERIFY_WITH_TIMEOUT(open.tasks()[0]->done(), kWaitMs);
    QVERIFY(progress->text().isEmpty() || progress->text().endsWith(" of 4"));
  }

  void nextWaitsForTheTasksAndIsAlwaysInSight() {
    OpenWindow open;
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
    OpenWindow open;
    open.open("loud-channel");
    open.choices()[0]->click();
    auto* change = open.pane()->findChild<QToolButton*>("lesson_change");
    QVERIFY(change->isVisible());
    QVERIFY(!open.choices()[0]->isVisible());
    change->click();
    QVERIFY(open.choices()[1]->isVisible());
    open.choices()[1]->click();
    QVERIFY(open.pane()->findChild<QLabel*>("lesson_prediction")->text().contains(open.choices()[1]->accessibleName()));
    open.goOn();
    QTRY_VERIFY(open.reveal()->isVisible());
    open.goOn();
    QTRY_VERIFY(!change->isVisible());
    QVERIFY(open.pageText().contains("Correct"));
  }

  void thePanelsOfAStepHaveAnAccentBorder() {
    OpenWindow open;
    open.open("bias-thermostat");
    auto* load = open.window.findChild<PanelDock*>("dock_router_load_over_time");
    QVERIFY(load->accented());
    QTRY_COMPARE(load->grab().toImage().pixelColor(load->width() / 2, 0), QColor(colors(load->palette()).accent));
    open.window.lessons()->leave();
    QVERIFY(!load->accented());
  }

  void runsOfAComparisonHaveAPanelEach() {
    OpenWindow open;
    open.open("rich-get-richer");
    open.guide()->next();
    auto* dock = open.window.findChild<QDockWidget*>("dock_router_load_over_time");
    auto* own = qobject_cast<Panel*>(dock->widget());
    QVERIFY(own);  // there is only one run
    open.choices()[0]->click();
    QSignalSpy opened(open.window.session(), &RunSession::opened);
    open.tasks()[0]->click();
    QVERIFY(opened.wait(kWaitMs));
    QTRY_COMPARE(dock->widget()->findChildren<LoadOverTimePanel*>().size(), 4);
    const QList<SelectionOfRun*> of_runs = dock->widget()->findChildren<SelectionOfRun*>();
    QCOMPARE(of_runs.size(), 4);
    for (int run = 0; run < 4; ++run) QCOMPARE(of_runs[run]->run(), run);
    QTRY_VERIFY(open.tasks()[1]->isEnabled());
    open.window.runControl()->runUntil(12);
    QTRY_VERIFY_WITH_TIMEOUT(open.window.selection()->history()->steps().last >= 11, kWaitMs);
    open.window.selection()->refresh();
    of_runs[2]->setRange({2, 7});  // zooms in one of the four panels
    QCOMPARE(open.window.selection()->range(), (StepRange{2, 7}));
    QCOMPARE(of_runs[3]->range(), (StepRange{2, 7}));
    open.window.lessons()->leave();
    QCOMPARE(dock->widget(), own);
    QVERIFY(!own->isHidden());
  }

  // Before the prediction no verdict is shown, because it would tell how even the load is.
  void verdictsWaitForThePrediction() {
    OpenWindow open;
    open.open("bias-thermostat");
    const auto shown = [&] { return open.window.workspaces()->overview()->verdictShown(); };
    QVERIFY(!shown());
    open.choices()[0]->click();
    QVERIFY(shown());
    open.guide()->next();
    QVERIFY(!shown());
    open.window.lessons()->leave();
    QVERIFY(shown());
  }

  void resettingAStepTakesItsRunsBack() {
    QTemporaryDir folder;
    OpenWindow open;
    open.open(qPrintable(lessonFile(folder, kNano + kStep + trainTo(4) + kStep + trainTo(9))));
    open.takeStep();
    open.guide()->next();
    open.takeStep();
    QCOMPARE(open.window.session()->live()->status().step, 9);
    open.guide()->resetStep();
    QTRY_COMPARE(open.window.session()->live()->status().step, 4);
    QCOMPARE(open.step(), 1);
    QVERIFY(!open.tasks()[0]->done());
    open.takeStep();
    QCOMPARE(open.window.session()->live()->status().step, 9);
  }

  void aBrokenFileIsRefusedWithItsLine() {
    QTemporaryDir folder;
    OpenWindow open;
    QSignalSpy failed(&open.window, &MainWindow::failed);
    open.window.lessons()->start(lessonFile(folder, "title = \"x\"\nteaches = \"x\"\nnonsense = 1\n"));
    QCOMPARE(failed.count(), 1);
    QVERIFY(failed[0][0].toString().contains("lesson.toml:3: nonsense: no such key"));
    QVERIFY(!open.guide()->active());
  }
};

QTEST_MAIN(LessonTest)
#include "qt_lessons.moc"
