// The commands of the palette: the window's actions, panels, metrics, settings, lessons, recent files.
#pragma once

#include <vector>

#include "app/window/command_palette.h"

namespace moescope {

class MainWindow;

std::vector<PaletteCommand> commandsOf(MainWindow* window);
void openPalette(MainWindow* window);

}  // namespace moescope
