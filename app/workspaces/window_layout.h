// Where the docks of the window and of each workspace stand: the default, the person's own, which is kept from one
// start to the next, and a lesson's for as long as it lasts.
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

// The docks at the sides of the window keep their width while it changes its size.
class WindowLayout : public QObject {
  Q_OBJECT

 public:
  static constexpr int kSaveEveryMs = 5000;
  WindowLayout(QMainWindow* window, WorkspaceTabs* workspaces);

  // Takes over what was kept, and from now on keeps each change, so that a crash does not cost it.
  void restore();
  void save() const;
  void saveIfChanged();  // not while the arrangement is a lesson's or for a hall
  void setDefault();
  void setDefaultIfNothingWasKept();

  // For a hall: the essential docks of each workspace alone, and at the end the person's arrangement as it was. A
  // lesson, which shows few panels as it is, is left to it.
  void setProjected(bool projected);

  // Between the two, all that is arranged belongs to a lesson; the second brings back what was there before.
  void lendToLesson();
  void takeBack();

 signals:
  void handedOver();  // to a lesson or a hall: what lies over the panels goes

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  QVariantMap now() const;
  QVariantMap arrangement() const;  // the same without the state of the panels
  void restoreArrangement(const QVariantMap& own);
  void applySizesSoon();
  void project();
  void projectLesson();
  void endProjection();
  QStringList shownDocks() const;  // of the workspace on the screen, after its name
  void fitScreen();
  QList<QDockWidget*> sideDocks() const;  // on the screen
  void learnWidths();
  void applyWidths();

  QMainWindow* window_;
  WorkspaceTabs* workspaces_;
  QTimer timer_;
  QMap<QDockWidget*, int> widths_;  // of the docks at the sides, as they were arranged
  bool arranged_ = false, lent_ = false, projected_ = false;
  QVariantMap saved_, own_;  // own_: the person's, while a lesson has the window
  QVariantMap before_;       // the hall; empty: the lesson on the screen is older than the projection
  QMap<QDockWidget*, int> widths_before_;
  QVariantMap before_of_lesson_;  // the projection, which began in it
  QStringList docks_of_lesson_;   // that it showed then
};

}  // namespace moescope
