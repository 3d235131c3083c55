#include "app/workspaces/window_layout.h"

#include <QEvent>
#include <QScreen>
#include <utility>

#include "app/session/settings.h"
#include "app/workspaces/workspace_tabs.h"

namespace moescope {

namespace {

constexpr int kWindowLayoutVersion = 4;
constexpr char kArrangementKey[] = "window/arrangement";
constexpr int kSmallScreen = 1440;  // the first window fills a screen of at most this width

}  // namespace

WindowLayout::WindowLayout(QMainWindow* window, WorkspaceTabs* workspaces)
    : QObject(window), window_(window), workspaces_(workspaces) {
  timer_.setInterval(kSaveEveryMs);
  timer_.setTimerType(Qt::VeryCoarseTimer);
  connect(&timer_, &QTimer::timeout, this, &WindowLayout::saveIfChanged);
  window_->installEventFilter(this);
}

bool WindowLayout::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Resize)
    applyWidths();
  else if (event->type() == QEvent::MouseButtonRelease)
    learnWidths();  // the user may have dragged the line between docks
  return QObject::eventFilter(watched, event);
}

QList<QDockWidget*> WindowLayout::sideDocks() const {
  QList<QDockWidget*> docks;
  for (QDockWidget* dock : window_->findChildren<QDockWidget*>(QString(), Qt::FindDirectChildrenOnly))
    if (dock->isVisible() && !dock->isFloating() && !dock->visibleRegion().isEmpty()) docks << dock;
  return docks;
}

void WindowLayout::learnWidths() {
  for (QDockWidget* dock : sideDocks()) widths_[dock] = dock->width();
}

// Restores the widths of the side docks. A dock that the user has not resized since it was shown keeps its present
// width.
void WindowLayout::applyWidths() {
  const QList<QDockWidget*> docks = sideDocks();
  QList<int> widths;
  for (QDockWidget* dock : docks) {
    if (!widths_.contains(dock)) widths_[dock] = dock->width();
    widths << widths_[dock];
  }
  if (!docks.isEmpty()) window_->resizeDocks(docks, widths, Qt::Horizontal);
}

void WindowLayout::setDefault() {
  if (projected_) return project();
  widths_.clear();
  for (Workspace* workspace : workspaces_->all()) {
    workspace->arrangeAnew();
    workspace->foldAnew();
  }
  // Delayed, since docks that were just shown get their sizes when the layout has placed them.
  QTimer::singleShot(0, this, [this] {
    for (Workspace* workspace : workspaces_->all()) workspace->applySizes();
  });
}

void WindowLayout::setDefaultIfNothingWasKept() {
  if (!std::exchange(arranged_, true)) setDefault();
}

QVariantMap WindowLayout::arrangement() const {
  QVariantMap layout{{"window", window_->saveState(kWindowLayoutVersion)}};
  for (const Workspace* workspace : workspaces_->all())
    layout["workspaces/" + workspace->name()] = workspace->arrangement();
  return layout;
}

QVariantMap WindowLayout::present() const {
  QVariantMap layout{{"window", window_->saveState(kWindowLayoutVersion)},
                     {"workspace", workspaces_->current()->name()},
                     {"geometry", window_->saveGeometry()}};
  for (const Workspace* workspace : workspaces_->all())
    layout["workspaces/" + workspace->name()] = workspace->remembered();
  return layout;
}

void WindowLayout::save() const {
  QVariantMap layout = present();
  layout["screen"] = window_->screen()->availableSize();
  keepSealed(kArrangementKey, layout);
  for (const char* old_key :
       {"window/geometry", "window/screen", "window/layout", "window/form", "window/workspace", "workspaces"})
    settings().remove(old_key);
}

void WindowLayout::saveIfChanged() {
  if (!window_->isVisible() || lent_ || projected_) return;
  const QVariantMap before = std::exchange(saved_, present());
  if (saved_ != before) save();
}

