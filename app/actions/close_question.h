// Asks before something else takes the place of the open runs.
#pragma once

#include <functional>

class QString;
class QWidget;

namespace moescope {

class RunSession;
class Selection;

// Calls `act` once the user agrees to close the open runs; at once if none is open. `what` takes their place: "The
// training"; `button`: "Close and train".
void askToClose(const Selection& selection, QWidget* window, const QString& what, const QString& button,
                const std::function<void()>& act);
// The same before a log, or another training, takes the place of a training; at once if no step was trained.
void askToCloseTraining(const RunSession& session, const Selection& selection, QWidget* window,
                        const std::function<void()>& act, bool for_training = false);

}  // namespace moescope
