// The runs that are open in the window: runs in training, or runs from files. A thread opens them. A new request to
// open cancels the request before it, and opened() or failed() refers to the newest request.
#pragma once

#include <QObject>
#include <QString>
#include <QStringList>
#include <QTimer>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/logs/follower.h"
#include "core/logs/open_runs.h"
#include "core/recording/history/history.h"
#include "core/training/engine/live_runs.h"

namespace moescope {

struct RecomputePlan;

struct RecordedRun {
  std::string file;
  int run = 0;  // its number in the recording (RunInfo::run)
};

class RunSession : public QObject {
  Q_OBJECT

 public:
  explicit RunSession(QObject* parent = nullptr);
  ~RunSession() override;
  void end();  // ends training (within a step), reading and recordings

  // Replaces the open runs once the new ones are ready. On failure the open runs stay, paused. An empty recording path
  // keeps the run in memory only. The 1 to kMaxRuns runs start paused, the first as run A.
  void start(std::vector<RunConfig> configs, const QString& recording_path);
  // Resumes from the newest checkpoint of a folder at or before `step` into a new recording.
  void resume(const QString& checkpoints, const QString& recording_path, std::int64_t step = INT64_MAX);
  // Opens files with runs (core/logs/file_kind.h) as runs A, B, ..., and follows those that grow. `only`: names of the
  // runs to open, for a file with several runs. `snapshot`: the files are not followed.
  void open(const QStringList& paths, const QStringList& only = {}, bool snapshot = false,
            const StatedLogs& stated = {});
  // Opens files with runs beside the open logs and recordings, which keep what was stated about them. `snapshot`: none
  // of the files is followed.
  void add(const QStringList& paths, bool snapshot = false);
  void openStated(const QStringList& paths, const StatedLogs& stated);  // reads the logs with what is stated of each
  // Follows logs that other programs write, in place of the open runs. Waits for files that do not exist yet. "-" is
  // standard input.
  void follow(const QStringList& paths);
  void cancelOpening() {
    newest_request_ = {};
    cancelled_ = true;
  }
  bool opening() const { return opener_.joinable(); }

  bool isLive() const { return open_.live != nullptr; }
  bool isFollowing() const { return !followers_.empty(); }
  bool isSnapshot() const { return open_.snapshot && !open_.live; }  // whether the open files are not followed
  // True if new steps may arrive: a recording that is still being written is open.
  bool canGrow() const { return can_grow_; }
  // True if new steps do arrive: the runs train, are followed, or have grown since they were opened.
  bool showsNewSteps() const { return open_.live || !followers_.empty() || shows_new_; }
  bool isFinished() const;  // true if the runs trained here have paused at the end of their schedule
  // Share of a large recording that was read, 0 to 1; meanwhile a sample of it is shown. -1: nothing is being read.
  double fillingShare() const { return filler_.joinable() ? filling_.load() : -1; }
  bool readsStandardInput() const { return open_.reads_standard_input; }  // its copy cannot be opened again later
  QString followingText() const;  // "following run.jsonl: 120 lines", or the file it waits for
  // True if the open steps were not trained here: a recording or a log of another program is open.
  bool showsLog() const { return !open_.live && !open_.histories.empty(); }
  LiveRuns* live() const { return open_.live.get(); }  // nullptr: no run is in training
  const QString& path() const { return open_.path; }   // path of the written or shown recording; empty: in memory only
  const QStringList& paths() const { return open_.paths; }  // paths of all shown files; empty: runs in training
  // Files and folders that the open runs are read from, or are recorded in.
  std::vector<std::string> inputPaths() const;
  // Messages about recordings that were copied without their log.
  const QStringList& missing() const { return open_.missing; }
  std::vector<SkippedLines> skipped() const;    // unreadable lines of the shown files
  std::vector<ImportAccount> accounts() const;  // what was read from the logs of other programs
  const StatedLogs& stated() const { return open_.stated; }
  const std::vector<std::shared_ptr<const History>>& histories() const { return open_.histories; }

