// What the window has before a lesson starts and after it ends: other runs, logs, lessons and arrangements.
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QMessageBox>
#include <QPushButton>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include "app/actions/run_control.h"
#include "app/lessons/lesson_actions.h"
#include "app/lessons/lesson_guide.h"
#include "app/lessons/lesson_pane.h"
#include "app/window/main_window.h"
#include "app/workspaces/workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/config/config_toml.h"
#include "core/lessons/lesson_figures.h"
#include "tests/support/controls.h"
#include "tests/support/lesson_window.h"
#include "tests/support/screen_test.h"
#include "tests/support/seeds.h"
#include "widgets/compare/routing_flips_panel.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensors_panel.h"

using namespace moescope;

namespace {

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
    if (state.contains("lesson"))
      window_->lessons()->start(state == "same lesson" ? lesson.c_str() : "outlier-channel");
    if (state == "comparison" || state.startsWith("run"))
      window_->runControl()->startAll(runs(state == "comparison" ? 3 : 1), RunControl::Start::paused);
    if (!state.contains("lesson") || window_->session()->opening())
      QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty() && !window_->session()->opening(), kLessonWaitMs);
    if (state == "run in training") window_->session()->live()->run();
    if (state != "comparison" && state != "run beyond the steps") return;
    const std::int64_t steps = state == "comparison" ? 3 : 310;
    window_->session()->live()->run_until(steps);
    QTRY_COMPARE_WITH_TIMEOUT(window_->session()->live()->status().step, steps, kLessonWaitMs);
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

}  // namespace

class LessonStartsTest : public QObject {
  Q_OBJECT

