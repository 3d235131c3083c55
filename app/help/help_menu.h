// The menu Help: explanations of panels, the manual, keys, and the About box.
#pragma once

#include <QStringList>

class QMenu;

namespace moescope {

class WorkspaceTabs;

// `about`: facts about this program and machine in rich text, one per line.
void fillHelpMenu(QMenu* menu, WorkspaceTabs* workspaces, const QStringList& about);

}  // namespace moescope
