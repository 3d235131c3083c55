// Disables menu entries that act on a run in training while their menu is open and nothing trains, with the reason as
// tool tip. Their keys stay enabled, so that they can say what is missing.
#pragma once

#include <QList>

class QAction;
class QMenu;

namespace moescope {

class RunSession;

void offWithoutTraining(QMenu* menu, const QList<QAction*>& actions, const RunSession* session);

}  // namespace moescope
