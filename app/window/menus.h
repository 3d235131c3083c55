// The menus View and Help of the window, and the key that opens its menu.
#pragma once

#include <QObject>
#include <QStringList>
#include <cstdint>

class QMenu;
class QWidget;

namespace moescope {

class ProjectorView;
class Selection;
class WindowLayout;
class WorkspaceTabs;

// Moves the cursor to the step, and the visible range if it does not contain the step.
void goToStep(Selection* selection, std::int64_t step);
// The menu View: which docks and workspaces are shown, the time axes, and the theme.
void fillViewMenu(QMenu* menu, WorkspaceTabs* workspaces, WindowLayout* layout, ProjectorView* projector,
                  Selection* selection);
// The menu Help: explanations of panels, the manual, keys, and the About box. `about`: facts about this program and
// machine in rich text, one per line.
void fillHelpMenu(QMenu* menu, WorkspaceTabs* workspaces, const QStringList& about);

// Opens the menu by Alt alone, when it is released, or by F10. Keeps tool tips of the window off open menus.
class MenuKey : public QObject {
  Q_OBJECT

 public:
  explicit MenuKey(QWidget* window);

 signals:
  void pressed();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;  // watches the application

 private:
  QWidget* window_;
  bool alt_alone_ = false;  // Alt is held, and no other key was pressed
};

}  // namespace moescope
