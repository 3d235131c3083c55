#include "app/actions/actions.h"

#include <QAction>
#include <QMenu>
#include <stdexcept>

#include "app/session/run_session.h"
#include "app/session/settings.h"

namespace moescope {

QString Actions::recordingPlace(const QString& name) {
  try {
    return newRecordingPath(name);
  } catch (const std::runtime_error& problem) {
    messages_->say(QString("Not recorded, the run is in memory only: %1").arg(problem.what()), 20000);
    return {};
  }
}

void Actions::enableWhenClosed(QMenu* menu, const QList<QAction*>& actions) {
  for (QAction* action : actions) connect(menu, &QMenu::aboutToHide, action, [action] { action->setEnabled(true); });
}

void Actions::offWithoutTraining(QMenu* menu, const QList<QAction*>& actions) {
  menu->setToolTipsVisible(true);
  for (QAction* action : actions) {
    const QString tip = action->toolTip();
    connect(menu, &QMenu::aboutToShow, action, [this, action, tip] {
      if (session_->isLive()) return action->setToolTip(tip);
      action->setEnabled(false);
      action->setToolTip(kNothingTrains);
    });
  }
  enableWhenClosed(menu, actions);
}

}  // namespace moescope
