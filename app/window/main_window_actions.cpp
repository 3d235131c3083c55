// What can be done to the run in training: experts, router, mixture, checkpoints.
#include <QAction>
#include <QContextMenuEvent>
#include <QMenu>
#include <QMenuBar>
#include <QStatusBar>

#include "app/bars/actions_dock.h"
#include "app/setup/compare_dialog.h"
#include "app/window/expert_actions.h"
#include "app/window/main_window.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace.h"
#include "widgets/overview/timeline_bar.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/load_over_time_panel.h"

namespace moescope {

void MainWindow::buildActions() {
  expert_actions_ = new ExpertActions(&session_, &selection_, this);
  actions_ = new ActionsDock(this);
  addDockWidget(Qt::RightDockWidgetArea, actions_);
  actions_->hide();
  connect(expert_actions_, &ExpertActions::changeRequested, this, &MainWindow::requestChange);
  connect(actions_, &ActionsDock::changeRequested, this, &MainWindow::requestChange);
  connect(actions_, &ActionsDock::keepRequested, this, &MainWindow::keepCheckpoint);
  connect(actions_, &ActionsDock::rewindRequested, this, &MainWindow::rewind);
  connect(actions_, &ActionsDock::branchRequested, this, &MainWindow::askForBranch);
  for (TimelineTrack* track : findChildren<TimelineTrack*>())
    connect(track, &TimelineTrack::menuRequested, this, &MainWindow::showTimelineMenu);
  for (Workspace* workspace : workspaces())
    for (QDockWidget* dock : workspace->docks())
      if (qobject_cast<ExpertLoadPanel*>(dock->widget()) || qobject_cast<LoadOverTimePanel*>(dock->widget())) {
        auto* panel = static_cast<Panel*>(dock->widget());
        panel->setContextMenuPolicy(Qt::CustomContextMenu);
        connect(panel, &QWidget::customContextMenuRequested, this,
                [this, panel](QPoint at) { showExpertMenu(panel, panel->mapToGlobal(at)); });
      }
}

void MainWindow::buildActionsMenu() {
  QMenu* menu = menuBar()->addMenu("&Actions");
  menu->setToolTipsVisible(true);
  QAction* dock = actions_->toggleViewAction();
  dock->setText("&Actions panel");
  dock->setShortcut(Qt::Key_F3);
  menu->addAction(dock);
  menu->addSeparator();
  QAction* kill = menu->addAction("&Kill or revive the chosen expert", QKeySequence(Qt::Key_K), this, [this] {
    const int layer = selection_.layer(), expert = selection_.expert();
    if (!expert_actions_->possible(layer, expert))
      return statusBar()->showMessage("Choose an expert of a model in training first: click one in a load panel", 6000);
    expert_actions_->killed(layer, expert) ? expert_actions_->revive(layer, expert)
                                           : expert_actions_->kill(layer, expert);
  });
  QAction* pin = menu->addAction("&Pin the bias of the chosen expert...", QKeySequence(Qt::Key_P), this, [this] {
    const int layer = selection_.layer(), expert = selection_.expert();
    if (!expert_actions_->possible(layer, expert))
      return statusBar()->showMessage("Choose an expert of a model in training first: click one in a load panel", 6000);
    expert_actions_->askPin(layer, expert);
  });
  menu->addAction("Re&vive all", expert_actions_, &ExpertActions::reviveAll);
  const auto toggle = [this, menu](const QString& text, const char* key, QKeySequence shortcut) {
    menu->addAction(text, shortcut, this, [this, key] {
      if (session_.isLive())
        requestChange(key, !std::get<bool>(find_field(key)->get(session_.config(selection_.run()))));
    });
  };
  toggle("&Freeze the router, or let it learn", "router.frozen", QKeySequence(Qt::Key_Z));
  toggle("Force &balance, or let the router choose", "router.force_balance", {});
  menu->addSeparator();
  menu->addAction("Keep a &checkpoint now", QKeySequence("Ctrl+Shift+K"), this, &MainWindow::keepCheckpoint);
  menu->addAction("&Rewind to the checkpoint before the cursor", QKeySequence("Ctrl+Backspace"), this,
                  [this] {
                    if (const auto step = checkpointBefore(selection_.step())) rewind(*step);
                  })
      ->setToolTip("All runs go back; what came after is forgotten");
  menu->addAction("Bra&nch off from the checkpoint before the cursor...", QKeySequence("Ctrl+B"), this,
                  [this] {
                    if (const auto step = checkpointBefore(selection_.step())) askForBranch(*step);
                  })
      ->setToolTip("Train a twin from there on, with another setting");
  menu->addSeparator();
  addNoteActions(menu);
  connect(menu, &QMenu::aboutToShow, this, [this, kill, pin] {
    const int layer = selection_.layer(), expert = selection_.expert();
    const bool possible = expert_actions_->possible(layer, expert);
    const QString name =
        possible ? QString("expert %1 of layer %2").arg(expert).arg(layer) : QString("the chosen expert");
    const bool killed = possible && expert_actions_->killed(layer, expert);
    kill->setText((killed ? "&Revive " : "&Kill ") + name);
    pin->setText("&Pin the bias of " + name + "...");
    kill->setEnabled(possible);
    pin->setEnabled(possible);
  });
  // A disabled entry would also disable its key, which then could not say what is missing.
  connect(menu, &QMenu::aboutToHide, this, [kill, pin] {
    kill->setEnabled(true);
    pin->setEnabled(true);
  });
}

// Of the expert under the mouse; of the chosen one where there is none.
void MainWindow::showExpertMenu(Panel* panel, QPoint global) {
  const auto figure = panel->figureUnder(global);
  const int layer = figure ? figure->layer : selection_.layer(), expert = figure ? figure->expert : selection_.expert();
  QMenu menu(this);
  menu.addAction("&Explain", this, [panel, global] { panel->explainAt(global); });
  menu.addSeparator();
  if (expert < 0)
    menu.addAction("Click an expert first: its actions appear here")->setEnabled(false);
  else
    expert_actions_->fillMenu(&menu, layer, expert);
  menu.exec(global);
}

std::vector<KeptCheckpoint> MainWindow::keptCheckpoints() const {
  return session_.isLive() ? session_.lab()->checkpoints() : std::vector<KeptCheckpoint>{};
}

std::optional<qint64> MainWindow::checkpointBefore(qint64 step) {
  std::optional<qint64> found;
  for (const KeptCheckpoint& kept : keptCheckpoints())
    if (kept.step <= step || !found) found = kept.step;
  if (!found) statusBar()->showMessage("No checkpoint is kept (telemetry.checkpoint_every)", 6000);
  return found;
}

void MainWindow::showTimelineMenu(QPoint global, qint64 step) {
  QMenu menu(this);
  menu.setToolTipsVisible(true);
  addNoteActions(&menu, step);
  const auto kept = keptCheckpoints();
  if (!session_.isLive() || kept.empty()) {
    menu.addAction("No checkpoints: only a model in training keeps them")->setEnabled(false);
  } else {
    qint64 nearest = kept.front().step;
    for (const KeptCheckpoint& checkpoint : kept)
      if (std::abs(checkpoint.step - step) < std::abs(nearest - step)) nearest = checkpoint.step;
    const qint64 now = session_.lab()->status().step;
    menu.addAction(QString("&Rewind to step %1 (forgets %2 steps)").arg(nearest).arg(now - nearest), this,
                   [this, nearest] { rewind(nearest); })
        ->setToolTip("All runs go back to this checkpoint");
    menu.addAction(QString("&Branch off from step %1...").arg(nearest), this,
                   [this, nearest] { askForBranch(nearest); })
        ->setToolTip("Train a twin from there on, with another setting; the run itself stays");
    menu.addSeparator();
    menu.addAction("&Keep a checkpoint now", this, &MainWindow::keepCheckpoint);
  }
  menu.exec(global);
}

void MainWindow::keepCheckpoint() {
  if (!session_.isLive()) return;
  session_.lab()->keep_checkpoint();
  statusBar()->showMessage("Checkpoint kept", 4000);
  clock_.wake();
}

// What was done after the checkpoint is undone with it, so nothing of it can be undone once more.
void MainWindow::rewind(qint64 step) {
  if (const QString refused = session_.rewind(step); !refused.isEmpty()) return complain(refused);
  undo_.clear();
  statusBar()->showMessage(QString("Back at step %1, paused, with the settings of then").arg(step), 8000);
  selection_.setFollowing(true);
  clock_.wake();
}

void MainWindow::askForBranch(qint64 step) {
  if (!session_.isLive()) return;
  const int place = selection_.run();
  auto* dialog = new CompareDialog(session_.config(place), "router.bias_update_rate", this, step);
  connect(dialog, &CompareDialog::twinRequested, this, [this, place, step](const RunConfig& twin) {
    if (const QString refused = session_.branch(place, step, twin); !refused.isEmpty()) return complain(refused);
    showWorkspace(compare_);
    clock_.wake();
  });
  dialog->open();
}

void MainWindow::showCheckpoints() {
  const auto kept = keptCheckpoints();
  std::vector<std::int64_t> steps;
  for (const KeptCheckpoint& checkpoint : kept) steps.push_back(checkpoint.step);
  for (TimelineTrack* track : findChildren<TimelineTrack*>()) track->setCheckpoints(steps);
  actions_->showCheckpoints(kept);
}

}  // namespace moescope
