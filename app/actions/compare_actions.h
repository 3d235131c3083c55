// Actions on a comparison: adds twins of run A that train beside it, shows in which settings the open runs differ, and
// chooses the active run.
#pragma once

#include <QElapsedTimer>
#include <QList>
#include <span>
#include <vector>

#include "app/actions/actions.h"
#include "app/setup/compare_dialog.h"
#include "core/config/config_difference.h"
#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/files/text/no_value.h"
#include "core/findings/comparison/verdict.h"
#include "core/training/engine/live_status.h"

namespace moescope {

class RunChips;

class CompareActions : public Actions {
  Q_OBJECT

 public:
  CompareActions(const Context& context, ComparedRuns* compared, RunChips* chips);

  void addActionsTo(QMenu* menu);
  // Opens the dialog for a twin with another value of `setting`; nullopt: the user chooses the setting.
  void askForTwin(std::optional<Setting> setting);
  void addTwin(RunConfig twin);                                 // names the twin and adds it
  void addRun(const RunConfig& twin);                           // trains it beside run A and shows the comparison
  void addTwinWith(Setting setting, const ConfigValue& value);  // adds a copy of run A with one setting changed
  // Sets the function that describes costs in the dialog.
  void setCost(CompareDialog::CostText text) { cost_ = std::move(text); }
  void showDifferences();  // shows the differing settings of the open runs in chips and panels
  void showChips();
  // Called by the frame clock with the status of the open runs, and the step before which they pause.
  void showStatus(const LiveStatus& status, std::optional<qint64> end);

 signals:
  // Requests that run A and its candidates, which do not all fit beside it, train in groups, `steps` steps each.
  void groupsRequested(const std::vector<moescope::RunConfig>& runs, qint64 steps);
  void stepsRequested(qint64 step);                                   // requests that all open runs train up to `step`
  void startRequested(const std::vector<moescope::RunConfig>& runs);  // requests that these runs replace the open runs

 private:
  void addNoiseTwin() { addTwins(1, perturbed_twin); }
  // Adds `count` noise twins of run A, each the `next` one of which no equal run is open.
  void addTwins(int count, RunConfig (*next)(const RunConfig&));
  void addDenseTwin(DenseSize size);
  void fillMenu(QMenu* menu, std::optional<int> run = {});  // menu of all chips, or of one run's chip
  void openChipMenu(int run, QPoint at);
  void updateRunLetters();  // updates the letters of the runs in the entries that choose the active run
  void removeRun(int place);
  void addRemovalTo(QMenu* menu, int run);
  void measureGradients(int interval);
  float secondsPerStep(const LiveStatus& status);
  void trainNextSeed();
  void takeSeed();
  std::vector<int> candidatesOfA() const;
  void recordSeeds(std::span<const std::vector<Conclusion>> seeds);
  std::vector<std::vector<Conclusion>> recordedSeeds() const;

  ComparedRuns* compared_;
  RunChips* chips_;
  QList<QAction*> choices_;
  struct {
    QElapsedTimer timer;  // since the end of the first measured step
    std::int64_t first = -1, last = -1;
    std::size_t runs = 0;
    float seconds_per_step = kNoValue;
  } pace_;
  CompareDialog::CostText cost_;
  // The comparison with several seeds: the runs with the next seed, the conclusions with the seed that has ended, which
  // count once the next runs are open, and the number of seeds that wait.
  std::vector<RunConfig> next_seed_;
  std::vector<Conclusion> ended_seed_;
  int seeds_left_ = 0;
};

}  // namespace moescope
