// A set of docks with its own layout, a window within the window. One workspace is shown at a time. Panels for which
// the shown log has no data are folded into one line that says so. If the window is too low for its rows of panels, the
// workspace scrolls (workspace_tabs.cpp).
#pragma once

#include <QDockWidget>
#include <QList>
#include <QMainWindow>
#include <QTimer>
#include <QVBoxLayout>
#include <QVariantMap>
#include <functional>
#include <optional>

#include "app/workspaces/dock_shares.h"
#include "widgets/overview/findings_panel.h"
#include "widgets/panel/panel.h"
#include "widgets/selection/selection.h"

class QToolBar;

namespace moescope {

class FittedLabel;
class HealthBanner;
class Messages;

class Workspace : public QMainWindow {
  Q_OBJECT

 public:
  Workspace(Selection* selection, const QString& name, QWidget* parent);

  // Says which data a panel lacks in a run; empty: none.
  using Missing = std::function<QString(const History&)>;

  const QString& name() const { return name_; }
  virtual void arrange() = 0;  // the default layout of docks that do not float, all shown
  void arrangeAnew();          // arranges the default layout in place of the user's
  void applySizes();  // applies the user's shares of the room, else the default; after the layout has placed the docks
  const QList<QDockWidget*>& docks() const { return docks_; }
  virtual QList<Panel*> panels() const;
  // nullptr: there is none.
  QDockWidget* dock(const QString& object_name) const;
  Panel* panel(const QString& object_name) const;

  // Layout and state of the panels; folded panels count as shown. restore() returns false for another version and keeps
  // the default.
  QVariantMap remembered() const;
  QVariantMap arrangement() const;  // layout without the state of the panels
  bool restore(const QVariantMap& state);
  void project();   // projector view: shows the essential docks alone until the user's layout is restored
  void foldAnew();  // call after all docks were arranged
  void openFinding(const QString& id);  // opens the finding in the panel of findings, if there is one
  // Hides the verdict and other widgets above the panels while a lesson asks for a prediction.
  void setVerdictHidden(bool hidden);
  bool verdictShown() const { return !verdict_->isHidden(); }
  void bringIntoView(QDockWidget* dock);  // shows the dock in front of its tabs and scrolls to it

  void setMessages(Messages* messages) { messages_ = messages; }
  // Ask for a file and save.
  void askAndSavePicture(Panel* panel);
  void askAndSaveTable(Panel* panel);

  // Write the picture or table of a panel. Throw std::runtime_error if the file cannot be written.
  static void savePicture(QWidget* widget, const QString& path);
  static void saveTable(const Panel& panel, const QString& path);

 signals:
  void readoutChanged(QString text);
  void findingWanted(QString id);  // the verdict was clicked in a workspace without findings

 protected:
  QDockWidget* addDock(Panel* panel, const char* object_name);
  QDockWidget* addDock(QWidget* content, const QString& title, const char* object_name);
  // Adds the panel of findings, whose tab shows their number.
  QDockWidget* addFindings(FindingsWatch* watch, const char* object_name);

  void showEvent(QShowEvent* event) override;
  bool event(QEvent* event) override;

  void addOverPanels(QWidget* widget);             // adds a widget above the panels, as wide as the workspace
  HealthBanner* addVerdict(FindingsWatch* watch);  // adds the verdict above the panels
  void foldWithout(QDockWidget* dock, Missing missing);
  // Called after panels were folded: moves others to their room. Before they are shown again, the room is freed unless
  // the user has moved something.
  virtual bool useRoomOfFolded() { return false; }  // returns whether something was moved
  virtual void giveRoomBack() {}
  virtual void setDefaultSizes() = 0;
  virtual void hideWhatNeedsAChoice() {}                 // hides panels that need a selection in a restored layout
  void setLeastRow(int height) { least_row_ = height; }  // least height of a row of panels, with the usual font size
  // Divides the room equally among the shown docks.
  void shareRoom(const QList<QDockWidget*>& docks, Qt::Orientation along = Qt::Horizontal);
  void setEssential(const QList<QDockWidget*>& docks) {
    essential_ = docks;
  }  // docks of the projector view, at most four
  virtual void arrangeEssential();

  Selection* selection_;

 private:
  void addFoldLine();
  void showFoldLine(bool shown);
  void tidyTabBars();
  void keepReadable();
  int rowsOfPanels() const;
  void foldEmpty();  // folds empty panels if other runs are shown or the run has grown much
  void fold();
  void unfold();
  QList<QDockWidget*> emptyDocks(QStringList* lacking) const;
  void learnShares();
  QList<QSize> sizesOfDocks() const;
  QList<QDockWidget*> shownDocks() const;
  QList<QDockWidget*> dockedEssential() const;
  void shareRoomOfEssential();
  QList<QAction*> panelActions(QDockWidget* dock, Panel* panel);

  QString name_;
  Messages* messages_ = nullptr;
  QList<QDockWidget*> docks_, essential_;
  struct Foldable {
    QDockWidget* dock;
    Missing missing;
  };
  QList<Foldable> foldable_;
  QList<QDockWidget*> folded_;
  bool projected_ = false;
  bool room_used_ = false;           // the room of folded panels is used by a moved dock
  const History* looked_ = nullptr;  // run for which panels were folded; only compared
  std::int64_t looked_steps_ = 0;    // its number of steps then
  std::size_t looked_runs_ = 0;      // number of open runs then
  DockShares shares_;                // shares of the user; empty: the default sizes
  // The restored sizes in pixels, valid while the same docks are shown at the same size of the window.
  struct Exact {
    QByteArray layout;
    QSize size;
    QList<QDockWidget*> shown;
  };
  std::optional<Exact> exact_;
  QTimer settle_;
  QList<QSize> pressed_sizes_;
  bool arranging_ = false;  // docks move by the program, not by the user
  QWidget* verdict_;        // holds the widgets above the panels
  QVBoxLayout* over_panels_;
  QFrame* lacks_;  // line with a link that shows the folded panels
  FittedLabel* lacking_;
  QToolBar* fold_bar_;
  bool shown_ = false;  // whether the workspace was shown before
  int least_row_ = 185;
};

}  // namespace moescope
