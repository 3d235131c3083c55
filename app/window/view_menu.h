// The menu View: which docks and workspaces are on the screen, what the time axes show, and the theme.
#pragma once

class QMenu;

namespace moescope {

class Selection;
class WindowLayout;
class WorkspaceTabs;

void fillViewMenu(QMenu* menu, WorkspaceTabs* workspaces, WindowLayout* layout, Selection* selection);

}  // namespace moescope
