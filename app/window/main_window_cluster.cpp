// Expert placement and the modelled timeline: what the window does about them.
#include <QFileDialog>
#include <QStatusBar>
#include <stdexcept>

#include "app/window/main_window.h"
#include "app/workspaces/all_to_all_workspace.h"
#include "app/workspaces/cluster_workspace.h"
#include "core/io/whole_file.h"
#include "widgets/all_to_all/placement_panel.h"
#include "widgets/cluster/rank_timeline_panel.h"

namespace moescope {

namespace {

// A placement that is tried out on a recording.
class PlacementCommand : public QUndoCommand {
 public:
  PlacementCommand(PlacementPanel* panel, QString from, QString to)
      : QUndoCommand("expert placement"), panel_(panel), from_(std::move(from)), to_(std::move(to)) {}
  void undo() override { panel_->setAsked(from_); }
  void redo() override { panel_->setAsked(to_); }

 private:
  PlacementPanel* panel_;
  QString from_, to_;
};

}  // namespace

void MainWindow::connectCluster() {
  connect(all_to_all_->placement(), &PlacementPanel::placementRequested, this, &MainWindow::placeExperts);
  connect(cluster_->timeline(), &RankTimelinePanel::exportRequested, this, &MainWindow::askExportTrace);
}

void MainWindow::placeExperts(const QString& placement) {
  PlacementPanel* panel = all_to_all_->placement();
  if (session_.isLive()) return requestChange("parallel.placement", placement.toStdString());
  if (placement != panel->shown()) undo_.push(new PlacementCommand(panel, panel->shown(), placement));
}

void MainWindow::showPlacement(const RunConfig* live) {
  all_to_all_->placement()->setLive(live != nullptr);
  all_to_all_->placement()->setAsked(live ? QString::fromStdString(live->parallel.placement) : QString());
}

void MainWindow::exportTrace(const QString& path) {
  if (!cluster_->timeline()->hasTimeline())
    throw std::runtime_error("There is no timeline to save: Time of a step, in the workspace Cluster, has no answer.");
  write_whole_file(path.toStdString(), cluster_->timeline()->chromeTrace());
  statusBar()->showMessage("saved " + path + "; ui.perfetto.dev opens it", 8000);
}

void MainWindow::askExportTrace() {
  showWorkspace(cluster_);
  const QString path = QFileDialog::getSaveFileName(this, "Save the modelled timeline", "moescope-timeline.json",
                                                    "Chrome traces (*.json)");
  if (!path.isEmpty()) guarded([&] { exportTrace(path); });
}

}  // namespace moescope
