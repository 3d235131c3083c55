// The panels of the steps of a lesson: which are covered, in sight and framed, and what they show.
#include <QComboBox>
#include <QDockWidget>
#include <QLabel>
#include <QSignalSpy>
#include <QTest>
#include <QToolButton>

#include "app/actions/run_control.h"
#include "app/lessons/lesson_actions.h"
#include "app/lessons/lesson_guide.h"
#include "app/lessons/lesson_pane.h"
#include "app/lessons/lesson_panels.h"
#include "app/window/main_window.h"
#include "app/workspaces/panel_dock.h"
#include "app/workspaces/workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "tests/support/laid_out.h"
#include "tests/support/lesson_window.h"
#include "tests/support/screen_test.h"
#include "widgets/compare/verdicts_panel.h"
#include "widgets/microscaling/capture_bar.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/panel/controls.h"
#include "widgets/plots/line_plot.h"
#include "widgets/router/expert_bias_over_time_panel.h"
#include "widgets/router/expert_load_panel.h"

using namespace moescope;

namespace {

constexpr int kMinDockHeight = 150, kMinCurveHeight = 120;

QString q(const std::string& text) {
  return QString::fromStdString(text);
}

// Returns the panels of the current workspace that can be read, without the block microscope, which shows one block.
QStringList openPanels(LessonWindow& open) {
  QStringList names;
  for (QDockWidget* dock : open.window.workspaces()->current()->docks())
    if (dock->isVisible() && !static_cast<PanelDock*>(dock)->covered() && dock->objectName() != "dock_micro_microscope")
      names << dock->objectName();
  return names;
}

// Returns the controls of the framed panels that can be used, except for explanations.
QStringList usableControls(LessonWindow& open) {
  QStringList names;
  for (const PanelDock* dock : open.window.workspaces()->current()->findChildren<PanelDock*>())
    for (const QWidget* part : dock->accented() ? dock->widget()->findChildren<QWidget*>() : QList<QWidget*>()) {
      const auto* button = qobject_cast<const QAbstractButton*>(part);
      const bool is_control = button || qobject_cast<const QComboBox*>(part);
      if (is_control && part->isEnabled() && !(button && button->text() == "?"))
        names << dock->objectName() + ' ' + part->accessibleName();
    }
  return names;
}

}  // namespace

class LessonPanelsTest : public QObject {
  Q_OBJECT

 private slots:
  void everyPanelThatALessonNamesIsThere() {
    LessonWindow open;
    for (const std::string& name : lesson_names()) {
      const QStringList unknown = LessonPanels::unknown(find_lesson(name).lesson, *open.window.workspaces());
      QVERIFY2(unknown.isEmpty(), qPrintable(unknown.join("; ")));
    }
  }

  // A workspace that a lesson does not use shows what it shows without an earlier lesson.
  void aLessonBeforeLeavesNoEmptyWorkspace() {
    const auto open_panels = [](LessonWindow& open) {
      QStringList names;
      for (const QDockWidget* dock : open.window.workspaces()->named("Router")->docks())
        if (!dock->isHidden()) names << dock->objectName();
      return names;
    };
    LessonWindow fresh, open;
    fresh.open("group-mask");
    const QStringList expected = open_panels(fresh);
    QVERIFY(!expected.isEmpty());
    open.open("counted-padding");
    QCOMPARE(open_panels(open), QStringList("dock_router_load_over_time"));
    open.open("group-mask");
    QCOMPARE(open_panels(open), expected);
    open.window.workspaces()->bringUp("Router");
    QVERIFY(isLaidOut(&open.window));
    QVERIFY(!openPanels(open).isEmpty());
  }

