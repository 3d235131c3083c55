// The menu View: which docks and workspaces are shown, the time axes, and the theme.
#pragma once

class QMenu;

namespace moescope {

class ProjectorView;
class Selection;
class WindowLayout;
class WorkspaceTabs;

void fillViewMenu(QMenu* menu, WorkspaceTabs* workspaces, WindowLayout* layout, ProjectorView* projector,
                  Selection* selection);

}  // namespace moescope
