#include "app/window/menus.h"

#include <QAction>
#include <QApplication>
#include <QCursor>
#include <QDockWidget>
#include <QInputDialog>
#include <QKeyEvent>
#include <QMainWindow>
#include <QMenu>
#include <QWidget>
#include <utility>

#include "app/help/manual.h"
#include "app/look/shortcut_sheet.h"
#include "app/look/theme.h"
#include "app/start/full_page.h"
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

namespace {

Panel* panelAround(QWidget* widget) {
  while (widget && !qobject_cast<Panel*>(widget)) widget = widget->parentWidget();
  return qobject_cast<Panel*>(widget);
}

// Opens the page on the panels that are shown or on the lessons, on the start page the first one.
void openPageOfWorkspace(const WorkspaceTabs* workspaces) {
  const auto* lessons = workspaces->window()->findChild<LessonsPage*>();
  const QString start = lessons && lessons->isVisible() ? "Lessons" : "Overview";
  const ManualPage page = manualPageOn(workspaces->isVisible() ? workspaces->current()->name() : start);
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

MenuKey::MenuKey(QWidget* window) : QObject(window), window_(window) {
  auto* action = new QAction("Menu", window);
  action->setShortcut(Qt::Key_F10);
  action->setWhatsThis("Open the menu (also Alt)");
  connect(action, &QAction::triggered, this, &MenuKey::pressed);
  window->addAction(action);
  qApp->installEventFilter(this);
}

// Alt opens the menu only if it was pressed alone: with another key or with the mouse it has another meaning.
bool MenuKey::eventFilter(QObject* watched, QEvent* event) {
  switch (event->type()) {
    case QEvent::KeyPress:
    case QEvent::KeyRelease: {
      const auto* key = static_cast<QKeyEvent*>(event);
      const auto* widget = qobject_cast<QWidget*>(watched);
      if (!widget || key->isAutoRepeat()) break;
      const bool ours = widget->window() == window_ && key->key() == Qt::Key_Alt;
      if (event->type() == QEvent::KeyPress)
        alt_alone_ = ours;
      else if (std::exchange(alt_alone_, false) && ours)
        emit pressed();
      break;
    }
    case QEvent::ShortcutOverride:  // Alt and a letter may be a shortcut, which no widget gets as a key
      if (static_cast<const QKeyEvent*>(event)->key() != Qt::Key_Alt) alt_alone_ = false;
      break;
    case QEvent::ToolTip: {  // a tool tip of the window must not cover an open menu
      const QWidget* popup = QApplication::activePopupWidget();
      const auto* widget = qobject_cast<QWidget*>(watched);
      if (popup && widget && widget->window() == window_) return true;
      break;
    }
    case QEvent::MouseButtonPress:
    case QEvent::Wheel:
    case QEvent::WindowDeactivate:
      alt_alone_ = false;
      break;
    default:
      break;
  }
  return QObject::eventFilter(watched, event);
}

}  // namespace moescope
