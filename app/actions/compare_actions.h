// Comparison: twins of run A that are trained beside it, in what the open runs differ, and which of them is active.
#pragma once

#include <QObject>

#include "core/config/run_config.h"

class QMenu;

namespace moescope {

class ComparedRuns;
class Messages;
class RunChips;
class RunSession;
class Selection;
class WorkspaceTabs;

class CompareActions : public QObject {
  Q_OBJECT

 public:
  CompareActions(RunSession* session, Selection* selection, ComparedRuns* compared, RunChips* chips,
                 WorkspaceTabs* workspaces, Messages* messages);

  void addActionsTo(QMenu* menu);
  void askForTwin(const QString& key);                             // with another value of it; empty: of any setting
  void addTwin(RunConfig twin);                                    // beside run A, and shows the comparison
  void addTwinWith(const QString& key, const ConfigValue& value);  // run A with one setting changed
  // What a twin will cost, in words for the dialog that asks for one.
  void setTwinCost(std::function<QString(const RunConfig&)> text) { twin_cost_ = std::move(text); }
  void showDifferences();  // of the open runs, in chips and panels
  void showChips();

 private:
  // Run A with the next seed, or the next perturbation, that no open run has.
  void addNoiseTwin();
  void addPerturbedTwin();
  void addNext(RunConfig (*next)(const RunConfig&));
  void removeRun(int place);
  void measureGradients(int every);

  RunSession* session_;
  Selection* selection_;
  ComparedRuns* compared_;
  RunChips* chips_;
  WorkspaceTabs* workspaces_;
  Messages* messages_;
  std::function<QString(const RunConfig&)> twin_cost_;
};

}  // namespace moescope
