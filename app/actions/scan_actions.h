// Measures how much the format of each operand changes the gradient of a run or, of a checkpoint, its predictions, for
// the panels that ask for it. A copy of the run or the checkpoint computes it in a thread of its own, so that neither
// training nor the screen waits.
#pragma once

#include <QTimer>
#include <memory>

#include "app/actions/actions.h"
#include "app/session/checkpoint_twins.h"
#include "core/training/engine/recomputed_scan.h"

namespace moescope {

class OperandCostsPanel;
struct MeasuredTwins;

class ScanActions : public Actions {
  Q_OBJECT

 public:
  explicit ScanActions(const Context& context);

 private:
  void ask(int run, std::int64_t step);
  void start(int run, std::int64_t step);
  void startTwins(int run, Recipe recipe);
  std::shared_ptr<const MeasuredTwins> recordedTwins() const;
  void stop(const QString& why);
  void look();
  void lookAtScan();
  void lookAtTwins();
  void showProgress(const QString& progress);

  QList<OperandCostsPanel*> panels_;
  QTimer timer_;
  QString run_;  // name of the run that is measured
  // At most one of them measures.
  std::unique_ptr<RecomputedScan> scan_;
  std::unique_ptr<CheckpointTwins> twins_;
};

}  // namespace moescope
