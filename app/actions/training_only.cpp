#include "app/actions/training_only.h"

#include <QAction>
#include <QMenu>

#include "app/look/messages.h"
#include "app/session/run_session.h"

namespace moescope {

void offWithoutTraining(QMenu* menu, const QList<QAction*>& actions, const RunSession* session) {
  menu->setToolTipsVisible(true);
  for (QAction* action : actions) {
    const QString tip = action->toolTip();
    QObject::connect(menu, &QMenu::aboutToShow, action, [action, tip, session] {
      if (session->isLive()) return action->setToolTip(tip);
      action->setEnabled(false);
      action->setToolTip(kNothingTrains);
    });
    QObject::connect(menu, &QMenu::aboutToHide, action, [action] { action->setEnabled(true); });
  }
}

}  // namespace moescope
