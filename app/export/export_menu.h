// File > Export: all export formats of the open runs, and Edit > Copy for a panel.
#pragma once

#include <QMenu>

namespace moescope {

class MainWindow;
class Panel;

void fillExportMenu(MainWindow* window, QMenu* menu);
void addCopyAction(MainWindow* window, QMenu* menu);
// The panel with keyboard focus, else the one under the mouse; nullptr: none.
Panel* chosenPanel(MainWindow* window);

}  // namespace moescope
