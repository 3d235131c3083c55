// Findings: who shows them, and the way from one to the setting that moves it.
#include <QAction>
#include <QApplication>
#include <QCursor>
#include <QDockWidget>

#include "app/bars/live_bar.h"
#include "app/bars/status_line.h"
#include "app/setup/field_editor.h"
#include "app/setup/setup_form.h"
#include "app/window/main_window.h"
#include "app/workspaces/overview.h"

namespace moescope {

void MainWindow::connectFindings() {
  connect(&findings_, &FindingsWatch::changed, this, [this] {
    status_->showFindings(findings_.count(Severity::severe), findings_.count(Severity::warning), findings_.ready());
  });
  connect(status_, &StatusLine::findingsClicked, this, &MainWindow::showFindings);
  for (Panel* panel : findChildren<Panel*>()) connect(panel, &Panel::knobRequested, this, &MainWindow::focusSetting);
}

// In the workspace on the screen if it has a list of its own.
void MainWindow::showFindings() {
  for (FindingsPanel* panel : workspace()->findChildren<FindingsPanel*>()) {
    auto* dock = qobject_cast<QDockWidget*>(panel->parentWidget());
    if (!dock) continue;
    dock->show();
    dock->raise();
    return panel->setFocus();
  }
  showWorkspace(overview_);
  overview_->showFindings();
}

// Where it can be turned at once, else in the form.
void MainWindow::focusSetting(const QString& key) {
  FieldEditor* live = live_bar_->editor(key.toStdString());
  if (live && live->isEnabled() && live->isVisible()) return live->setFocus(Qt::ShortcutFocusReason);
  form_dock_->show();
  form_->showField(key.toStdString());
}

// Under the mouse; without one over a panel, the panel that has the keyboard.
void MainWindow::explainUnderMouse() {
  const auto panel_of = [](QWidget* widget) {
    while (widget && !qobject_cast<Panel*>(widget)) widget = widget->parentWidget();
    return qobject_cast<Panel*>(widget);
  };
  if (Panel* panel = panel_of(QApplication::widgetAt(QCursor::pos()))) return panel->explainAt(QCursor::pos());
  if (Panel* panel = panel_of(focusWidget())) panel->explainAt(panel->mapToGlobal(panel->rect().center()));
}

}  // namespace moescope
