// A set of docks with its own layout, which is a window within the window. One workspace is shown at a time. Panels for
// which the shown log has no data are folded into one line that names the missing data. If the window is too low for
// its rows of panels, the workspace scrolls (workspace_tabs.cpp).
#pragma once

#include <QDockWidget>
#include <QList>
#include <QMainWindow>
#include <QString>
#include <QTimer>
#include <QVBoxLayout>
#include <QVariantMap>
#include <functional>
#include <optional>

#include "core/recording/history/history.h"
#include "widgets/overview/findings_panel.h"
#include "widgets/panel/panel.h"
#include "widgets/selection/selection.h"

class QToolBar;

namespace moescope {

class HealthBanner;
class Messages;

// The shares of the window's width and height that the user gave each dock. They are applied again whenever the window
// changes its size, since Qt would shrink all docks alike and never restore them.
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

class Workspace : public QMainWindow {
  Q_OBJECT

 public:
  Workspace(Selection* selection, const QString& name, QWidget* parent);

  // Returns which data a panel lacks in a run; empty if it lacks none.
  using Missing = std::function<QString(const History&)>;

  const QString& name() const { return name_; }
  virtual void arrange() = 0;  // arranges the default layout of docks that do not float, and shows all docks
  void arrangeAnew();          // arranges the default layout in place of the user's
  // Shows only these docks, below one another. The first one gets `first_share` times the height of each other one.
  void stack(const QList<QDockWidget*>& docks, int first_share);
  void applySizes();  // applies the user's shares of the room, else the default; after the layout has placed the docks
  const QList<QDockWidget*>& docks() const { return docks_; }
  virtual QList<Panel*> panels() const;
  // Return nullptr if there is no such dock or panel.
  QDockWidget* dock(const QString& object_name) const;
  Panel* panel(const QString& object_name) const;

  // The layout and the state of the panels; folded panels count as shown. restore() keeps the default layout and
  // returns false if another version stored the state.
  QVariantMap remembered() const;
  QVariantMap arrangement() const;  // layout without the state of the panels
  bool restore(const QVariantMap& state);
  void project();   // projector view: shows the essential docks alone until the user's layout is restored
  void foldAnew();  // call after all docks were arranged
  virtual bool hasAnswer() const { return !all_empty_; }  // false if no panel has data for the open log or checkpoint
  void openFinding(const QString& id);                    // opens the finding in the panel of findings, if there is one
  // Hides the verdict and other widgets above the panels while a lesson asks for a prediction.
  void setVerdictHidden(bool hidden) { verdict_->setVisible(!hidden); }
  bool verdictShown() const { return !verdict_->isHidden(); }
  void bringIntoView(QDockWidget* dock);  // shows the dock in front of its tabs and scrolls to it

  void setMessages(Messages* messages) { messages_ = messages; }
  // Ask for a file and save the panel in it.
  void askAndSavePicture(Panel* panel);
  void askAndSaveTable(Panel* panel);

  // Write a picture of a widget (PNG) or the table of a panel. Throw std::runtime_error if the file cannot be written.
  static void savePicture(QWidget* widget, const QString& path);
  static void saveTable(const Panel& panel, const QString& path);

 signals:
  void readoutChanged(QString text);
  void findingWanted(QString id);  // the verdict was clicked in a workspace without a panel of findings
  void accountWanted();            // what was read from the log

 protected:
  QDockWidget* addDock(Panel* panel, const char* object_name);
  QDockWidget* addDock(QWidget* content, const QString& title, const char* object_name);
  // Adds the panel of findings, whose tab shows their number.
  QDockWidget* addFindings(FindingsWatch* watch, const char* object_name);

  void showEvent(QShowEvent* event) override;
  bool event(QEvent* event) override;

