// The share of the window's width and height that the user gave each dock. Applied again whenever the window changes
// its size: Qt would shrink all docks alike and never restore them.
#pragma once

#include <QDockWidget>
#include <QList>
#include <QMainWindow>
#include <QSizeF>
#include <QVariantMap>

namespace moescope {

class DockShares {
 public:
  // Learns the shares of the visible docks; hidden docks keep theirs.
  void learn(const QMainWindow& window, const QList<QDockWidget*>& docks);
  void apply(QMainWindow* window, const QList<QDockWidget*>& docks) const;
  void forget() { shares_.clear(); }
  bool empty() const { return shares_.isEmpty(); }

  const QVariantMap& remembered() const { return shares_; }
  void restore(const QVariantMap& shares);

 private:
  QVariantMap shares_;  // QSizeF by object name: share of width and height, each 0..1
};

}  // namespace moescope
