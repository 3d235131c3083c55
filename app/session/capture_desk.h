// Captures operands of the open run for the Microscaling workspace: requests them from the lab and polls, without ever
// waiting. Operands of past steps, and of recordings, are recomputed by a copy of the run.
#pragma once

#include <QObject>
#include <QTimer>
#include <memory>

#include "core/training/recompute.h"
#include "widgets/selection/selection.h"

namespace moescope {

class RunSession;
class TensorLab;

class CaptureDesk : public QObject {
  Q_OBJECT

 public:
  CaptureDesk(RunSession* session, Selection* selection, TensorLab* lab, QObject* parent);

  // An operand of the run that is looked at; `step`: of the matrix from which it was chosen.
  void open(const OperandPlace& place, std::int64_t step);
  void again();
  void recompute(std::int64_t step);  // the same operand
  void save(const QString& path);     // the captured operand; throws std::runtime_error
  void refresh();                     // another run or recording is open

 signals:
  void shown();  // an operand is on its way: show where it will appear
  void saveRequested();

 private:
  void look();
  void lookAtRecompute();
  void startRecompute(std::int64_t step);
  const History& shownRun() const;
  RecomputePlan planOf(std::int64_t step) const;

  RunSession* session_;
  Selection* selection_;
  TensorLab* lab_;
  QTimer timer_;
  std::shared_ptr<const Capture> capture_;
  std::unique_ptr<Recompute> recompute_;
  OperandPlace place_;
  std::int64_t wanted_step_ = -1;
};

}  // namespace moescope