 private slots:
  void aRunThatAPersonTrainedIsNotReplacedUnasked() {
    LessonWindow open;
    QSignalSpy opened(open.window.session(), &RunSession::opened);
    open.window.runControl()->start(load_preset("nano").config, RunControl::Start::paused);
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kLessonWaitMs);
    open.window.session()->live()->run_until(3);
    QTRY_COMPARE_WITH_TIMEOUT(open.window.session()->live()->status().step, 3, kLessonWaitMs);
    open.window.lessons()->start("bias-or-loss");
    auto* box = open.window.findChild<QMessageBox*>("close_question");
    QVERIFY(box);
    QVERIFY(!open.guide()->active());
    box->button(QMessageBox::Cancel)->click();
    QTRY_VERIFY(!open.window.findChild<QMessageBox*>("close_question"));
    QCOMPARE(open.window.session()->live()->status().step, 3);
    open.window.lessons()->start("bias-or-loss");
    open.window.findChild<QMessageBox*>("close_question")->findChild<QPushButton*>("close_open_runs")->click();
    QVERIFY(opened.wait(kLessonWaitMs));
    QVERIFY(open.guide()->active());
    QCOMPARE(open.window.session()->histories().size(), std::size_t{4});
  }

  // A lesson starts with its own tensor, format and block, not with those that another lesson has left.
  void aTensorLessonBeginsAtItsBlockWhereverOneComesFrom() {
    LessonWindow open;
    TensorLab* lab = open.window.workspaces()->microscaling()->tensorLab();
    const MatrixFormat usual{mx_format(ElementFormat::e4m3), BlockAxis::row};
    open.open("outlier-channel");
    open.takeLesson();
    QCOMPARE(lab->tensorName(), QString("wide-gradient"));
    lab->browser()->findChild<QLineEdit*>()->setText("outlier");  // the filter must not hide the next lesson's tensor
    open.open("mx-block");
    QCOMPARE(lab->tensorName(), QString("gaussian"));
    QVERIFY(lab->format() == usual);
    QVERIFY(lab->showsBlockOf(2, 36));
    QVERIFY(!open.tasks()[0]->done());
    QVERIFY(!lab->browser()->selectNamed("outlier-channel"));
    open.takeLesson();
    open.open("outlier-channel");  // its first task shows the usual format; it is not done in advance
    QCOMPARE(lab->tensorName(), QString("outlier-channel"));
    QVERIFY(!open.tasks()[0]->done());
  }

  // Every lesson starts correctly in every state of the window. A run that is already beyond the lesson's steps must
  // not complete its tasks. With one seed (seeds.h), half of the lessons are started after each state, the other half
  // after the next state.
  void everyLessonStartsAfterEveryOtherState_data() {
    QTest::addColumn<QString>("state");
    QTest::addColumn<std::size_t>("first_lesson");
    std::size_t count = 0;
    for (const char* state : {"run in training", "run beyond the steps", "log open", "log followed", "comparison",
                              "other lesson", "same lesson", "log being opened"})
      QTest::newRow(state) << QString(state) << count++ % 2;
  }

  void everyLessonStartsAfterEveryOtherState() {
    QFETCH(QString, state);
    QFETCH(std::size_t, first_lesson);
    LessonWindow open;
    StateBefore before(&open.window);
    const std::vector<std::string> names = lesson_names();
    const bool all = tried_seeds().size() > 1;
    for (std::size_t i = all ? 0 : first_lesson; i < names.size(); i += all ? 1 : 2) {
      const std::string& name = names[i];
      before.enter(state, name);
      if (QTest::currentTestFailed()) return;
      QSignalSpy opened(open.window.session(), &RunSession::opened);
      open.window.lessons()->start(QString::fromStdString(name), LessonActions::Ask::never);
      QVERIFY(open.guide()->active());
      const Lesson& lesson = open.guide()->lesson();
      QVERIFY2(nothingIsJudged(open), name.c_str());
      if (lesson.runs.empty()) continue;
      QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty() && !open.window.session()->opening(), kLessonWaitMs);
      QTest::qWait(50);  // nothing is judged: the guide checks the tasks after the runs are open
      QVERIFY2(nothingIsJudged(open), name.c_str());
      QCOMPARE(open.window.session()->histories().size(), lesson.runs.size());
      QCOMPARE(open.window.session()->live()->status().step, 0);
      QVERIFY(open.pane()->findChild<QLabel*>("lesson_missing")->isHidden());
      if (lesson.steps.front().prediction) open.choices().last()->click();
      QTRY_VERIFY2(open.tasks()[0]->isEnabled(), name.c_str());
      open.tasks()[0]->click();
      QTRY_VERIFY_WITH_TIMEOUT(open.window.session()->live()->status().step > 0, kLessonWaitMs);
    }
  }

  // If other runs are opened, the lesson shows no figures, because they would be those of the other runs.
  void aLessonSaysThatItsRunsAreGone() {
    LessonWindow open;
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
      QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), kLessonWaitMs);
      QTRY_VERIFY(!missing->isVisible());
      open.choices()[0]->click();
      QTRY_VERIFY(open.tasks()[0]->isEnabled());
    }
    open.window.session()->removeRun(1);
    QTRY_VERIFY(missing->isVisible());
    QVERIFY(!open.tasks()[0]->isEnabled());
  }

  void aLessonEnteredFromAnotherStartsClean() {
    LessonWindow open;
    Selection* selection = open.window.selection();
    open.open("bias-thermostat");
    Panel* load = open.window.workspaces()->current()->panel("dock_router_load");
    QVERIFY(load);
    const QVariantMap initial = load->saveState();
    for (QComboBox* box : load->findChildren<QComboBox*>()) box->setCurrentIndex(box->count() - 1);
    QVERIFY(load->saveState() != initial);
    open.window.runControl()->runUntil(6);
    QTRY_VERIFY_WITH_TIMEOUT(selection->history()->steps().last >= 5, kLessonWaitMs);
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

  // A panel that chooses its view by the runs chooses it by those of the new lesson: lesson 12 compares its steps with
  // FP32, the exhibit does not.
  void aLessonsRunsChooseTheViewOfAPanel() {
    LessonWindow open;
    const auto train = [&](std::int64_t steps) {
      open.window.runControl()->runUntil(steps);
      QTRY_VERIFY_WITH_TIMEOUT(open.window.session()->live()->status().step >= steps, kLessonWaitMs);
    };
    auto* flips = open.window.findChild<RoutingFlipsPanel*>();
    const QAbstractButton* by_rounding = button(flips, "by rounding");
    open.open("judge-recipe");
    train(1);
    QTRY_VERIFY(by_rounding->isChecked());
    open.open("stored-in-bf16");
    train(3);
    QTRY_VERIFY2(flips->answerText().contains("A"), qPrintable(flips->answerText()));
    QVERIFY(!by_rounding->isChecked());
  }

  void aTrainingThatALessonLeavesBehindIsPaused() {
    LessonWindow open;
    open.open("bias-thermostat");
    open.window.runControl()->runUntil(100000);
    QVERIFY(open.window.session()->live()->status().running);
    open.window.lessons()->start("mx-block");
    QTRY_VERIFY_WITH_TIMEOUT(!open.window.session()->live()->status().running, kLessonWaitMs);
  }
};

SCREEN_TEST(LessonStartsTest)
#include "qt_lesson_starts.moc"
