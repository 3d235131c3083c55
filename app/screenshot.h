// moescope --screenshot: trains the asked number of steps, or opens a recording, then saves the window and quits.
#pragma once

#include "app/arguments.h"

namespace moescope {

class MainWindow;

inline constexpr qint64 kScreenshotSteps = 100;

// Call once the window is shown; ends the event loop with the program's exit status.
void takeScreenshot(MainWindow* window, const Arguments& arguments);

}  // namespace moescope
