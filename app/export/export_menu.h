// File > Export: all ways out of the open runs, and Edit > Copy of a panel.
#pragma once

#include <QMenu>

namespace moescope {

class MainWindow;
class Panel;

void fillExportMenu(MainWindow* window, QMenu* menu);
void addCopyAction(MainWindow* window, QMenu* menu);
// That has the keyboard's focus, else the one under the mouse; nullptr: none.
Panel* chosenPanel(MainWindow* window);

}  // namespace moescope
