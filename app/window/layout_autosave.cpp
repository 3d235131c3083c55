#include "app/window/layout_autosave.h"

#include "app/lessons/lesson_guide.h"
#include "app/window/main_window.h"
#include "app/workspaces/workspace.h"

namespace moescope {

LayoutAutosave::LayoutAutosave(MainWindow* window) : QObject(window), window_(window) {
  timer_.setInterval(kEveryMs);
  timer_.setTimerType(Qt::VeryCoarseTimer);
  connect(&timer_, &QTimer::timeout, this, &LayoutAutosave::saveIfChanged);
  timer_.start();
}

void LayoutAutosave::saveIfChanged() {
  if (!window_->isVisible() || window_->lessonGuide()->active()) return;
  QVariantMap now{{"geometry", window_->saveGeometry()},
                  {"window", window_->saveState()},
                  {"workspace", window_->workspace()->name()}};
  for (const Workspace* each : window_->workspaces()) now["workspaces/" + each->name()] = each->remembered();
  if (now == saved_) return;
  saved_ = now;
  window_->rememberLayout();
}

}  // namespace moescope
