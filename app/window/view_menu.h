// The menu View: which docks and workspaces are shown, the time axes, and the theme.
#pragma once

#include <cstdint>

class QMenu;

namespace moescope {

class ProjectorView;
class Selection;
class WindowLayout;
class WorkspaceTabs;

// Moves the cursor to the step, and the visible range if it does not contain the step.
void goToStep(Selection* selection, std::int64_t step);
void fillViewMenu(QMenu* menu, WorkspaceTabs* workspaces, WindowLayout* layout, ProjectorView* projector,
                  Selection* selection);

}  // namespace moescope