void WindowLayout::restore() {
  const QVariantMap arrangement = sealed(kArrangementKey);
  window_->restoreGeometry(arrangement["geometry"].toByteArray());
  // Shrinks a window whose layout comes from a larger screen.
  const QSize room = window_->screen()->availableSize();
  const QSize room_then = arrangement.value("screen", room).toSize();
  const bool smaller_screen = room.width() < room_then.width() || room.height() < room_then.height();
  if (smaller_screen || arrangement.isEmpty()) fitScreen();
  arranged_ = window_->restoreState(arrangement["window"].toByteArray(), kWindowLayoutVersion);
  for (Workspace* workspace : workspaces_->all())
    workspace->restore(arrangement["workspaces/" + workspace->name()].toMap());
  workspaces_->bringUp(arrangement["workspace"].toString());
  timer_.start();
}

void WindowLayout::fitScreen() {
  const QSize room = window_->screen()->availableSize();
  if (room.width() <= kSmallScreen) window_->setWindowState(Qt::WindowMaximized);
  window_->resize(QSize(1760, 1000).boundedTo(room - QSize(40, 60)));
}

void WindowLayout::setProjected(bool projected) {
  if (std::exchange(projected_, projected) == projected) return;
  if (projected)
    lent_ ? projectLesson() : project();
  else
    endProjection();
}

// The projector view only stores the layout of a lesson, which shows few panels anyway.
void WindowLayout::projectLesson() {
  before_of_lesson_ = arrangement();
  docks_of_lesson_ = shownDocks();
  learnWidths();
  widths_before_ = widths_;
}

QStringList WindowLayout::shownDocks() const {
  QStringList shown{workspaces_->current()->name()};
  for (const QDockWidget* dock : workspaces_->current()->docks())
    if (!dock->isHidden()) shown << dock->objectName();
  return shown;
}

void WindowLayout::project() {
  if (before_.isEmpty()) {
    before_ = arrangement();
    learnWidths();
    widths_before_ = widths_;
  }
  emit handedOver();
  for (QDockWidget* dock : sideDocks()) dock->hide();
  for (Workspace* workspace : workspaces_->all()) workspace->project();
  applySizesSoon();
}

void WindowLayout::endProjection() {
  const QVariantMap layout_before = std::exchange(before_of_lesson_, {});
  if (lent_ && !layout_before.isEmpty() && docks_of_lesson_ == shownDocks()) return restoreArrangement(layout_before);
  const QVariantMap before = std::exchange(before_, {});
  if (before.isEmpty()) return;
  if (!lent_) return restoreArrangement(before);
  // Stores the window's layout for the end of the lesson. The panels keep their settings.
  user_layout_["window"] = before["window"];
  for (const Workspace* workspace : workspaces_->all()) {
    const QString key = "workspaces/" + workspace->name();
    QVariantMap panels = user_layout_[key].toMap();
    panels.insert(before[key].toMap());
    user_layout_[key] = panels;
  }
}

void WindowLayout::restoreArrangement(const QVariantMap& arrangement) {
  window_->restoreState(arrangement["window"].toByteArray(), kWindowLayoutVersion);
  widths_ = widths_before_;
  for (Workspace* workspace : workspaces_->all())
    workspace->restore(arrangement["workspaces/" + workspace->name()].toMap());
  applySizesSoon();
}

// Waits until the layout has placed the docks that were just shown, and then applies their sizes.
void WindowLayout::applySizesSoon() {
  QTimer::singleShot(0, this, [this] {
    applyWidths();
    for (Workspace* workspace : workspaces_->all()) workspace->applySizes();
  });
}

void WindowLayout::lendToLesson() {
  if (!std::exchange(lent_, true)) user_layout_ = present();
  emit handedOver();
}

void WindowLayout::takeBack() {
  before_of_lesson_.clear();
  window_->restoreState(user_layout_["window"].toByteArray(), kWindowLayoutVersion);
  lent_ = false;
  for (Workspace* workspace : workspaces_->all())
    workspace->restore(user_layout_["workspaces/" + workspace->name()].toMap());
  workspaces_->bringUp(user_layout_["workspace"].toString());
  if (projected_ && before_.isEmpty()) project();
}

}  // namespace moescope
