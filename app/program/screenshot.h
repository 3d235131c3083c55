// Files that the window program writes without a user: pictures of the window, and exports.
#pragma once

#include "app/program/arguments.h"

namespace moescope {

class MainWindow;

inline constexpr qint64 kScreenshotSteps = 100;

// Both end the event loop with the program's exit status. Call them once the window is shown.
// --screenshot: trains a number of steps, or opens a recording, then saves a picture of the window.
void takeScreenshot(MainWindow* window, const Arguments& arguments);
// --export: opens the files and writes the requested output.
void takeExport(MainWindow* window, const Arguments& arguments);

}  // namespace moescope
