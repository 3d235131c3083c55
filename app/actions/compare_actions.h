// Comparison: twins of run A that are trained beside it, in what the open runs differ, and which of them is active.
#pragma once

#include <QObject>
#include <functional>
#include <vector>

#include "core/config/run_config.h"

class QMenu;

namespace moescope {

class ComparedRuns;
class FileActions;
class Messages;
class OutcomesDock;
class RunChips;
class RunSession;
class Selection;
class WorkspaceTabs;

class CompareActions : public QObject {
  Q_OBJECT

 public:
  CompareActions(RunSession* session, Selection* selection, ComparedRuns* compared, RunChips* chips,
                 WorkspaceTabs* workspaces, Messages* messages);
  // Where candidates train that are more than can train beside run A, and what opens their recordings.
  void setOutcomes(OutcomesDock* outcomes, FileActions* files);

  void addActionsTo(QMenu* menu);
  void askForTwin(const QString& key);                             // with another value of it; empty: of any setting
  void addTwin(RunConfig twin);                                    // beside run A, and shows the comparison
  void addTwinWith(const QString& key, const ConfigValue& value);  // run A with one setting changed
  // Beside run A, each from step 0.
  void addTwins(const std::vector<RunConfig>& twins);
  // Run A and its candidates, in groups one after the other, each for so many steps; what trains in the window pauses.
  void startGroups(std::vector<RunConfig> runs, qint64 steps);
  // What a twin will cost, in words for the dialog that asks for one.
  void setTwinCost(std::function<QString(const RunConfig&)> text) { twin_cost_ = std::move(text); }
  void setCandidatesCost(std::function<QString(const std::vector<RunConfig>&, std::int64_t steps)> text) {
    candidates_cost_ = std::move(text);
  }
  void showDifferences();  // of the open runs, in chips and panels
  void showChips();

 private:
  // Run A with the next seed, or the next perturbation, that no open run has.
  void addNoiseTwin();
  void addPerturbedTwin();
  void addNext(RunConfig (*next)(const RunConfig&));
  void removeRun(int place);
  void openCandidate(const QString& recording, const QString& run);
  void chooseAskedRun();
  void measureGradients(int every);

  RunSession* session_;
  Selection* selection_;
  ComparedRuns* compared_;
  RunChips* chips_;
  WorkspaceTabs* workspaces_;
  Messages* messages_;
  OutcomesDock* outcomes_ = nullptr;
  FileActions* files_ = nullptr;
  std::function<QString(const RunConfig&)> twin_cost_;
  std::function<QString(const std::vector<RunConfig>&, std::int64_t)> candidates_cost_;
  QString asked_recording_, asked_run_;  // that is being opened
};

}  // namespace moescope
