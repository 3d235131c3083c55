#include "app/help/help_menu.h"

#include <QApplication>
#include <QCursor>
#include <QMainWindow>
#include <QMenu>

#include "app/help/manual.h"
#include "app/help/manual_window.h"
#include "app/look/shortcut_sheet.h"
#include "app/workspaces/workspace_tabs.h"

namespace moescope {

namespace {

Panel* panelAround(QWidget* widget) {
  while (widget && !qobject_cast<Panel*>(widget)) widget = widget->parentWidget();
  return qobject_cast<Panel*>(widget);
}

// Opens the page on the panels that are shown, on the start page the first one.
void openPageOfWorkspace(const WorkspaceTabs* workspaces) {
  const ManualPage page = manualPageOn(workspaces->isVisible() ? workspaces->current()->name() : "Overview");
  if (!page.path.isEmpty()) openManualPage(workspaces->window(), page.path);
}

// Explains the panel under the mouse, or the panel with the keyboard focus if there is none under the mouse.
void explainUnderMouse(const WorkspaceTabs* workspaces) {
  const QWidget* window = workspaces->window();
  if (Panel* panel = panelAround(QApplication::widgetAt(QCursor::pos()))) return panel->explainAt(QCursor::pos());
  if (Panel* panel = panelAround(window->focusWidget())) panel->explainAt(panel->mapToGlobal(panel->rect().center()));
}

void addManual(QMenu* menu, QWidget* window) {
  QMenu* manual = menu->addMenu("&Manual");
  for (const ManualPage& page : manualPages())
    manual->addAction(page.title, window, [window, page] { openManualPage(window, page.path); });
  manual->menuAction()->setVisible(!manual->isEmpty());
}

}  // namespace

void fillHelpMenu(QMenu* menu, WorkspaceTabs* workspaces, const QStringList& about) {
  auto* window = qobject_cast<QMainWindow*>(workspaces->window());
  QAction* explain =
      menu->addAction("&Explain what is under the mouse", window, [workspaces] { explainUnderMouse(workspaces); });
  explain->setShortcuts({QKeySequence("Shift+F1"), QKeySequence("E")});
  explain->setWhatsThis("Explain the figure under the mouse: its formula and its numbers");
  menu->addSeparator();
  menu->addAction("Manual on this &page", QKeySequence(Qt::Key_F1), window,
                  [workspaces] { openPageOfWorkspace(workspaces); });
  addManual(menu, window);
  menu->addAction("&Glossary", window, [window] { openManualPage(window, manualPage("glossary.md")); });
  menu->addAction("&Keyboard and mouse", QKeySequence("Ctrl+/"), window, [window] { showShortcutSheet(window); });
  menu->addSeparator();
  menu->addAction("&About MoEScope", window, [window, about] { showAbout(window, about); });
}

}  // namespace moescope
