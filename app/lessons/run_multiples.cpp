#include "app/lessons/run_multiples.h"

#include <QDockWidget>
#include <QGridLayout>
#include <QScopedValueRollback>

#include "widgets/look/tokens.h"
#include "widgets/router/load_over_time_panel.h"

namespace moescope {

SelectionOfRun::SelectionOfRun(Selection* leader, int run, QObject* parent)
    : Selection(parent), leader_(leader), place_(run) {
  connect(leader_, &Selection::dataChanged, this, &SelectionOfRun::takeData);
  connect(leader_, &Selection::timeChanged, this, &SelectionOfRun::takeTime);
  connect(leader_, &Selection::focusChanged, this, &SelectionOfRun::takeFocus);
  connect(leader_, &Selection::hoverStepChanged, this, [this] { setHoverStep(leader_->hoverStep()); });
  connect(this, &Selection::timeChanged, this, &SelectionOfRun::giveTime);
  takeData();
}

void SelectionOfRun::takeData() {
  const QScopedValueRollback<bool> ours(syncing_, true);
  if (histories() != leader_->histories()) {
    setHistories(leader_->histories());
    setRun(place_);
  }
  setGrowing(leader_->growing());
  refresh();
  takeTime();
  takeFocus();
}

void SelectionOfRun::takeTime() {
  const QScopedValueRollback<bool> ours(syncing_, true);
  setRange(leader_->range());
  setStep(leader_->step());
  setFollowing(leader_->following());
}

void SelectionOfRun::giveTime() {
  if (syncing_) return;
  leader_->setRange(range());
  if (step() != leader_->step()) leader_->setStep(step());
}

void SelectionOfRun::takeFocus() {
  showLayer(leader_->layer());
  setExpert(leader_->expert());
}

void RunMultiples::show(QDockWidget* dock) {
  const int runs = static_cast<int>(selection_->histories().size());
  auto* one = qobject_cast<LoadOverTimePanel*>(dock->widget());
  if (!one && dock == dock_ && panels_.size() == runs) return;
  end();
  one = qobject_cast<LoadOverTimePanel*>(dock->widget());
  if (!one || runs < 2) return;
  auto* grid = new QWidget;
  auto* cells = new QGridLayout(grid);
  cells->setContentsMargins(0, 0, 0, 0);
  cells->setSpacing(kSpace4);
  for (int run = 0; run < runs; ++run) {
    auto* of_run = new SelectionOfRun(selection_, run, grid);
    auto* panel = new LoadOverTimePanel(of_run, grid);
    panel->restoreState(one->saveState());
    cells->addWidget(panel, run / 2, run % 2);
    panels_ << panel;
  }
  dock_ = dock;
  own_ = one;
  dock->setWidget(grid);
  own_->hide();
}

void RunMultiples::end() {
  if (!dock_ || !own_) return panels_.clear();
  QWidget* grid = dock_->widget();
  dock_->setWidget(own_);
  own_->show();
  panels_.clear();
  delete grid;
  dock_.clear();
}

}  // namespace moescope
