// moescope --screenshot: trains the asked number of steps, or opens a recording, then saves the window and quits.
#pragma once

#include <functional>

#include "app/program/arguments.h"

namespace moescope {

class MainWindow;

inline constexpr qint64 kScreenshotSteps = 100;

// Call once the window is shown; ends the event loop with the program's exit status.
// Of the event loop; a problem goes to stderr and makes the exit code 1.
void quitWith(const QString& problem);
// Quits with what `action` throws; whether it threw nothing.
bool guardedQuit(const std::function<void()>& action);
// Once all frames have come and no panel is busy any more.
void whenPanelsAreReady(MainWindow* window, std::function<void()> then);

void takeScreenshot(MainWindow* window, const Arguments& arguments);

}  // namespace moescope
