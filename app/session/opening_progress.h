// The bar that shows how far something that is being opened has come, with a way to cancel.
#pragma once

class QWidget;

namespace moescope {

class RunSession;

void showOpenings(RunSession* session, QWidget* window);

}  // namespace moescope
