// What is open in the window: a model in training, or a recording. Opening either takes place off the GUI thread.
#pragma once

#include <QObject>
#include <QString>
#include <QStringList>
#include <QTimer>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/config/run_config.h"
#include "core/files/open_runs.h"
#include "core/telemetry/history/history.h"
#include "core/telemetry/logs/log_follower.h"
#include "core/training/lab.h"

namespace moescope {

class RunSession : public QObject {
  Q_OBJECT

 public:
  explicit RunSession(QObject* parent = nullptr);
  ~RunSession() override;  // ends training within a step

  // Replaces what is open once the new run stands; on failure what was open stays, paused. An empty recording path
  // keeps the run in memory only.
  // Opens paused; the first of 1 to kMaxRuns configs is run A.
  void start(std::vector<RunConfig> configs, const QString& recording_path);
  // Goes on from the newest checkpoint of a folder at or before `step` (core/training/checkpoint_folder.h) into a
  // recording of its own.
  void resume(const QString& checkpoints, const QString& recording_path, std::int64_t step = INT64_MAX);
  void open(const QStringList& paths);  // files that hold runs (core/files/file_kind.h), as runs A, B, ...
  // Shows what other programs log while they do; files that do not exist yet are waited for. Replaces what is open.
  void follow(const QStringList& paths);
  // Looks on at a training elsewhere that serves its frames (train --serve), from its first step on.
  void attach(const QString& address, const QString& token);
  void cancelOpening();
  bool opening() const { return opener_.joinable(); }

  bool isLive() const { return lab_ != nullptr; }
  bool isFollowing() const { return !followers_.empty(); }
  // What is open brings its new steps by itself: a recording that may still be written, a training looked on at.
  bool canGrow() const { return can_grow_; }
  // A large recording shows at once what a glance finds, while the rest is read beside the window: 0 to 1; -1: nothing
  // is being read.
  double fillingShare() const { return filler_.joinable() ? filling_.load() : -1; }
  QString followingText() const;                              // "following run.jsonl: 120 lines"; or what it waits for
  const QString& attachedTo() const { return attached_to_; }  // HOST:PORT; empty: to nothing
  bool isRecording() const { return !lab_ && !histories_.empty(); }
  Lab* lab() const { return lab_.get(); }        // nullptr: nothing in training
  const QString& path() const { return path_; }  // of the recording written or of what is shown; empty: memory only
  const QStringList& paths() const { return paths_; }      // all files that are shown; empty: a run in training
  const QStringList& missing() const { return missing_; }  // of recordings whose log was not copied along, in words
  std::vector<SkippedLines> skipped() const;               // what these had that could not be read
  const std::vector<std::shared_ptr<const History>>& histories() const { return histories_; }

  // Settings of an open run: in training with every change that was asked for, of a recording as it started.
  RunConfig config(int place = 0) const;
  bool hasConfig() const { return lab_ || !recorded_configs_.empty(); }
  int runAt(int place) const;  // RunInfo::run
  // These return why they were refused, empty: they were not.
  QString change(const LiveChange& change);
  QString addRun(const RunConfig& config);  // trains it up to where run A is, even while paused
  QString rewind(std::int64_t step);
  // A twin of the run at `place` from a kept checkpoint on, with the keys in which `config` differs from the run's.
  QString branch(int place, std::int64_t step, const RunConfig& twin);
  QString removeRun(int place);
  void noticeRuns();  // looks whether the lab gave up a run by itself

 signals:
  void openingStarted(QString what);
  void openingProgress(double share);
  void opened();
  void failed(QString message);  // opening ended without anything new
  void configChanged();
  void runsChanged();              // one was added or removed
  void grew();                     // a recording that is still written, or a training looked on at, brought steps
  void growingEnded(QString why);  // no more will come

 private:
  struct Opened;
  void launch(std::shared_ptr<Opened> result, std::function<void(Opened&)> work);
  void adopt(Opened& result);
  void growWith(std::vector<std::function<std::size_t()>> more);
  void noticeFollowed();
  void fill();
  void stopFilling();

  std::unique_ptr<Lab> lab_;
  std::vector<std::shared_ptr<const History>> histories_;
  std::vector<RunConfig> recorded_configs_;  // as many as there are histories, or none
  QString path_;
  QStringList paths_;
  std::vector<std::unique_ptr<LogFollower>> followers_;
  QTimer follow_timer_;
  std::vector<SkippedLines> skipped_;
  QStringList missing_;
  std::thread opener_, filler_;
  std::atomic<bool> cancelled_ = false, filling_cancelled_ = false;
  std::atomic<double> filling_ = 0;
  QString attached_to_;
  bool can_grow_ = false;
  std::jthread grower_;  // appends to the histories what their sources bring
};

}  // namespace moescope
