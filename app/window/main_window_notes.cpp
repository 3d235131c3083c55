// Notes pinned to steps: the dock, the keys, and the timeline's menu.
#include <QMenu>

#include "app/bars/notes_dock.h"
#include "app/window/main_window.h"

namespace moescope {

void MainWindow::buildNotes() {
  notes_ = new NotesDock(&session_, &selection_, this);
  addDockWidget(Qt::RightDockWidgetArea, notes_);
  notes_->hide();
  connect(notes_, &NotesDock::pinned, &clock_, &FrameClock::wake);
  connect(notes_, &NotesDock::refused, this, &MainWindow::complain);
}

void MainWindow::addNoteActions(QMenu* menu) {
  menu->addAction("Pin a n&ote to this step...", QKeySequence(Qt::Key_M), this,
                  [this] { notes_->ask(selection_.step()); })
      ->setToolTip("Kept in the recording, shown on the timeline");
  QAction* dock = notes_->toggleViewAction();
  dock->setText("N&otes panel");
  dock->setShortcut(Qt::Key_F7);
  menu->addAction(dock);
}

void MainWindow::addNoteActions(QMenu* menu, qint64 step) {
  if (!selection_.history()) return;
  const bool there = notes_->hasNote(step);
  menu->addAction(
      there ? QString("&Edit the note of step %1...").arg(step) : QString("Pin a &note to step %1...").arg(step), this,
      [this, step] { notes_->ask(step); });
  if (there) menu->addAction("&Delete this note", this, [this, step] { notes_->pin(step, {}); });
  menu->addSeparator();
}

}  // namespace moescope
