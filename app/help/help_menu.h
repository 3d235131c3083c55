// The menu Help: explanations of panels, the manual, keys, samples, and the About box.
#pragma once

#include <QStringList>

class QMenu;

namespace moescope {

class FileActions;
class WorkspaceTabs;

// `about`: facts about this program and machine in rich text, one per line.
void fillHelpMenu(QMenu* menu, WorkspaceTabs* workspaces, FileActions* files, const QStringList& about);

}  // namespace moescope
