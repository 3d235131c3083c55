#include "app/workspaces/dock_shares.h"

#include <QTabBar>
#include <algorithm>
#include <cmath>

#include "core/numerics/index.h"

namespace moescope {

namespace {

bool isDocked(const QDockWidget& dock, const QMainWindow& window) {
  return !dock.isFloating() && dock.isVisibleTo(&window);
}

// Returns the height of a dock and of the tab bar below it, which share the dock's place.
int heightWithTabs(const QDockWidget& dock, const QMainWindow& window) {
  const QRect place = dock.geometry();
  int height = place.height();
  if (window.tabifiedDockWidgets(const_cast<QDockWidget*>(&dock)).isEmpty()) return height;
  for (const QTabBar* bar : window.findChildren<QTabBar*>(QString(), Qt::FindDirectChildrenOnly))
    if (bar->isVisibleTo(&window) && bar->geometry().left() < place.right() && bar->geometry().right() > place.left() &&
        std::abs(bar->geometry().top() - place.bottom()) <= 2)
      height += bar->height();
  return height;
}

}  // namespace

void DockShares::learn(const QMainWindow& window, const QList<QDockWidget*>& docks) {
  const double across = std::max(1, window.width()), down = std::max(1, window.height());
  for (QDockWidget* dock : docks) {
    if (!isDocked(*dock, window) || dock->visibleRegion().isEmpty()) continue;
    const QSizeF share{dock->width() / across, heightWithTabs(*dock, window) / down};
    shares_[dock->objectName()] = share;
    for (const QDockWidget* behind : window.tabifiedDockWidgets(dock)) shares_[behind->objectName()] = share;
  }
}

void DockShares::apply(QMainWindow* window, const QList<QDockWidget*>& docks) const {
  QList<QDockWidget*> sized;
  QList<int> widths, heights;
  const int down = std::max(1, window->height());
  for (QDockWidget* dock : docks) {
    const QSizeF share = shares_.value(dock->objectName()).toSizeF();
    if (share.isEmpty() || !isDocked(*dock, *window)) continue;
    sized << dock;
    widths << std::max(1, to_int(std::lround(share.width() * window->width())));
    heights << std::max(1, to_int(std::lround(share.height() * down)));
  }
  if (sized.isEmpty()) return;
  window->resizeDocks(sized, widths, Qt::Horizontal);
  window->resizeDocks(sized, heights, Qt::Vertical);
}

void DockShares::restore(const QVariantMap& shares) {
  shares_.clear();
  for (auto share = shares.begin(); share != shares.end(); ++share) {
    const QSizeF size = share.value().toSizeF();
    if (size.width() > 0 && size.width() <= 1 && size.height() > 0 && size.height() <= 1) shares_[share.key()] = size;
  }
}

}  // namespace moescope
