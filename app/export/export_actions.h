// The entries of File > Export, the picture of the window, and Edit > Copy of a panel.
#pragma once

#include <QString>
#include <functional>
#include <string>
#include <vector>

#include "app/actions/actions.h"
#include "app/export/report.h"

namespace moescope {

class ProgressJob;
struct ReplayRun;

class ExportActions : public Actions {
  Q_OBJECT

 public:
  ExportActions(const Context& context, const ComparedRuns* compared);

  void addActionsTo(QMenu* file);
  void addCopyActionTo(QMenu* menu);

  ReportSource reportSource() const;
  void saveTimeline(const QString& path);  // saves the modelled timeline; throws std::runtime_error
  void saveReplay(const QString& path);    // saves a page that replays the open runs, in the background

 private:
  // Converts a recording to another format, with a progress that can be cancelled.
  using Exporter = bool (*)(const std::string& from, const std::string& to, const std::function<bool(double)>&);
  void exportRecording(const QString& title, const QString& filter, const QString& suffix, Exporter work);
  void exportEvents();
  void exportWeights();
  void exportReport();
  void exportReplay();
  void exportRecipes();
  void exportWorkspace();
  void exportTimeline();
  void savePictureOfWindow();
  void copyPanel();
  std::vector<ReplayRun> replayRuns() const;
  bool hasRuns();
  bool hasRecording();
  QString suggested(const QString& suffix) const;
  Panel* chosenPanel() const;
  void showEndOf(ProgressJob* job, const QString& path);

  const ComparedRuns* compared_;
};

}  // namespace moescope
