#include "app/lessons/lesson_panels.h"

#include <QComboBox>
#include <QDockWidget>
#include <QGridLayout>
#include <QScopedValueRollback>
#include <QTimer>
#include <QToolButton>
#include <algorithm>
#include <utility>

#include "app/workspaces/panel_dock.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "widgets/look/tokens.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/panel/controls.h"
#include "widgets/router/expert_bias_over_time_panel.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/expert_panel.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/text/specialisation_panel.h"

namespace moescope {
namespace {

// Returns a panel of the same kind with this selection; nullptr: lessons show such a panel once.
Panel* sameKind(const Panel* panel, Selection* selection, QWidget* parent) {
  if (qobject_cast<const ExpertLoadPanel*>(panel))
    return new ExpertLoadPanel(selection, ExpertLoadPanel::one_layer, parent);
  if (qobject_cast<const ExpertBiasOverTimePanel*>(panel)) return new ExpertBiasOverTimePanel(selection, parent);
  if (qobject_cast<const ExpertPanel*>(panel)) return new ExpertPanel(selection, parent);
  if (qobject_cast<const SpecialisationPanel*>(panel)) return new SpecialisationPanel(selection, parent);
  return nullptr;
}

QList<QDockWidget*> docksOf(const Workspace& workspace, const LessonView& view) {
  QList<QDockWidget*> docks;
  for (const std::string& name : view.panels) docks << workspace.dock(QString::fromStdString(name));
  return docks;
}

}  // namespace

SelectionOfRun::SelectionOfRun(Selection* leader, int run, QObject* parent)
    : Selection(parent), leader_(leader), place_(run) {
  connect(leader_, &Selection::dataChanged, this, &SelectionOfRun::takeData);
  connect(leader_, &Selection::timeChanged, this, &SelectionOfRun::takeTime);
  connect(leader_, &Selection::focusChanged, this, &SelectionOfRun::takeFocus);
  connect(leader_, &Selection::hoverStepChanged, this, [this] { setHoverStep(leader_->hoverStep()); });
  connect(this, &Selection::timeChanged, this, &SelectionOfRun::giveTime);
  takeData();
}

void SelectionOfRun::takeData() {
  const QScopedValueRollback<bool> ours(syncing_, true);
  if (histories() != leader_->histories()) {
    setHistories(leader_->histories());
    setRun(place_);
  }
  setGrowing(leader_->growing());
  refresh();
  takeTime();
  takeFocus();
}

void SelectionOfRun::takeTime() {
  const QScopedValueRollback<bool> ours(syncing_, true);
  setRange(leader_->range());
  setStep(leader_->step());
  setFollowing(leader_->following());
}

void SelectionOfRun::giveTime() {
  if (syncing_) return;
  leader_->setRange(range());
  if (step() != leader_->step()) leader_->setStep(step());
}

void SelectionOfRun::takeFocus() {
  showLayer(leader_->layer());
  setExpert(leader_->expert());
}

void RunMultiples::show(const QList<QDockWidget*>& docks) {
  if (docks == docks_ && shown_ == selection_->histories()) return;
  end();
  docks_ = docks;
  shown_ = selection_->histories();
  if (shown_.size() < 2) return;
  for (QDockWidget* dock : docks) multiply(dock);
}

void RunMultiples::multiply(QDockWidget* dock) {
  auto* one = qobject_cast<Panel*>(dock->widget());
  auto* grid = new QWidget;
  auto* cells = new QGridLayout(grid);
  cells->setContentsMargins(0, 0, 0, 0);
  cells->setSpacing(kSpace4);
  const int columns = shown_.size() == 3 ? 1 : 2;  // two columns would leave a quarter of the page empty
  for (int run = 0; run < to_int(shown_.size()); ++run) {
    auto* run_selection = new SelectionOfRun(selection_, run, grid);
    Panel* panel = sameKind(one, run_selection, grid);
    if (!panel) {
      delete grid;
      return;
    }
    for (ViewSwitch* views : panel->findChildren<ViewSwitch*>()) views->hide();  // all runs are shown in one view
    panel->setProperty("of_run", runLabel(*selection_, run) + ": ");
    panel->setHeading(panel->title());
    cells->addWidget(panel, run / columns, run % columns);
  }
  replaced_.emplace_back(dock, one);
  dock->setWidget(grid);
  one->hide();
}

void RunMultiples::end() {
  docks_.clear();
  for (const auto& [dock, panel] : std::exchange(replaced_, {})) {
    if (!dock) continue;
    QWidget* grid = dock->widget();
    dock->setWidget(panel);
    panel->show();
    delete grid;
  }
}

LessonPanels::LessonPanels(Selection* selection, WorkspaceTabs* workspaces)
    : selection_(selection), workspaces_(workspaces), multiples_(selection) {
  for (const Workspace* workspace : workspaces_->all())
    for (Panel* panel : workspace->panels()) initial_.emplace_back(panel, panel->saveState());
}

QStringList LessonPanels::unknown(const Lesson& lesson, const WorkspaceTabs& workspaces) {
  QStringList unknown;
  for (const LessonStep& step : lesson.steps) {
    const LessonView& view = step.view;
    if (view.workspace.empty()) continue;
    const Workspace* workspace = workspaces.named(QString::fromStdString(view.workspace));
    const QString place = QString("step \"%1\": ").arg(QString::fromStdString(step.title));
    if (!workspace) unknown << place + "there is no workspace " + QString::fromStdString(view.workspace);
    for (const std::string& name : view.panels)
      if (workspace && !workspace->dock(QString::fromStdString(name)))
        unknown << place + QString("the workspace %1 has no panel %2").arg(workspace->name(), name.c_str());
  }
  return unknown;
}

void LessonPanels::startAfresh() {
  showVerdicts(false);
  multiples_.end();
  arranged_.clear();
  restoreArranged(nullptr);
  for (const auto& [panel, state] : initial_) panel->restoreState(state);
  selection_->setRun(0);
  selection_->showLayer(0);  // selects the MoE layer nearest to 0
  selection_->setExpert(-1);
  selection_->setTensor({.layer = selection_->layer()});
  selection_->setHoverStep(-1);
  selection_->fitRange();
}

// Arranges the panels of a step, but only if the step before arranged other panels, so that changes that the user made
// in between stay.
void LessonPanels::show(const LessonView& view, const QString& cover, bool locked) {
  if (view.run) selection_->setRun(*view.run);
  if (view.layer) selection_->showLayer(*view.layer);
  if (view.expert) selection_->setExpert(*view.expert);
  Workspace* workspace = workspaces_->named(QString::fromStdString(view.workspace));
  if (workspace) {
    workspaces_->bringUp(workspace);
    QString wanted_view = workspace->name();
    for (const std::string& panel : view.panels) wanted_view += " " + QString::fromStdString(panel);
    wanted_view += " " + QString::fromStdString(metric_info(view.metric.value_or(Metric::ce_loss)).key + view.choice) +
                   (view.panel_per_run ? " each" : "");
    if (wanted_view != arranged_ && !view.panels.empty()) arrange(workspace, view);
    arranged_ = wanted_view;
  }
  if (view.panel_per_run && workspace)
    multiples_.show(docksOf(*workspace, view));
  else
    multiples_.end();
  mark(view, cover, locked);
}

// Frames the panels of a step and locks their controls. Covers the panels of all workspaces, since any may show the
// answer; the block microscope stays: it shows the block of the question in the format of the step before.
void LessonPanels::mark(const LessonView& view, const QString& cover, bool locked) const {
  for (const Workspace* workspace : workspaces_->all())
    for (QDockWidget* dock : workspace->docks()) {
      const bool named = workspace->name().toStdString() == view.workspace &&
                         std::ranges::count(view.panels, dock->objectName().toStdString()) > 0;
      auto* panel = static_cast<PanelDock*>(dock);
      panel->setAccented(named);
      panel->setCover(dock->objectName() != "dock_micro_microscope" ? cover : QString());
      panel->setLocked(named && locked);
    }
}

void LessonPanels::leave() {
  multiples_.end();
  arranged_workspace_ = nullptr;  // the window gets its own arrangement back
  mark({}, {}, false);
  showVerdicts(true);
}

// Gives the workspace of earlier steps all its panels back if the next step has another one: the few panels of a step
// may have nothing to show later, such as that of an expert without a selected expert.
void LessonPanels::restoreArranged(Workspace* next) {
  Workspace* const before = std::exchange(arranged_workspace_, next);
  if (!before || before == next) return;
  before->arrangeAnew();
  before->foldAnew();
}

// Stacks the panels, because tabs and narrow columns would hide what the text names; curves of a metric, and plots
// above the list of findings, get twice the height of what is below them. The microscaling workspace has no such tabs
// among the panels of a lesson, and its microscope needs the whole width.
void LessonPanels::arrange(Workspace* workspace, const LessonView& view) {
  restoreArranged(workspace);
  const QList<QDockWidget*> shown_docks = docksOf(*workspace, view);
  const bool is_microscaling = workspace == workspaces_->microscaling();
  if (is_microscaling)
    workspace->arrangeAnew();
  else
    workspace->stack(shown_docks, view.metric || view.panels.back() == "dock_router_findings" ? 2 : 1);
  for (const auto& [panel, state] : initial_)  // a step does not inherit the view of another one
    if (!is_microscaling &&
        std::ranges::any_of(shown_docks, [&](QDockWidget* dock) { return dock->widget() == panel; }))
      panel->restoreState(state);
  for (QDockWidget* dock : workspace->docks()) {
    if (auto* loss = qobject_cast<LossPanel*>(dock->widget())) loss->setMetric(view.metric.value_or(Metric::ce_loss));
    for (QComboBox* box : dock->findChildren<QComboBox*>())
      if (const int entry = box->findText(QString::fromStdString(view.choice)); entry >= 0) box->setCurrentIndex(entry);
    for (QToolButton* toggle : dock->findChildren<QToolButton*>())
      if (toggle->isCheckable() && toggle->text().toStdString() == view.choice) toggle->setChecked(true);
    dock->setVisible(shown_docks.contains(dock));
  }
  shown_docks.front()->raise();
  QTimer::singleShot(0, workspace, [workspace] { workspace->applySizes(); });
}

// The verdicts would give answers away, and contradict lessons in which an uneven load is healthy enough.
void LessonPanels::showVerdicts(bool shown) const {
  for (Workspace* workspace : workspaces_->all()) workspace->setVerdictHidden(!shown);
}

}  // namespace moescope
