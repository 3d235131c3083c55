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
  static constexpr int kEveryMs = 1000;  // pause between two scans of a run in training

  FindingsWatch(Selection* selection, const ComparedRuns* runs, QObject* parent = nullptr);

  const std::vector<Finding>& findings() const { return findings_; }  // all findings, muted ones included
  const Health* health(int place) const;                              // verdict on an open run; nullptr: not judged yet
  QString read() const {
    return read_.join(QStringLiteral("; "));
  }                                                      // the scanned steps; of runs of different lengths each
  const QStringList& passed() const { return passed_; }  // passed checks, a sentence each
  const QStringList& notChecked() const {
    return not_checked_;
  }                                                     // checks that were not made, and the data that they need
  QString checksHtml() const;                           // both lists of checks as rich text
  bool ready() const { return ready_; }                 // whether the open runs were scanned at least once
  std::int64_t lastStep() const { return last_step_; }  // last step of the first run that was scanned; -1: none
  int placeOf(const Finding& finding) const;            // place of the finding's run; -1: it is no longer open

  void setMuted(const Finding& finding, bool muted);
  bool isMuted(const Finding& finding) const { return muted_.contains(finding_id(finding)); }
  int mutedCount() const;
  int count(Severity severity) const;  // number of counted findings that are not muted
  int overCount() const;               // number of other findings that are not muted
  QString text() const;                // text of the findings that are not muted, for export

 signals:
  void changed();

 private:
  struct Scans;
  struct Result {
    std::vector<Finding> findings;
    std::vector<Health> healths;  // verdict on each run
    QStringList read, passed, not_checked;
    std::int64_t last_step = -1;
  };
  void onData();
  void look();
  void deliver(const Result& result, const std::vector<HistoryPtr>& of);

  Selection* selection_;
  const ComparedRuns* runs_;
  std::vector<Finding> findings_;
  std::vector<Health> healths_;
  std::vector<HistoryPtr> judged_;  // runs that were judged
  QStringList read_, passed_, not_checked_;
  std::set<std::string> muted_;
  bool ready_ = false, busy_ = false, again_ = false;
  std::int64_t last_step_ = -1;
  QElapsedTimer since_look_;
  QTimer timer_;
  std::shared_ptr<Scans> scans_;  // scans of the worker's thread
  LatestWorker worker_;
};

}  // namespace moescope
