// All that the command palette offers: the window's actions, and panels, lessons, recent files.
#pragma once

#include <vector>

#include "app/window/command_palette.h"

class QMenu;

namespace moescope {

class MainWindow;

std::vector<Command> commandsOf(MainWindow* window);
void addPaletteAction(MainWindow* window, QMenu* menu);

}  // namespace moescope
