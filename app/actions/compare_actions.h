// Comparison: twins of run A that are trained beside it, in what the open runs differ, and which of them is active.
#pragma once

#include <QElapsedTimer>
#include <QList>
#include <functional>
#include <vector>

#include "app/actions/actions.h"
#include "core/config/config_field.h"
#include "core/config/dense_twin.h"
#include "core/config/run_config.h"
#include "core/io/no_value.h"
#include "core/training/engine/live_status.h"

class QAction;
class QMenu;

namespace moescope {

class ComparedRuns;
class RunChips;

class CompareActions : public Actions {
  Q_OBJECT

 public:
  CompareActions(const Context& context, ComparedRuns* compared, RunChips* chips);

  void addActionsTo(QMenu* menu);
  void askForTwin(std::optional<Setting> setting);              // with another value of it, or of any setting
  void addTwin(RunConfig twin);                                 // beside run A, and shows the comparison
  void addTwinWith(Setting setting, const ConfigValue& value);  // run A with one setting changed
  // Beside run A, each from step 0.
  void addTwins(const std::vector<RunConfig>& twins);
  // What a twin will cost, in words for the dialog that asks for one.
  void setTwinCost(std::function<QString(const RunConfig&)> text) { twin_cost_ = std::move(text); }
  void setCandidatesCost(std::function<QString(const std::vector<RunConfig>&, std::int64_t steps)> text) {
    candidates_cost_ = std::move(text);
  }
  void showDifferences();  // of the open runs, in chips and panels
  void showChips();
  void showStatus(const LiveStatus& status);  // of the open runs, from time to time

 signals:
  // Run A and candidates that are more than can train beside it, for so many steps.
  void groupsRequested(const std::vector<moescope::RunConfig>& runs, qint64 steps);
  void stepsRequested(qint64 step);  // training of all open runs up to it

 private:
  // Run A with the next seed, or the next perturbation, that no open run has.
  void addNoiseTwin();
  void addPerturbedTwin();
  void addDenseTwin(DenseSize size);
  void addNext(RunConfig (*next)(const RunConfig&));
  void nameChoices();  // of the active run, by its letter
  void removeRun(int place);
  void measureGradients(int every);
  float secondsPerStep(const LiveStatus& status);

  ComparedRuns* compared_;
  RunChips* chips_;
  QList<QAction*> choices_;
  struct {
    QElapsedTimer since;  // the first of the steps that are measured
    std::int64_t first = -1, last = -1;
    std::size_t runs = 0;
    float seconds_per_step = kNoValue;
  } pace_;
  std::function<QString(const RunConfig&)> twin_cost_;
  std::function<QString(const std::vector<RunConfig>&, std::int64_t)> candidates_cost_;
};

}  // namespace moescope
