// Measures how much the format of each operand changes the gradient of a run or, of a checkpoint, its predictions, and
// what a checkpoint loses without each expert, for the panels that ask for it. A copy of the run or the checkpoint
// computes it in a thread of its own, so that neither training nor the screen waits.
#pragma once

#include <QTimer>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/actions/actions.h"
#include "app/session/checkpoint_scan.h"
#include "core/frame/expert_scan.h"
#include "core/numerics/recipes.h"
#include "core/training/engine/recomputed_scan.h"

namespace moescope {

class ExpertPanel;
class OperandCostsPanel;
class SpecialisationPanel;
struct MeasuredExperts;
struct MeasuredTwins;

class ScanActions : public Actions {
  Q_OBJECT

 public:
  explicit ScanActions(const Context& context);

 private:
  void ask(int run, std::int64_t step);
  void start(int run, std::int64_t step);
  void startTwins(int run, Recipe recipe);
  void startRemoval(int run, std::vector<std::int64_t> steps);
  void begin(int run, const QString& what);
  using Found = std::function<void(std::size_t index)>;  // shows and keeps one of the figures of a CheckpointScan
  void startScan(const std::function<std::unique_ptr<CheckpointScan>()>& scan, Found found);
  void addExperts(std::int64_t step, const ExpertScan& scan);
  void keep(const char* kind, std::int64_t step, const std::string& data);
  void showTwins(const std::shared_ptr<const MeasuredTwins>& measured);
  void showExperts(std::shared_ptr<const MeasuredExperts> measured);
  std::shared_ptr<const MeasuredTwins> recordedTwins() const;
  std::shared_ptr<const MeasuredExperts> recordedExperts() const;
  void stop(const QString& why);
  void look();
  void lookAtScan();
  void lookAtCheckpoint();
  void takeFound();
  QString progressOfCheckpoint() const;
  void showProgress(const QString& progress);

  QList<OperandCostsPanel*> panels_;
  QList<SpecialisationPanel*> specialisation_;
  QList<ExpertPanel*> experts_;
  QTimer timer_;
  int place_ = 0;         // of the run that is measured
  QString run_, what_;    // its name, and what is measured: "Leaving out one expert at a time"
  bool removal_ = false;  // whether experts are left out, so that other panels show the progress
  // At most one of them measures.
  std::unique_ptr<RecomputedScan> scan_;
  std::unique_ptr<CheckpointScan> checkpoint_;
  Found found_;
  int taken_ = 0;  // scans of checkpoint_ that were shown
  std::shared_ptr<const MeasuredExperts> measured_;
};

}  // namespace moescope
