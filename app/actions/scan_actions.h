// Measures how much the format of each operand changes the gradient of a run or, of a checkpoint, its predictions, and
// what a checkpoint loses without each expert, for the panels that ask for it. A copy of the run or the checkpoint
// computes it in a thread of its own, so that neither training nor the screen waits.
#pragma once

#include <QTimer>
#include <functional>
#include <memory>
#include <string>

#include "app/actions/actions.h"
#include "app/session/checkpoint_scan.h"
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
  void startRemoval(int run, std::int64_t step);
  void begin(int run, const QString& what);
  void startScan(const std::function<std::unique_ptr<CheckpointScan>()>& scan, std::function<void()> done);
  void keep(const char* kind, std::int64_t step, const std::string& data);
  void showTwins(const std::shared_ptr<const MeasuredTwins>& measured);
  void showExperts(const std::shared_ptr<const MeasuredExperts>& measured);
  std::shared_ptr<const MeasuredTwins> recordedTwins() const;
  std::shared_ptr<const MeasuredExperts> recordedExperts() const;
  void stop(const QString& why);
  void look();
  void lookAtScan();
  void lookAtCheckpoint();
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
  std::function<void()> done_;  // shows and keeps what checkpoint_ has measured
};

}  // namespace moescope