  // Before a prediction, panels are covered if what they show was measured before the step: the step trains nothing, or
  // its runs are not open. The controls of all panels of a step wait for the prediction, since they could show the
  // answer. No verdict and no number of findings is on the screen of a lesson at any time.
  void panelsThatGiveTheAnswerAwayWaitForThePrediction() {
    LessonWindow open;
    for (const std::string& name : lesson_names()) {
      open.open(name.c_str());
      bool lacks_runs = false;  // the loop starts no runs
      for (const LessonStep& step : open.guide()->lesson().steps) {
        const auto trains = [](const LessonTask& task) {
          return task.kind == LessonTask::Kind::run_until || task.kind == LessonTask::Kind::twin;
        };
        lacks_runs |= std::ranges::count(step.tasks, LessonTask::Kind::start, &LessonTask::kind) > 0;
        const bool known =
            step.prediction && (step.view.after_prediction || lacks_runs || std::ranges::none_of(step.tasks, trains));
        QVERIFY2(openPanels(open).isEmpty() == known, step.title.c_str());
        QVERIFY2(!open.window.workspaces()->current()->verdictShown(), step.title.c_str());
        if (step.prediction) QCOMPARE(usableControls(open).join(", "), QString());
        if (step.prediction) open.choices().last()->click();
        // Panels that show other runs until the step has started its own, or the tensor in another format.
        const bool shows =
            !step.tasks.empty() && step.tasks.front().kind == LessonTask::Kind::show && !open.tasks().front()->done();
        for (const std::string& panel : step.view.panels)
          QCOMPARE(open.window.findChild<PanelDock*>(QString::fromStdString(panel))->covered(),
                   (lacks_runs || shows) && panel != "dock_micro_microscope");
        QVERIFY2(step.view.panels.empty() || shows || !usableControls(open).isEmpty(), step.title.c_str());
        QVERIFY(open.window.findChild<QWidget*>("findings_badge")->accessibleName().isEmpty());
        open.guide()->next();
      }
    }
    open.window.lessons()->leave();
    QVERIFY(open.window.workspaces()->current()->verdictShown());
  }

  void aTrainingBeforeThePredictionIsCovered() {
    LessonWindow open;
    open.open("group-mask");
    QTRY_VERIFY(open.guide()->runsAreOurs());
    QCoreApplication::processEvents();  // the guide reads the opened runs
    QVERIFY(!openPanels(open).isEmpty());
    open.window.session()->live()->run_until(3);
    QTRY_VERIFY_WITH_TIMEOUT(openPanels(open).isEmpty(), kLessonWaitMs);
    open.choices()[0]->click();
    QVERIFY(!openPanels(open).isEmpty());
    QTRY_VERIFY(!open.pane()->findChild<QToolButton*>("lesson_change")->isVisible());
  }

  // Every panel that a step names is visible, not behind a tab, and large enough to be read; those that its text is
  // about are framed. The text of a lesson's step and all choices of its question are in sight together.
  void panelsOfAStepAreInSight_data() {
    QTest::addColumn<QSize>("size");
    QTest::addColumn<bool>("projected");
    QTest::newRow("1280 x 800") << QSize(1280, 800) << false;
    QTest::newRow("1920 x 1080") << QSize(1920, 1080) << false;
    QTest::newRow("projector") << QSize(1280, 800) << true;
  }

  void panelsOfAStepAreInSight() {
    QFETCH(QSize, size);
    QFETCH(bool, projected);
    LessonWindow open;
    open.window.resize(size);
    if (projected) QTest::keyClick(&open.window, Qt::Key_F5);
    QStringList all;
    for (const auto& names : {lesson_names(), exhibit_names()}) {
      for (const std::string& name : names) {
        open.open(name.c_str());
        for (const LessonStep& step : open.guide()->lesson().steps) {
          QVERIFY(isLaidOut(&open.window));
          const QWidget* question = open.pane()->question();
          const int below = question->height() - question->visibleRegion().boundingRect().bottom() - 1;
          if (step.prediction && !projected && open.guide()->lesson().explained_by.empty() && below > 0)
            all << QString("%1, %2: %3 px of the question are hidden").arg(q(name), q(step.title)).arg(below);
          for (const std::string& panel : step.view.panels) {
            const auto* dock = open.window.findChild<PanelDock*>(QString::fromStdString(panel));
            const QString place = QString("%1, %2, %3").arg(q(name), q(step.title), q(panel));
            QVERIFY2(dock->isVisible() && !dock->visibleRegion().isEmpty(), qPrintable(place));
            if (dock->height() < kMinDockHeight) all << place + ": " + QString::number(dock->height());
            for (const auto* curves : dock->findChildren<LinePlot*>())
              if (curves->isVisible() && curves->height() < kMinCurveHeight)
                all << QString("%1, %2: %3").arg(place, curves->accessibleName()).arg(curves->height());
            QVERIFY2(dock->accented(), qPrintable(place));
            const auto* verdicts = dock->findChild<VerdictsPanel*>();
            if (verdicts && open.window.selection()->history())                   // a step without its runs shows none
              QTRY_COMPARE(verdicts->maximumHeight(), verdicts->heightWanted());  // of all runs
          }
          open.guide()->next();
        }
      }
    }
    QVERIFY2(all.isEmpty(), qPrintable(all.join("; ")));
    if (projected) QTest::keyClick(&open.window, Qt::Key_F5);
  }

