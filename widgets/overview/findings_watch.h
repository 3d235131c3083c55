// The findings of the open runs, kept up to date in a worker thread and shared by all panels that show them.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QStringList>
#include <QTimer>
#include <map>
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

  FindingsWatch(Selection* selection, QObject* parent = nullptr);

  const std::vector<Finding>& findings() const { return result_.findings; }  // all findings, muted ones included
  const Health* health(int place) const;                        // verdict on an open run; nullptr: not judged yet
  QString read() const { return result_.read.join("; "); }      // the scanned steps of the runs; equal ranges once
  const QStringList& passed() const { return result_.passed; }  // passed checks, a sentence each
  // Checks that were not made, with the data that they need.
  const QStringList& notChecked() const { return result_.not_checked; }
  QString checksHtml() const;                                  // both lists of checks as rich text
  bool ready() const { return ready_; }                        // whether the open runs were scanned at least once
  std::int64_t lastStep() const { return result_.last_step; }  // last scanned step of the first run; -1: no run
  int placeOf(const Finding& finding) const;                   // place of the finding's run; -1: it is no longer open
  QString lettersOf(const Finding& finding) const;             // of all runs that have it; empty: one run is open

  void setMuted(const Finding& finding, bool muted);
  bool isMuted(const Finding& finding) const { return muted_.contains(finding_id(finding)); }
  int mutedCount() const;
  int count(Severity severity, int place = -1) const;  // counted findings that are not muted, of one run or of all
  int pastCount() const;                               // number of other findings that are not muted
  QString text() const;                                // text of the findings that are not muted, for export

 signals:
  void changed();

 private:
  struct Result {
    std::vector<HistoryPtr> judged;
    std::vector<Finding> findings = {};
    std::vector<Health> healths = {};  // verdict on each run
    QStringList read = {}, passed = {}, not_checked = {};
    std::int64_t last_step = -1;
  };
  void onData();
  void look();
  void deliver(const Result& result);

  Selection* selection_;
  Result result_;
  std::set<std::string> muted_;
  bool ready_ = false, busy_ = false, has_newer_data_ = false;
  QElapsedTimer since_look_;
  QTimer timer_;
  std::map<HistoryPtr, FindingsScan> scans_;  // used only in the worker's thread
  LatestWorker worker_;
};

}  // namespace moescope