  void addOverPanels(QWidget* widget);             // adds a widget above the panels, as wide as the workspace
  HealthBanner* addVerdict(FindingsWatch* watch);  // adds the verdict above the panels
  // `folds_own_runs`: also for runs of this program, which else may have the data at their next step.
  void foldWithout(QDockWidget* dock, Missing missing, bool folds_own_runs = false);
  bool isFolded(QDockWidget* dock) const { return folded_.contains(dock); }
  // Called after panels were folded; may move other docks into their room and returns true if it did. giveRoomBack()
  // undoes this before the panels are shown again.
  virtual bool useRoomOfFolded() { return false; }
  virtual void giveRoomBack() {}
  virtual bool foldsWithoutRun() const { return false; }  // while no run is open, if another panel shows something
  virtual void setDefaultSizes() = 0;
  virtual void hideWhatNeedsAChoice() {}  // hides panels that need a selection in a restored layout
  // True if arrange() put all panels below one another. A restored layout sets it again.
  virtual bool isOneColumn() const { return false; }
  virtual void setOneColumn(bool /*one_column*/) {}
  void setLeastRow(int height) { least_row_ = height; }  // least height of a row of panels, with the usual font size
  // Divides the room equally among the shown docks.
  void shareRoom(const QList<QDockWidget*>& docks, Qt::Orientation along = Qt::Horizontal);
  // Sets the docks of the projector view, at most four.
  void setEssential(const QList<QDockWidget*>& docks) { essential_ = docks; }
  virtual void arrangeEssential();

  Selection* selection_;

 private:
  void addFoldLine();
  void tidyTabBars();
  void keepReadable();
  int rowsOfPanels() const;
  void foldEmpty();  // folds empty panels if other runs are shown or the number of steps has doubled
  void fold();
  void unfold();
  void toggleFolded();
  QList<QDockWidget*> emptyDocks(QStringList* missing_data);
  void learnShares();
  QList<QSize> sizesOfDocks() const;
  QList<QDockWidget*> shownDocks() const;
  QList<QDockWidget*> dockedEssential() const;
  void shareRoomOfEssential();
  QList<QAction*> panelActions(QDockWidget* dock, Panel* panel);

  QString name_;
  Messages* messages_ = nullptr;
  QList<QDockWidget*> docks_, essential_, stacked_;
  int first_share_ = 1;  // of stack()
  struct Foldable {
    QDockWidget* dock;
    Missing missing;
    bool folds_own_runs;
  };
  QList<Foldable> foldable_;
  QList<QDockWidget*> folded_;
  bool projected_ = false, all_empty_ = false;
  bool room_used_ = false;               // true: another dock was moved into the room of folded panels
  const History* folded_for_ = nullptr;  // run for which panels were folded; only compared, never dereferenced
  std::int64_t looked_steps_ = 0;        // number of its steps at that time
  std::size_t looked_runs_ = 0;          // number of open runs at that time
  DockShares shares_;                    // shares that the user set; empty: the default sizes
  // The restored sizes in pixels, valid as long as the same docks are shown and the window has the same size.
  struct Exact {
    QByteArray layout;
    QSize size;
    QList<QDockWidget*> shown;
  };
  std::optional<Exact> exact_;
  QTimer settle_;
  QList<QSize> pressed_sizes_;
  bool arranging_ = false;  // true: the program moves the docks, not the user
  QWidget* verdict_;        // holds the widgets above the panels
  QVBoxLayout* over_panels_;
  FittedLabel* missing_line_;
  QLabel* fold_link_;
  QLabel* read_;        // link to what was read from the log
  QToolBar* fold_bar_;  // the line that names the missing data, with a link that shows the folded panels
  bool shown_ = false;  // whether the workspace was shown before
  int least_row_ = 185;
};

// Which data that panels show is missing in a log. An empty text means that the data is there. For
// Workspace::foldWithout().
QString copiesMissing(const History& run);        // copies between ranks
QString loadsMissing(const History& run);         // tokens per expert
QString quantizationMissing(const History& run);  // statistics of quantized operands
QString textsMissing(const History& run, TextKind kind);

// Returns `what` unless one of the newest frames has router figures that `has` accepts. Looks at several frames, since
// a log may have some figures only on some steps.
QString routersMissing(const History& run, bool (*has)(const RouterFrame&), const char* what);

}  // namespace moescope
