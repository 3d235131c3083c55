// All workspaces. The tabs choose the visible one.
#pragma once

#include <QStackedWidget>

#include "app/workspaces/workspace.h"

class QTabBar;

namespace moescope {

class AllToAllWorkspace;
class ClusterWorkspace;
class CompareWorkspace;
class Messages;
class MicroscalingWorkspace;
class Overview;
class RouterWorkspace;
class TextWorkspace;
class TimelineBar;

class WorkspaceTabs : public QStackedWidget {
  Q_OBJECT

 public:
  WorkspaceTabs(Selection* selection, FindingsWatch* findings, ComparedRuns* compared, Messages* messages,
                QWidget* parent);

  QTabBar* tabs() const { return tabs_; }  // for the window bar, which shows them
  QList<Workspace*> all() const;           // in the order of the tabs
  Workspace* current() const { return all()[tabs_->currentIndex()]; }
  Workspace* named(const QString& name) const;         // ignores case; nullptr if there is none
  TimelineBar* timeline() const { return timeline_; }  // the timeline below all workspaces

  void bringUp(Workspace* workspace);
  bool bringUp(const QString& name);  // ignores case; returns false if there is no such workspace
  // Brings up a workspace with the panel in front of its tabs. (moescope::Panel, since QFrame::Panel hides the name.)
  void bringUp(Workspace* workspace, moescope::Panel* panel);
  void openFinding(const QString& id);  // brings up the Router workspace with the finding of this finding_id() open
  void leaveEmpty();                    // shows the Overview if the present workspace has no data for the open run
  void bringUpFindings();               // brings up the findings, in the visible workspace if it lists them

  Overview* overview() const { return overview_; }
  RouterWorkspace* router() const { return router_; }
  AllToAllWorkspace* allToAll() const { return all_to_all_; }
  MicroscalingWorkspace* microscaling() const { return microscaling_; }
  CompareWorkspace* compare() const { return compare_; }
  ClusterWorkspace* cluster() const { return cluster_; }
  TextWorkspace* text() const { return text_; }

 signals:
  void broughtUp();  // a workspace was asked for, possibly the current one

 private:
  QTabBar* tabs_;
  Overview* overview_;
  RouterWorkspace* router_;
  AllToAllWorkspace* all_to_all_;
  MicroscalingWorkspace* microscaling_;
  CompareWorkspace* compare_;
  ClusterWorkspace* cluster_;
  TextWorkspace* text_;
  TimelineBar* timeline_;
};

}  // namespace moescope
