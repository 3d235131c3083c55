// moescope --screenshot: trains a number of steps, or opens a recording, then saves a picture of the window and quits.
#pragma once

#include <functional>

#include "app/program/arguments.h"

namespace moescope {

class MainWindow;

inline constexpr qint64 kScreenshotSteps = 100;

// Ends the event loop; a problem is printed to stderr and makes the exit code 1.
void quitWith(const QString& problem);
// Quits with an error if the window asks which runs to open or whether to train on a text.
void quitWhereAsked(MainWindow* window);
// Calls `action`; if it throws, prints the error, quits and returns false.
bool guardedQuit(const std::function<void()>& action);
// Calls `action` once all frames have arrived and no panel is busy.
void whenPanelsAreReady(MainWindow* window, const std::function<void()>& action);

// Call once the window is shown; ends the event loop with the program's exit status.
void takeScreenshot(MainWindow* window, const Arguments& arguments);

}  // namespace moescope