  void theShownTensorAloneIsDescribed() {
    LessonWindow open;
    open.open("outlier-channel");
    auto* lab = open.window.workspaces()->microscaling()->tensorLab();
    for (const LessonTensor& tensor : open.guide()->lesson().tensors) {
      lab->showTensor(q(tensor.name), lab->format(), 0, 0);
      QVERIFY2(lab->captureBar()->text().startsWith(q(tensor.name) + ": "), qPrintable(lab->captureBar()->text()));
    }
    QVERIFY(!lab->captureBar()->text().contains("outlier-channel"));
  }

  void aLessonChoosesWhatTheCurvesShow() {
    LessonWindow open;
    open.open("bias-or-loss");
    QCOMPARE(open.window.workspaces()->current()->name(), QString("Compare"));
    auto* loss = open.window.workspaces()->current()->findChild<LossPanel*>();
    QCOMPARE(loss->shownMetric(), Metric::max_vio);
    std::vector<std::string> names = lesson_names();
    for (const std::string& exhibit : exhibit_names()) names.push_back(exhibit);
    for (const std::string& name : names) {
      for (const LessonStep& step : find_lesson(name).lesson.steps) {
        if (!step.view.metric) continue;
        loss->setMetric(*step.view.metric);
        QVERIFY2(loss->shownMetric() == *step.view.metric, step.title.c_str());
      }
    }
    open.window.lessons()->leave();
    QCOMPARE(loss->shownMetric(), Metric::ce_loss);
  }

  void thePanelsOfAStepHaveAnAccentBorder() {
    LessonWindow open;
    open.open("bias-thermostat");
    auto* load = open.window.findChild<PanelDock*>("dock_router_load_over_time");
    QVERIFY(load->accented());
    QTRY_COMPARE(load->grab().toImage().pixelColor(load->width() / 2, 0), QColor(colors(load->palette()).accent));
    open.window.lessons()->leave();
    QVERIFY(!load->accented());
  }

  void runsOfAComparisonHaveAPanelEach() {
    LessonWindow open;
    open.open("rich-get-richer");
    open.guide()->next();
    auto* dock = open.window.findChild<QDockWidget*>("dock_router_load_over_time");
    auto* panel = qobject_cast<Panel*>(dock->widget());
    QVERIFY(panel);  // there is only one run
    open.choices()[0]->click();
    QSignalSpy opened(open.window.session(), &RunSession::opened);
    open.tasks()[0]->click();
    QVERIFY(opened.wait(kLessonWaitMs));
    QTRY_COMPARE(dock->widget()->findChildren<ExpertLoadPanel*>().size(), 4);
    const QList<SelectionOfRun*> run_selections = dock->widget()->findChildren<SelectionOfRun*>();
    QCOMPARE(run_selections.size(), 4);
    for (const ViewSwitch* views : dock->widget()->findChildren<ViewSwitch*>()) QVERIFY(views->isHidden());
    for (int run = 0; run < 4; ++run) QCOMPARE(run_selections[run]->run(), run);
    QTRY_VERIFY(open.tasks()[1]->isEnabled());
    open.window.runControl()->runUntil(12);
    QTRY_VERIFY_WITH_TIMEOUT(open.window.selection()->history()->steps().last >= 11, kLessonWaitMs);
    open.window.selection()->refresh();
    run_selections[2]->setRange({2, 7});  // zooms in one of the four panels
    QCOMPARE(open.window.selection()->range(), (StepRange{2, 7}));
    QCOMPARE(run_selections[3]->range(), (StepRange{2, 7}));
    open.window.lessons()->leave();
    QCOMPARE(dock->widget(), panel);
    QVERIFY(!panel->isHidden());
    for (const char* lesson : {"bias-thermostat", "stale-bias"}) open.open(lesson);  // with two runs each
    dock = open.window.findChild<QDockWidget*>("dock_router_bias");
    const auto is_named = [dock](const QString& heading) {
      const QList<QLabel*> labels = dock->widget()->findChildren<QLabel*>();
      return std::ranges::any_of(labels, [&](const QLabel* label) { return label->text() == heading; });
    };
    QTRY_VERIFY_WITH_TIMEOUT(is_named("A updated: Expert bias over time"), kLessonWaitMs);  // once its runs are shown
    QVERIFY(is_named("B never-updated: Expert bias over time"));
    QCOMPARE(dock->widget()->findChildren<ExpertBiasOverTimePanel*>().size(), 2);
    dock = open.window.findChild<QDockWidget*>("dock_router_load_over_time");
    QCOMPARE(dock->widget()->findChildren<ExpertLoadPanel*>().size(), 2);  // every panel of the step that can be
  }
};

SCREEN_TEST(LessonPanelsTest)
#include "qt_lesson_panels.moc"
