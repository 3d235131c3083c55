// Menu entries that act on a model in training: off while their menu is open and nothing trains, with the reason as
// tool tip. Their keys stay on, so that they can say what is missing.
#pragma once

#include <QList>

class QAction;
class QMenu;

namespace moescope {

class RunSession;

void offWithoutTraining(QMenu* menu, const QList<QAction*>& actions, const RunSession* session);

}  // namespace moescope
