// A report of the open runs as one self-contained HTML file: the result in words, figures as SVG, tables of figures and
// settings, findings, the cost on a cluster, and the changes during training. Figures cover the steps that the screen
// shows: those up to the cursor.
#pragma once

#include <QByteArray>
#include <QList>
#include <QString>
#include <vector>

#include "core/config/run_config.h"
#include "widgets/panel/panel.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/selection/selection.h"

namespace moescope {

class JudgedRuns;
class ThisImbalancePanel;

struct ReportSource {
  Selection* selection = nullptr;          // the active run is changed while the pictures are drawn, and restored
  const ComparedRuns* compared = nullptr;  // differing settings of the open runs and the noise twins
  JudgedRuns* judged = nullptr;            // verdicts, as the workspace Compare shows them
  std::vector<RunConfig> configs;          // settings of the open runs; empty: not known (imported logs)
  QString file;                            // name of the recording; empty: in memory only
  Panel* verdicts = nullptr;               // table of verdicts, of several runs
  QList<Panel*> panels_of_all_runs;        // panels that show all runs
  QList<Panel*> panels_of_one_run;         // panels that show the active run
  ThisImbalancePanel* cost = nullptr;      // of Cluster; its headline stands above the panels
  QList<Panel*> cluster_panels;
};

QByteArray report(const ReportSource& source);

}  // namespace moescope
