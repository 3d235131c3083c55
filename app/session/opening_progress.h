// The progress bar of opening a run, with a button to cancel.
#pragma once

class QWidget;

namespace moescope {

class RunSession;

void showOpenings(RunSession* session, QWidget* window);

}  // namespace moescope
