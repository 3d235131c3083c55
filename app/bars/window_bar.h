// The bar of the window: menu, workspaces, open runs, controls of the run, live settings and set-up. Controls that the
// open run cannot use are hidden. In a narrow window the word of the search and the names of runs are hidden first; no
// text is cut.
#pragma once

#include <QToolBar>
#include <optional>

#include "core/training/engine/live_status.h"

class QAction;
class QComboBox;
class QTabBar;
class QToolButton;

namespace moescope {

class LivePopover;
class PacePopover;
class RunChips;
class StepButton;

class WindowBar : public QToolBar {
  Q_OBJECT

 public:
  explicit WindowBar(QTabBar* workspaces, QWidget* parent = nullptr);

  QAction* runAction() const { return run_; }
  QAction* stepAction() const { return step_; }
  QAction* resetAction() const { return reset_; }
  QAction* liveAction() const { return live_; }
  QAction* setupAction() const { return setup_; }
  QAction* searchAction() const { return search_; }
  RunChips* chips() const { return chips_; }
  LivePopover* live() const { return live_popover_; }
  PacePopover* pace() const { return pace_; }
  void setMenu(QMenu* menu);
  void openMenu();
  void openLive();

  enum class Open { nothing, training, recording, following };  // following: the log of another program
  // `scheduled`: number of steps in the schedule of a run in training.
  void showOpen(Open open, std::int64_t scheduled = 0);
  // Shows the state of the replay of a recording. `word`: the word for a step.
  void showReplay(bool playing, std::int64_t step, const QString& word);
  void showStatus(const LiveStatus& status);  // shows the state of a run in training
  void showUntil(std::optional<qint64> step);

  QSize minimumSizeHint() const override;

 signals:
  void runRequested(bool run);

 protected:
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void makeActions();
  void makeLayout();
  void takeTabs(QTabBar* tabs);
  QToolButton* addButton(QAction* action, bool words);
  QWidget* addLine();  // adds a separator line between two groups of controls
  void drawPictures();
  void setRunning(bool running);
  void showChips();
  void fit();
  void setNarrowness(int level);

  QWidget* content_;
  QToolButton *menu_, *live_button_, *setup_button_, *search_button_;
  QTabBar* tabs_;
  QComboBox* tab_list_;
  RunChips* chips_;
  QAction *run_, *step_, *reset_, *live_, *setup_, *search_;
  QList<QWidget*> run_parts_, training_parts_;  // widgets shown only with open runs, and only with a run in training
  StepButton* count_;
  PacePopover* pace_;
  LivePopover* live_popover_;
  Open open_ = Open::following;
  std::int64_t scheduled_ = 0;
  std::optional<std::int64_t> until_;
  bool running_ = false;
  bool is_done_ = false;  // all steps of the schedule are trained: keys of the run are off
};

}  // namespace moescope
