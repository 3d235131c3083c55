#include "app/workspaces/workspace_tabs.h"

#include <QEvent>
#include <QScrollArea>
#include <QTabBar>

#include "app/look/messages.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspaces.h"
#include "widgets/all_to_all/expert_placement_panel.h"
#include "widgets/cluster/time_of_a_step_panel.h"
#include "widgets/look/tokens.h"
#include "widgets/overview/timeline_bar.h"

namespace moescope {
namespace {

constexpr int kMinHeight = 200;  // height of the visible part of a workspace that scrolls

// Holds a workspace in the window and scrolls it if the window is too low for its panels. Requires the workspace's
// least width, so that nothing has to be scrolled sideways.
class WorkspaceScroll : public QScrollArea {
 public:
  explicit WorkspaceScroll(Workspace* workspace) : workspace_(workspace) {
    setFrameShape(QFrame::NoFrame);
    setFocusPolicy(Qt::NoFocus);
    setWidgetResizable(true);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setWidget(workspace);
    workspace->installEventFilter(this);
  }
  QSize minimumSizeHint() const override {
    const QSize min_size = workspace_->minimumSizeHint();
    return {min_size.width(), std::min(min_size.height(), withType(kMinHeight, fontMetrics()))};
  }
  QSize sizeHint() const override { return workspace_->sizeHint(); }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override {  // watches the workspace
    if (event->type() == QEvent::LayoutRequest) updateGeometry();
    return QScrollArea::eventFilter(watched, event);
  }

 private:
  Workspace* workspace_;
};

}  // namespace

WorkspaceTabs::WorkspaceTabs(Selection* selection, FindingsWatch* findings, ComparedRuns* compared, Messages* messages,
                             QWidget* parent)
    : QStackedWidget(parent), tabs_(new QTabBar) {
  compare_ = new CompareWorkspace(selection, findings, compared, this);
  overview_ = new Overview(selection, findings, *compare_, this);
  router_ = new RouterWorkspace(selection, findings, this);
  microscaling_ = new MicroscalingWorkspace(selection, this);
  text_ = new TextWorkspace(selection, this);
  all_to_all_ = new AllToAllWorkspace(selection, this);
  cluster_ = new ClusterWorkspace(selection, this);
  // All-to-all and Cluster have one EP degree and one placement.
  ExpertPlacementPanel* placement = all_to_all_->placement();
  TimeOfAStepPanel* step_time = cluster_->stepTime();
  connect(placement, &ExpertPlacementPanel::degreeChosen, step_time, &TimeOfAStepPanel::setDegree);
  connect(step_time, &TimeOfAStepPanel::degreeChosen, placement, &ExpertPlacementPanel::setDegree);
  connect(placement, &ExpertPlacementPanel::placementShown, step_time, &TimeOfAStepPanel::setPlacement);
  connect(step_time, &TimeOfAStepPanel::placementChosen, placement, &ExpertPlacementPanel::placementRequested);
  tabs_->setDrawBase(false);
  tabs_->setExpanding(false);
  tabs_->setFocusPolicy(Qt::TabFocus);
  tabs_->setAccessibleName("Workspace");
  tabs_->setObjectName("workspace_tabs");
  for (Workspace* workspace : all()) {
    addWidget(new WorkspaceScroll(workspace));
    tabs_->setTabToolTip(tabs_->addTab(workspace->name()),
                         QString("Workspace %1 (Ctrl+%2)").arg(workspace->name()).arg(tabs_->count() + 1));
    connect(workspace, &Workspace::readoutChanged, messages, &Messages::showReadout);
    workspace->setMessages(messages);
  }
  timeline_ = new TimelineBar(selection, parent);
  connect(overview_, &Workspace::findingWanted, this, &WorkspaceTabs::openFinding);
  connect(tabs_, &QTabBar::currentChanged, this, &QStackedWidget::setCurrentIndex);
  connect(tabs_, &QTabBar::currentChanged, this, &WorkspaceTabs::broughtUp);
  connect(tabs_, &QTabBar::tabBarClicked, this, &WorkspaceTabs::broughtUp);
}

QList<Workspace*> WorkspaceTabs::all() const {
  return {overview_, router_, all_to_all_, microscaling_, compare_, cluster_, text_};
}

void WorkspaceTabs::bringUp(Workspace* workspace) {
  tabs_->setCurrentIndex(to_int(all().indexOf(workspace)));
  emit broughtUp();
}

Workspace* WorkspaceTabs::named(const QString& name) const {
  for (Workspace* workspace : all())
    if (workspace->name().compare(name, Qt::CaseInsensitive) == 0) return workspace;
  return nullptr;
}

bool WorkspaceTabs::bringUp(const QString& name) {
  Workspace* workspace = named(name);
  if (workspace) bringUp(workspace);
  return workspace;
}

void WorkspaceTabs::bringUp(Workspace* workspace, moescope::Panel* panel) {
  bringUp(workspace);
  for (QDockWidget* dock : workspace->docks())
    if (dock->isAncestorOf(panel)) workspace->bringIntoView(dock);
}

void WorkspaceTabs::leaveEmpty() {
  if (!current()->hasAnswer()) bringUp(overview_);
}

void WorkspaceTabs::openFinding(const QString& id) {
  bringUp(router_);
  router_->openFinding(id);
}

void WorkspaceTabs::bringUpFindings() {
  auto* panel = current()->findChild<FindingsPanel*>();
  Workspace* workspace = panel ? current() : router_;
  if (!panel) panel = router_->findChild<FindingsPanel*>();
  bringUp(workspace, panel);
  panel->setFocus();
}

}  // namespace moescope
