#include "app/help/help_menu.h"

#include <QApplication>
#include <QCursor>
#include <QMainWindow>
#include <QMenu>

#include "app/help/glossary_window.h"
#include "app/help/manual.h"
#include "app/look/shortcut_sheet.h"
#include "app/workspaces/workspace_tabs.h"

namespace moescope {

namespace {

Panel* panelAround(QWidget* widget) {
  while (widget && !qobject_cast<Panel*>(widget)) widget = widget->parentWidget();
  return qobject_cast<Panel*>(widget);
}

// Explains the panel under the mouse, or the panel with the keyboard focus if there is none under the mouse. Pages
// without panels open the manual.
void explainUnderMouse(const WorkspaceTabs* workspaces) {
  QWidget* window = workspaces->window();
  if (const QList<ManualPage> pages = manualPages(); !workspaces->isVisible() && !pages.isEmpty())
    return openManualPage(window, pages.first().path);
  if (Panel* panel = panelAround(QApplication::widgetAt(QCursor::pos()))) return panel->explainAt(QCursor::pos());
  if (Panel* panel = panelAround(window->focusWidget())) panel->explainAt(panel->mapToGlobal(panel->rect().center()));
}

void addPanelHelp(QMenu* menu, WorkspaceTabs* workspaces) {
  QMenu* panels = menu->addMenu("&What am I looking at?");
  panels->setProperty("fills_itself", true);
  QObject::connect(panels, &QMenu::aboutToShow, workspaces, [workspaces, panels] {
    panels->clear();
    for (Panel* panel : workspaces->current()->panels())
      panels->addAction(panel->title(), panel, [workspaces, panel] {
        showExplanation(workspaces->window(), panel->title(), panel->explain());
      });
  });
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
  explain->setShortcuts({QKeySequence(Qt::Key_F1), QKeySequence("E")});
  explain->setWhatsThis("Explain the figure under the mouse, with its formula and its numbers");
  addPanelHelp(menu, workspaces);
  menu->addSeparator();
  addManual(menu, window);
  menu->addAction("&Glossary", window, [window] { showGlossary(window); });
  menu->addAction("&Keyboard and mouse", QKeySequence("Ctrl+/"), window, [window] { showShortcutSheet(window); });
  menu->addSeparator();
  menu->addAction("&About MoEScope", window, [window, about] { showAbout(window, about); });
}

}  // namespace moescope
