#include "app/workspaces/window_layout.h"

#include <QScreen>
#include <utility>

#include "app/session/settings.h"
#include "app/workspaces/workspace_tabs.h"

namespace moescope {

namespace {

constexpr int kWindowLayoutVersion = 3;
constexpr int kSmallScreen = 1440;  // on which the first window takes all there is
constexpr int kRoomForForm = 1600;  // narrower windows start with the form folded away

}  // namespace

WindowLayout::WindowLayout(QMainWindow* window, WorkspaceTabs* workspaces, QDockWidget* form_dock)
    : QObject(window), window_(window), workspaces_(workspaces), form_dock_(form_dock) {
  timer_.setInterval(kSaveEveryMs);
  timer_.setTimerType(Qt::VeryCoarseTimer);
  connect(&timer_, &QTimer::timeout, this, &WindowLayout::saveIfChanged);
}

void WindowLayout::setDefault() {
  window_->addDockWidget(Qt::LeftDockWidgetArea, form_dock_);
  form_dock_->setFloating(false);
  form_dock_->setVisible(window_->width() >= kRoomForForm);
  for (Workspace* workspace : workspaces_->all()) {
    workspace->arrange();
    workspace->foldAnew();
  }
  // Docks that were just shown get their sizes when the layout has taken them in.
  QTimer::singleShot(0, this, [this] {
    window_->resizeDocks({form_dock_}, {320}, Qt::Horizontal);
    for (Workspace* workspace : workspaces_->all()) workspace->setDefaultSizes();
  });
}

void WindowLayout::setDefaultIfNothingWasKept() {
  if (!std::exchange(arranged_, true)) setDefault();
}

QVariantMap WindowLayout::now() const {
  QVariantMap layout{{"window", window_->saveState(kWindowLayoutVersion)},
                     {"workspace", workspaces_->current()->name()}};
  for (const Workspace* each : workspaces_->all()) layout["workspaces/" + each->name()] = each->remembered();
  return layout;
}

void WindowLayout::save() const {
  const QVariantMap layout = now();
  QSettings store = settings();
  store.setValue("window/geometry", window_->saveGeometry());
  store.setValue("window/screen", window_->screen()->availableSize());
  store.setValue("window/layout", layout["window"]);
  store.setValue("window/workspace", layout["workspace"]);
  for (const Workspace* each : workspaces_->all()) {
    const QString key = "workspaces/" + each->name();
    store.setValue(key, layout[key]);
  }
}

void WindowLayout::saveIfChanged() {
  if (!window_->isVisible() || lent_) return;
  QVariantMap layout = now();
  layout["geometry"] = window_->saveGeometry();
  if (layout == saved_) return;
  saved_ = layout;
  save();
}

void WindowLayout::restore() {
  const QSettings store = settings();
  window_->restoreGeometry(store.value("window/geometry").toByteArray());
  // What was arranged on a larger screen would run past this one's edges.
  const QSize room = window_->screen()->availableSize();
  const QSize room_then = store.value("window/screen", room).toSize();
  const bool smaller_screen = room.width() < room_then.width() || room.height() < room_then.height();
  if (smaller_screen || !store.contains("window/geometry")) fitScreen();
  arranged_ = window_->restoreState(store.value("window/layout").toByteArray(), kWindowLayoutVersion);
  if (smaller_screen && room.width() < kRoomForForm) form_dock_->hide();
  for (Workspace* each : workspaces_->all()) each->restore(store.value("workspaces/" + each->name()).toMap());
  workspaces_->bringUp(store.value("window/workspace").toString());
  timer_.start();
}

void WindowLayout::fitScreen() {
  const QSize room = window_->screen()->availableSize();
  if (room.width() <= kSmallScreen) window_->setWindowState(Qt::WindowMaximized);
  window_->resize(QSize(1760, 1000).boundedTo(room - QSize(40, 60)));
}

void WindowLayout::lendToLesson() {
  if (!std::exchange(lent_, true)) own_ = now();
  form_dock_->hide();
}

void WindowLayout::takeBack() {
  lent_ = false;
  window_->restoreState(own_["window"].toByteArray(), kWindowLayoutVersion);
  for (Workspace* each : workspaces_->all()) each->restore(own_["workspaces/" + each->name()].toMap());
  workspaces_->bringUp(own_["workspace"].toString());
}

}  // namespace moescope
