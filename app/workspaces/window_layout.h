// The layout of the docks of the window and of each workspace: the default layout, the user's own, which is stored
// between sessions, and a lesson's as long as the lesson lasts.
#pragma once

#include <QDockWidget>
#include <QMainWindow>
#include <QMap>
#include <QObject>
#include <QStringList>
#include <QTimer>
#include <QVariantMap>

namespace moescope {

class WorkspaceTabs;

// Also keeps the widths of the docks at the sides when the window changes its size.
class WindowLayout : public QObject {
  Q_OBJECT

 public:
  static constexpr int kSaveEveryMs = 5000;
  WindowLayout(QMainWindow* window, WorkspaceTabs* workspaces);

  // Restores the stored layout. From this call on stores each change, so that a crash does not lose it.
  void restore();
  void save() const;
  void saveIfChanged();  // does nothing during a lesson or the projector view
  void setDefault();
  void setDefaultIfNothingWasKept();

  // Projector view: shows only the essential docks of each workspace, and restores the user's layout at the end. The
  // layout of a lesson, which shows few panels, stays.
  void setProjected(bool projected);

  // Between these two calls the layout belongs to a lesson. takeBack() restores the user's layout.
  void lendToLesson();
  void takeBack();

 signals:
  void handedOver();  // a lesson or the projector view takes the layout; overlays have to close

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  QVariantMap present() const;
  QVariantMap arrangement() const;  // the layout without the state of the panels
  void restoreArrangement(const QVariantMap& arrangement);
  void applySizesSoon();
  void project();
  void projectLesson();
  void endProjection();
  QStringList shownDocks() const;  // name of the visible workspace and its shown docks
  void fitScreen();
  QList<QDockWidget*> sideDocks() const;  // visible docks at the sides
  void learnWidths();
  void applyWidths();

  QMainWindow* window_;
  WorkspaceTabs* workspaces_;
  QTimer timer_;
  QMap<QDockWidget*, int> widths_;  // widths that the docks at the sides should have
  bool arranged_ = false, lent_ = false, projected_ = false;
  QVariantMap saved_, user_layout_;  // user_layout_: during a lesson
  QVariantMap before_;               // layout before the projector view; empty: a lesson began before it
  QMap<QDockWidget*, int> widths_before_;
  QVariantMap before_of_lesson_;  // layout before a projector view that began during the lesson
  QStringList docks_of_lesson_;   // docks that the lesson showed at that time
};

}  // namespace moescope
