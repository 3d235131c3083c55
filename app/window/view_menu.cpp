#include "app/window/view_menu.h"

#include <QApplication>
#include <QDockWidget>
#include <QInputDialog>
#include <QMenu>

#include "app/look/theme.h"
#include "app/window/projector_view.h"
#include "app/workspaces/window_layout.h"
#include "app/workspaces/workspace_tabs.h"
#include "widgets/selection/selection.h"

namespace moescope {

namespace {

void addPanelSwitches(QMenu* menu, WorkspaceTabs* workspaces) {
  QMenu* panels = menu->addMenu("&Panels");
  panels->setProperty("fills_itself", true);
  QObject::connect(panels, &QMenu::aboutToShow, workspaces, [workspaces, panels] {
    panels->clear();
    for (QDockWidget* dock : workspaces->current()->docks()) panels->addAction(dock->toggleViewAction());
  });
}

void addWorkspaces(QMenu* menu, WorkspaceTabs* workspaces) {
  int place = 0;
  for (Workspace* workspace : workspaces->all()) {
    QAction* show = menu->addAction(QString("&%1 %2").arg(++place).arg(workspace->name()), workspaces,
                                    [workspaces, workspace] { workspaces->bringUp(workspace); });
    show->setShortcut(QKeySequence(QString("Ctrl+%1").arg(place)));
    show->setWhatsThis("Workspace " + workspace->name());
  }
}

void setTheme(std::optional<Theme> theme) {
  applyTheme(theme.value_or(desktopTheme()));
  rememberTheme(theme);
}

void addThemes(QMenu* menu) {
  QMenu* themes = menu->addMenu("&Theme");
  const auto add = [themes](const QString& name, std::optional<Theme> theme) {
    QAction* action = themes->addAction(name, themes, [theme] { setTheme(theme); });
    action->setCheckable(true);
    QObject::connect(themes, &QMenu::aboutToShow, action, [action, theme] {
      const Theme shown = isDark(QApplication::palette()) ? Theme::dark : Theme::light;
      const bool is_of_desktop = !chosenTheme() && shown == desktopTheme();
      action->setChecked(theme ? theme == shown && !is_of_desktop : is_of_desktop);
    });
  };
  add("&Dark", Theme::dark);
  add("&Light", Theme::light);
  add("&As the desktop", {});
  themes->addAction("&Switch dark and light", QKeySequence("Alt+M"), themes,
                    [] { setTheme(isDark(QApplication::palette()) ? Theme::light : Theme::dark); });
}

// Asks for a step and goes to it.
void askStep(QWidget* window, Selection* selection) {
  const StepRange all = selection->history() ? selection->history()->steps() : StepRange{};
  if (all.empty()) return;
  bool is_entered = false;
  const auto step = static_cast<std::int64_t>(
      QInputDialog::getDouble(window, "Go to step", QString("Step, %1 to %2:").arg(all.first).arg(all.last),
                              selection->step(), all.first, all.last, 0, &is_entered));
  if (is_entered) goToStep(selection, step);
}

}  // namespace

void goToStep(Selection* selection, std::int64_t step) {
  const StepRange range = selection->range();
  if (step < range.first || step > range.last)
    selection->setRange({step - range.size() / 2, step - range.size() / 2 + range.size() - 1});
  selection->setStep(step);
}

void fillViewMenu(QMenu* menu, WorkspaceTabs* workspaces, WindowLayout* layout, ProjectorView* projector,
                  Selection* selection) {
  addPanelSwitches(menu, workspaces);
  menu->addSeparator();
  addWorkspaces(menu, workspaces);
  menu->addAction("&Restore the default layout", layout, &WindowLayout::setDefault);
  menu->addSeparator();
  menu->addAction("F&indings", QKeySequence(Qt::Key_F6), workspaces, &WorkspaceTabs::bringUpFindings)
      ->setWhatsThis("Findings: what is wrong with the open runs");
  menu->addAction("&Go to step...", QKeySequence("Ctrl+G"), workspaces,
                  [workspaces, selection] { askStep(workspaces->window(), selection); });
  menu->addAction("&Fit all steps and follow", QKeySequence("Ctrl+0"), selection, &Selection::fitRange);
  menu->addSeparator();
  menu->addAction(projector->action());
  addThemes(menu);
}

}  // namespace moescope
