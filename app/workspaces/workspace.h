// A set of docks with its own layout: a window within the window. One workspace is shown at a time. While a log is
// shown that lacks what some panels show, these are folded into one line that says so. It gets no lower than its rows
// of panels can be read: in a window that is, it scrolls (workspace_tabs.cpp).
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

class FoldLine;
class HealthBanner;

class Workspace : public QMainWindow {
  Q_OBJECT

 public:
  Workspace(Selection* selection, const QString& name, QWidget* parent);

  // Says what a panel lacks in a run; empty: it has what it shows.
  using Missing = std::function<QString(const History&)>;

  const QString& name() const { return name_; }
  virtual void arrange() = 0;  // the default layout, all docks shown
  void arrangeAnew();          // the same, in place of the person's
  void applySizes();           // the person's shares of the room, else the default; once the layout contains the docks
  const QList<QDockWidget*>& docks() const { return docks_; }
  virtual QList<Panel*> panels() const;
  Panel* panel(const QString& object_name) const;  // nullptr: none

  // Layout and state of the panels, with those shown that are only folded. restore() returns false for another version,
  // and the default stays.
  QVariantMap remembered() const;
  QVariantMap arrangement() const;  // the same without the state of the panels
  bool restore(const QVariantMap& state);
  void project();   // for a hall: the essential docks alone, until the person's arrangement is restored
  void foldAnew();  // after all docks were arranged
  void openFinding(const QString& id);  // in the panel of findings; nothing without one
  void setVerdictHidden(bool hidden);   // and whatever else stands over the panels: a lesson asks for a prediction
  bool verdictShown() const { return !verdict_->isHidden(); }
  void bringIntoView(QDockWidget* dock);  // shown, in front of what shares its place, scrolled to

  // Ask for a file, save, and say so by saved() or failed().
  void askAndSavePicture(Panel* panel);
  void askAndSaveTable(Panel* panel);

  // Write what a panel shows; throw std::runtime_error when the file cannot be written.
  static void savePicture(QWidget* widget, const QString& path);
  static void saveTable(const Panel& panel, const QString& path);

 signals:
  void readoutChanged(QString text);
  void failed(QString message);
  void saved(QString path);
  void findingWanted(QString id);  // the verdict was clicked where no panel lists findings

 protected:
  QDockWidget* addDock(Panel* panel, const char* object_name);
  QDockWidget* addDock(QWidget* content, const QString& title, const char* object_name);
  QDockWidget* addFindings(FindingsWatch* watch, const char* object_name);  // its tab shows their number

  void showEvent(QShowEvent* event) override;
  bool event(QEvent* event) override;

  void addOverPanels(QWidget* widget);             // as wide as the workspace
  HealthBanner* addVerdict(FindingsWatch* watch);  // over the panels, in the same place of every workspace
  void foldWithout(QDockWidget* dock, Missing missing);
  // After some were folded; before they come back, if something was moved that no person has moved since.
  virtual bool useRoomOfFolded() { return false; }  // false: nothing was moved
  virtual void giveRoomBack() {}
  void keepRoom() { room_used_ = room_used_ && arranging_; }  // a person moved what had been moved there
  virtual void setDefaultSizes() = 0;
  virtual void hideWhatNeedsAChoice() {}                 // of a layout that was restored
  void setLeastRow(int height) { least_row_ = height; }  // of a row of panels, beside the usual type
  void makeColumnFor(const QDockWidget& dock, double width) { shares_.addColumn(dock, width); }
  // Alike among those that are shown.
  void shareRoom(const QList<QDockWidget*>& docks, Qt::Orientation along = Qt::Horizontal);
  void setEssential(const QList<QDockWidget*>& docks) { essential_ = docks; }  // at most four
  virtual void arrangeEssential();

  Selection* selection_;

 private:
  void addFoldLine();
  void showFoldLine(bool shown);
  void hideEmptyTabBars();
  void keepReadable();
  int rowsOfPanels() const;
  void foldEmpty();  // if other runs are shown, or this one has grown much
  void fold();
  void unfold();
  QList<QDockWidget*> emptyDocks(QStringList* lacking) const;
  void learnSoon(QDockWidget* dock);  // the shares of the room, once a dock that a person moved is in its place
  void learnShares();
  QList<QSize> sizesOfDocks() const;
  QList<QDockWidget*> shownDocks() const;
  QList<QDockWidget*> dockedEssential() const;
  void shareRoomOfEssential();
  QList<QAction*> panelActions(QDockWidget* dock, Panel* panel);

  QString name_;
  QList<QDockWidget*> docks_, essential_;
  struct Foldable {
    QDockWidget* dock;
    Missing missing;
  };
  QList<Foldable> foldable_;
  QList<QDockWidget*> folded_;
  bool projected_ = false;
  bool room_used_ = false;           // of those folded, by something that was moved there
  const History* looked_ = nullptr;  // whose panels were folded; only compared
  std::int64_t looked_steps_ = 0;    // that it had
  std::size_t looked_runs_ = 0;      // open then
  DockShares shares_;                // empty: the default sizes
  // What was restored, to the pixel: it holds while the same docks are shown at the same size.
  struct Exact {
    QByteArray layout;
    QSize size;
    QList<QDockWidget*> shown;
  };
  std::optional<Exact> exact_;
  QTimer settle_;
  QList<QSize> pressed_sizes_;
  bool arranging_ = false;  // what docks do now is not the person's wish
  QWidget* verdict_;        // holds what stands over the panels
  QVBoxLayout* over_panels_;
  FoldLine* lacks_;
  QToolBar* fold_bar_;
  bool shown_ = false;  // before
  int least_row_ = 185;
};

}  // namespace moescope
