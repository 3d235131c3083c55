// The menus of the window.
#include <QActionGroup>
#include <QApplication>
#include <QDockWidget>
#include <QFile>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenuBar>
#include <QStandardPaths>
#include <QTabBar>
#include <stdexcept>

#include "app/bars/run_bar.h"
#include "app/export/export_menu.h"
#include "app/look/shortcut_sheet.h"
#include "app/session/settings.h"
#include "app/setup/setup_form.h"
#include "app/window/commands.h"
#include "app/window/main_window.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/microscaling_workspace.h"
#include "app/workspaces/overview.h"
#include "core/io/whole_file.h"

namespace moescope {

namespace {

QString picturesFolder() {
  return QStandardPaths::writableLocation(QStandardPaths::PicturesLocation);
}

}  // namespace

void MainWindow::buildMenus() {
  buildFileMenu();
  buildEditMenu();
  buildRunMenu();
  buildActionsMenu();
  buildViewMenu();
  buildLessonMenu();
  buildHelpMenu();
}

void MainWindow::buildFileMenu() {
  QMenu* menu = menuBar()->addMenu("&File");
  menu->addAction("&Open...", QKeySequence::Open, this, &MainWindow::askOpen);
  menu->addAction("&Attach to a training...", this, &MainWindow::askAttach);
  menu->addAction("Open &config...", this, &MainWindow::askOpenConfig);
  menu->addAction("Open &tensors...", this, &MainWindow::askOpenTensors);
  QAction* skipped = menu->addAction("&Lines that could not be read...", this, &MainWindow::sayWhatWasSkipped);
  skipped->setEnabled(false);
  connect(menu, &QMenu::aboutToShow, this, [this, skipped] { skipped->setEnabled(!session_.skipped().empty()); });
  menu->addAction("&Save config as...", QKeySequence::Save, this, &MainWindow::askSaveConfig);
  recent_menu_ = menu->addMenu("&Recent files");
  recent_menu_->setProperty("fills_itself", true);
  connect(recent_menu_, &QMenu::aboutToShow, this, &MainWindow::fillRecentFiles);
  menu->addSeparator();
  QMenu* exports = menu->addMenu("&Export");
  fillExportMenu(this, exports);
  exports->addAction("Save the modelled time&line as Chrome trace...", this, &MainWindow::askExportTrace);
  menu->addAction("Save &picture of the window...", QKeySequence("Ctrl+P"), this, &MainWindow::askSaveScreenshot);
  menu->addSeparator();
  menu->addAction("&Quit", QKeySequence::Quit, this, &QWidget::close);
}

void MainWindow::buildEditMenu() {
  QMenu* menu = menuBar()->addMenu("&Edit");
  QAction* undo = undo_.createUndoAction(this, "&Undo");
  undo->setShortcut(QKeySequence::Undo);
  QAction* redo = undo_.createRedoAction(this, "&Redo");
  redo->setShortcuts({QKeySequence("Ctrl+Y"), QKeySequence("Ctrl+Shift+Z")});
  menu->addActions({undo, redo});
  menu->addSeparator();
  addCopyAction(this, menu);
  addPaletteAction(this, menu);
}

void MainWindow::buildRunMenu() {
  QMenu* menu = menuBar()->addMenu("&Run");
  menu->addActions({run_bar_->runAction(), run_bar_->stepAction(), run_bar_->resetAction()});
  menu->addAction("&Compare with...", QKeySequence(Qt::Key_C), this, [this] { askForTwin({}); })
      ->setWhatsThis("Compare with: train a twin with another setting beside run A");
  menu->addAction("Add a &noise twin", QKeySequence(Qt::Key_N), this,
                  [this] {
                    if (session_.isLive()) addRun(noise_twin(session_.config()));
                  })
      ->setWhatsThis("Add a noise twin: run A's settings with another seed");
  for (int run = 0; run < kMaxRuns; ++run) {
    auto* choose = new QAction("Run " + runLetter(run), this);
    choose->setShortcut(QKeySequence(QString("Alt+%1").arg(run + 1)));
    choose->setWhatsThis("Make run " + runLetter(run) + " the active one");
    connect(choose, &QAction::triggered, this, [this, run] { selection_.setRun(run); });
    menu->addAction(choose);
  }
  menu->addSeparator();
  addReplayActions(menu);
  menu->addSeparator();
  QMenu* presets = menu->addMenu("Start a &preset");
  presets->setToolTipsVisible(true);
  const auto add = [this, presets](const std::string& name) {
    const QString text = QString::fromStdString(name);
    presets->addAction(text, this, [this, text] { startPreset(text); })
        ->setToolTip(QString::fromStdString(preset_about(name)).trimmed());
  };
  for (const std::string& name : preset_names()) add(name);
  presets->addSection("Several runs side by side");
  for (const std::string& name : comparison_preset_names()) add(name);
}

void MainWindow::buildViewMenu() {
  QMenu* menu = menuBar()->addMenu("&View");
  QAction* form = form_dock_->toggleViewAction();
  form->setShortcut(Qt::Key_F2);
  menu->addAction(form);
  QMenu* panels = menu->addMenu("&Panels");
  panels->setProperty("fills_itself", true);
  connect(panels, &QMenu::aboutToShow, this, [this, panels] {
    panels->clear();
    for (QDockWidget* dock : workspace()->docks()) panels->addAction(dock->toggleViewAction());
  });
  menu->addSeparator();
  int place = 0;
  for (Workspace* workspace : workspaces()) {
    QAction* show = menu->addAction(QString("&%1 %2").arg(++place).arg(workspace->name()), this,
                                    [this, workspace] { showWorkspace(workspace); });
    show->setShortcut(QKeySequence(QString("Ctrl+%1").arg(place)));
    show->setWhatsThis("Workspace " + workspace->name());
  }
  menuBar()->setCornerWidget(tabs_, Qt::TopRightCorner);
  menu->addAction("&Restore Default Layout", this, &MainWindow::restoreDefaultLayout);
  menu->addSeparator();
  QAction* findings = menu->addAction("F&indings", QKeySequence(Qt::Key_F6), this, &MainWindow::showFindings);
  findings->setWhatsThis("Findings: what is wrong with the open runs");
  menu->addAction("&Fit all steps and follow", QKeySequence("Ctrl+0"), this, [this] {
    selection_.fitRange();
    clock_.wake();
  });
  menu->addSeparator();
  QMenu* themes = menu->addMenu("&Theme");
  for (Theme theme : {Theme::dark, Theme::light})
    themes->addAction(theme == Theme::dark ? "&Dark" : "&Light", this, [this, theme] { setTheme(theme); });
  themes->addAction("&Switch dark and light", QKeySequence("Alt+M"), this,
                    [this] { setTheme(palette().window().color().lightness() < 128 ? Theme::light : Theme::dark); });
}

void MainWindow::buildHelpMenu() {
  QMenu* menu = menuBar()->addMenu("&Help");
  QAction* under_mouse = menu->addAction("&Explain what is under the mouse", this, &MainWindow::explainUnderMouse);
  under_mouse->setShortcuts({QKeySequence(Qt::Key_F1), QKeySequence("E")});
  under_mouse->setWhatsThis("Explain the figure under the mouse, with its formula and its numbers");
  menu->addAction("&Shortcuts", QKeySequence("Ctrl+/"), this,
                  [this] { showShortcutSheet(this, findChildren<QAction*>()); });
  QMenu* explain = menu->addMenu("&What am I looking at?");
  explain->setProperty("fills_itself", true);
  connect(explain, &QMenu::aboutToShow, this, [this, explain] {
    explain->clear();
    for (Panel* panel : workspace()->panels())
      explain->addAction(panel->title(), this,
                         [this, panel] { showExplanation(this, panel->title(), panel->explain()); });
  });
  menu->addSeparator();
  menu->addAction("Open the &sample", this, &MainWindow::openSample)
      ->setWhatsThis("Open the sample: logs of two real runs side by side");
  menu->addSeparator();
  menu->addAction("&About MoEScope", this, [this] { showAbout(this, about_facts_); });
}

void MainWindow::fillRecentFiles() {
  recent_menu_->clear();
  for (const QString& path : recentFiles())
    recent_menu_->addAction(path, this, [this, path] { openRecentFile(this, path); });
  if (recent_menu_->isEmpty()) recent_menu_->addAction("none yet")->setEnabled(false);
  recent_menu_->addSeparator();
  recent_menu_->addAction("Recordings of this window...", this, [this] {
    const QString path =
        QFileDialog::getOpenFileName(this, "Open recording", recordingsFolder(), "Recordings (*.moescope)");
    if (!path.isEmpty()) openFile(path);
  });
}

void MainWindow::askOpen() {
  openFiles(QFileDialog::getOpenFileNames(
      this, "Open", QString(),
      "All that can be opened (*.moescope *.jsonl *.ndjson *.csv *tfevents* *.safetensors *.toml *.txt);;"
      "Recordings (*.moescope);;Training logs (*.jsonl *.ndjson *.log *.json);;Tables of expert loads (*.csv);;"
      "TensorBoard events (*tfevents*);;Tensors (*.safetensors);;Run configs and lessons (*.toml);;All files (*)"));
}

void MainWindow::askOpenConfig() {
  const QString path = QFileDialog::getOpenFileName(this, "Open config", QString(), "Run configs (*.toml)");
  if (path.isEmpty()) return;
  loadConfigIntoForm(path);
  form_dock_->show();
}

void MainWindow::askOpenTensors() {
  const QString path = QFileDialog::getOpenFileName(this, "Open tensors", QString(), "Tensors (*.safetensors)");
  if (!path.isEmpty()) openTensors(path);
}

void MainWindow::askSaveConfig() {
  const RunConfig config = session_.isLive() ? session_.config() : form_->draft();
  const QString path = QFileDialog::getSaveFileName(this, "Save config", QString::fromStdString(config.name) + ".toml",
                                                    "Run configs (*.toml)");
  if (!path.isEmpty()) guarded([&] { write_whole_file(path.toStdString(), to_toml(config)); });
}

void MainWindow::askSaveScreenshot() {
  const QString path =
      QFileDialog::getSaveFileName(this, "Save picture", picturesFolder() + "/moescope.png", "Pictures (*.png)");
  if (!path.isEmpty()) guarded([&] { Overview::savePicture(this, path); });
}

}  // namespace moescope
