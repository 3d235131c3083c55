// The menu Help: explanations of what is on the screen, the keys, the sample, and what this program is.
#pragma once

#include <QStringList>

class QMenu;

namespace moescope {

class FileActions;
class WorkspaceTabs;

// `about`: facts of this program and machine, rich text, one per line.
void fillHelpMenu(QMenu* menu, WorkspaceTabs* workspaces, FileActions* files, const QStringList& about);

}  // namespace moescope
