// Measures which operand moves the gradient, for the panels that ask for it: a copy of the run does it in a thread of
// its own, so that neither training nor screen wait.
#pragma once

#include <QObject>
#include <QTimer>
#include <memory>

#include "core/training/recomputed_scan.h"

namespace moescope {

class OperandCostsPanel;
class RunSession;
class Selection;
class WorkspaceTabs;

class ScanActions : public QObject {
  Q_OBJECT

 public:
  ScanActions(RunSession* session, Selection* selection, WorkspaceTabs* workspaces, QWidget* window);

 private:
  void ask(int run, std::int64_t step);
  void start(int run, std::int64_t step);
  void stop(const QString& why);
  void look();

  RunSession* session_;
  Selection* selection_;
  QWidget* window_;
  QList<OperandCostsPanel*> panels_;
  QTimer timer_;
  QString run_;  // that is measured
  std::unique_ptr<RecomputedScan> scan_;
};

}  // namespace moescope
