// The shares of the window's width and height that the user gave each dock. They are applied again whenever the window
// changes its size, since Qt would shrink all docks alike and never restore them.
#pragma once

#include <QDockWidget>
#include <QList>
#include <QMainWindow>
#include <QSizeF>
#include <QVariantMap>

namespace moescope {

class DockShares {
 public:
  // Stores the shares of the visible docks; hidden docks keep their shares.
  void learn(const QMainWindow& window, const QList<QDockWidget*>& docks);
  void apply(QMainWindow* window, const QList<QDockWidget*>& docks) const;
  void forget() { shares_.clear(); }
  bool empty() const { return shares_.isEmpty(); }

  const QVariantMap& remembered() const { return shares_; }
  void restore(const QVariantMap& shares);

 private:
  QVariantMap shares_;  // QSizeF by object name: shares of width and height, 0 to 1
};

}  // namespace moescope
