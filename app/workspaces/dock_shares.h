// What share of its window's width and height each dock has, as the person left it. Applied again whenever the window
// changes its size: by itself Qt takes what is missing from all docks alike, and never gives it back.
#pragma once

#include <QDockWidget>
#include <QList>
#include <QMainWindow>
#include <QMap>
#include <QSizeF>
#include <QVariantMap>

namespace moescope {

class DockShares {
 public:
  // From the docks on the screen; those that are not keep what they had.
  void learn(const QMainWindow& window, const QList<QDockWidget*>& docks);
  void apply(QMainWindow* window, const QList<QDockWidget*>& docks) const;
  // A dock that takes the whole height at a side: the others make room for it.
  void addColumn(const QDockWidget& dock, double width);
  void forget() { shares_.clear(); }
  bool empty() const { return shares_.isEmpty(); }

  QVariantMap remembered() const;  // QSizeF by object name
  void restore(const QVariantMap& shares);

 private:
  QMap<QString, QSizeF> shares_;  // by object name, each 0..1
};

}  // namespace moescope
