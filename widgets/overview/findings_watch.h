// The findings of the open runs, kept up to date in a worker thread and shared by all panels that show them.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QStringList>
#include <QTimer>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/findings/findings.h"
#include "core/findings/health.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/selection/selection.h"

namespace moescope {

class FindingsWatch : public QObject {
  Q_OBJECT

 public:
  static constexpr int kEveryMs = 1000;  // between two scans of a run in training

  FindingsWatch(Selection* selection, const ComparedRuns* runs, QObject* parent = nullptr);

  const std::vector<Finding>& findings() const { return findings_; }  // including muted ones
  const Health* health(int place) const;                              // of an open run; nullptr: not judged yet
  QString read() const { return read_.join(QStringLiteral("; ")); }   // which steps; of runs of different lengths each
  const QStringList& passed() const { return passed_; }               // checks, a sentence each
  const QStringList& notChecked() const { return not_checked_; }      // and what they need
  QString checksHtml() const;                                         // both lists
  bool ready() const { return ready_; }                               // the open runs were scanned at least once
  int placeOf(const Finding& finding) const;  // position of its run among the open ones; -1: no longer open

  void setMuted(const Finding& finding, bool muted);
  bool isMuted(const Finding& finding) const { return muted_.contains(finding_id(finding)); }
  int mutedCount() const;
  int count(Severity severity) const;  // not muted, and ongoing or a NaN loss
  int overCount() const;               // the others that are not muted
  QString text() const;                // for export: those that are not muted

 signals:
  void changed();

 private:
  struct Scans;
  struct Result {
    std::vector<Finding> findings;
    std::vector<Health> healths;  // of each run
    QStringList read, passed, not_checked;
  };
  void onData();
  void look();
  void deliver(const Result& result, const std::vector<HistoryPtr>& of);

  Selection* selection_;
  const ComparedRuns* runs_;
  std::vector<Finding> findings_;
  std::vector<Health> healths_;
  std::vector<HistoryPtr> judged_;  // whose healths these are
  QStringList read_, passed_, not_checked_;
  std::set<std::string> muted_;
  bool ready_ = false, busy_ = false, again_ = false;
  QElapsedTimer since_look_;
  QTimer timer_;
  std::shared_ptr<Scans> scans_;  // of the worker's thread
  LatestWorker worker_;
};

}  // namespace moescope