  // Settings of an open run: of a run in training with all requested changes, of a recording those at its start.
  RunConfig config(int place = 0) const;
  std::vector<RunConfig> configs() const;  // of all open runs; empty: not known
  bool hasConfig() const { return open_.live || !open_.configs.empty(); }
  // RunInfo::run
  int runAt(int place) const { return open_.histories[place]->info().run; }
  // Returns the file and the number of the run at `place`; nullopt if it is from a log or in training. Throws
  // std::runtime_error if a file cannot be read.
  std::optional<RecordedRun> recordedRun(int place) const;
  // Returns the plan to recompute a step of one of the histories, from checkpoints of the training or the recording and
  // on the batches that the run read. Throws the exceptions of plan_recompute().
  RecomputePlan planOfStep(const History& run, const OperandPlace& place, std::int64_t step) const;
  // The following return why the request was refused; empty if it was accepted.
  QString change(const LiveChange& change);
  QString addRun(const RunConfig& config);  // trains the run up to run A's step, even while paused
  QString rewind(std::int64_t step);
  // Adds a twin of the run at `place` that starts from a kept checkpoint. The twin gets the keys in which `twin`
  // differs from the run's config.
  QString branch(int place, std::int64_t step, const RunConfig& twin);
  QString removeRun(int place);  // or closes the log
  void noticeRuns();             // checks whether the training thread has closed a run

 signals:
  void openingStarted(QString what);
  void openingProgress(double share);
  void opened();
  void failed(QString message);  // opening failed; the earlier runs stay open
  // Opening failed: no run could be read from a log; the user is asked what its names mean.
  void meaningWanted(QStringList paths, ImportAccount account, StatedLogs stated);
  // Opening failed: a file holds more runs than can be open together, and the user is asked which to open.
  void tooManyRuns(QString path, QStringList names);
  void configChanged();
  void runsChanged();                 // a run was added or removed, or its history was replaced by a complete one
  void grew();                        // a growing recording has new steps
  void growingEnded(QString reason);  // no more steps will come

 private:
  struct Open {
    std::unique_ptr<LiveRuns> live;
    std::vector<std::shared_ptr<const History>> histories;
    std::vector<RunConfig> configs;  // one for each history, or empty
    std::vector<SkippedLines> skipped;
    std::vector<ImportAccount> accounts;
    QString path;
    QStringList paths, only, missing;
    StatedLogs stated;
    bool snapshot = false;  // true: the files are not followed
    bool reads_standard_input = false;
  };
  struct Opened;
  using Work = std::function<void(Opened&)>;
  void launch(const QString& what, std::shared_ptr<Opened> result, Work work);
  void startOpener(std::shared_ptr<Opened> result, Work work);
  void adopt(Opened& result);
  std::unique_ptr<LiveRuns> take(Opened& result);  // replaces the open runs; returns the training that was open
  // Calls `act` on the runs in training. Returns why it was refused, `refusal` if nothing trains; empty: it was done.
  QString ask(const char* refusal, const std::function<void()>& act);
  void catchUp(std::int64_t from);  // if training is paused, trains new runs from step `from` up to its step
  void growWith(std::vector<std::function<std::size_t()>> more);
  std::function<std::size_t()> watch(const Opened& result);
  void followOpened();
  bool caughtUp(const std::vector<std::shared_ptr<const History>>& histories);
  void noticeFollowed();
  void fill();

  Open open_;
  std::vector<std::unique_ptr<Follower>> followers_;
  // Followers of files that have grown, until they have read as much as is shown.
  std::vector<std::unique_ptr<Follower>> catching_up_;
  std::uint64_t caught_up_sequence_ = 0;
  int ticks_without_news_ = 0;
  QTimer follow_timer_;
  std::thread opener_;
  std::function<void()> newest_request_;  // starts the newest request, after the opener has cancelled the earlier one
  std::atomic<bool> cancelled_ = false;
  std::atomic<double> filling_ = 0;
  bool can_grow_ = false, shows_new_ = false;
  std::jthread filler_;  // reads the files completely while a sample is shown
  std::jthread grower_;  // appends new steps of the sources to the histories
};

}  // namespace moescope
