// What is open in the window: a model in training, or a recording. Both are opened off the GUI thread. Who asks for
// another while one is being opened gets the other: the first is given up, and opened() or failed() is about the newest
// request alone.
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

#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/history/history.h"
#include "core/logs/follower.h"
#include "core/logs/open_runs.h"
#include "core/training/engine/live_runs.h"

namespace moescope {

class RunSession : public QObject {
  Q_OBJECT

 public:
  explicit RunSession(QObject* parent = nullptr);
  ~RunSession() override;
  void end();  // training within a step, whatever is read, and recordings

  // Replaces what is open once the new run is ready; on failure what was open stays, paused. With an empty recording
  // path the run is kept in memory only. Opens paused; the first of 1 to kMaxRuns configs is run A.
  void start(std::vector<RunConfig> configs, const QString& recording_path);
  // Resumes from the newest checkpoint of a folder at or before `step` (core/training/checkpoint_folder.h) into a new
  // recording.
  void resume(const QString& checkpoints, const QString& recording_path, std::int64_t step = INT64_MAX);
  // Files that hold runs (core/logs/file_kind.h), as runs A, B, ... Those that grow are followed from then on.
  // `routed`: what a file of routed experts does not say. `only`: of a file that holds several runs the names of those
  // to open.
  void open(const QStringList& paths, const RoutedShape& routed = {}, const QStringList& only = {});
  void openSnapshot(const QStringList& paths);  // as the files are now: new steps in them are not read
  // Follows logs that other programs are writing; waits for files that do not exist yet. Replaces what is open.
  void follow(const QStringList& paths);
  // Attaches to a training elsewhere that serves its frames (train --serve), from its first step on.
  void attach(const QString& address, const QString& token);
  void cancelOpening();
  bool opening() const { return opener_.joinable(); }

  bool isLive() const { return live_ != nullptr; }
  bool isFollowing() const { return !followers_.empty(); }
  bool isSnapshot() const { return snapshot_ && !live_; }  // of files whose new steps are not read
  // Whether new steps arrive by themselves: a recording that is still being written, or an attached training.
  bool canGrow() const { return can_grow_; }
  // New steps do arrive: it trains, is attached or followed, or has grown since it was opened.
  bool showsNewSteps() const { return live_ || !followers_.empty() || shows_new_; }
  // A large recording is first shown as a sample, while the rest is read in a thread: the share read, 0 to 1; -1:
  // nothing is being read.
  double fillingShare() const { return filler_.joinable() ? filling_.load() : -1; }
  QString followingText() const;  // "following run.jsonl: 120 lines", or what it is waiting for
  const QString& attachedTo() const { return attached_to_; }  // HOST:PORT; empty: not attached
  // Steps that were not trained here: a recording, another program's log, an attached training.
  bool showsLog() const { return !live_ && !histories_.empty(); }
  LiveRuns* live() const { return live_.get(); }       // nullptr: nothing in training
  const QString& path() const { return path_; }        // of the recording being written or shown; empty: memory only
  const QStringList& paths() const { return paths_; }  // all files that are shown; empty: a run in training
  const QStringList& missing() const { return missing_; }  // texts about recordings whose log was not copied along
  std::vector<SkippedLines> skipped() const;               // lines of these files that could not be read
  const std::vector<std::shared_ptr<const History>>& histories() const { return histories_; }

  // Settings of an open run: in training with every requested change, in a recording those at its start.
  RunConfig config(int place = 0) const;
  bool hasConfig() const { return live_ || !recorded_configs_.empty(); }
  int runAt(int place) const;  // RunInfo::run
  // These return why they were refused; empty: they were not.
  QString change(const LiveChange& change);
  QString addRun(const RunConfig& config);  // trains it up to where run A is, even while paused
  QString rewind(std::int64_t step);
  // Adds a twin of the run at `place` from a kept checkpoint, with the keys in which `twin` differs from the run's
  // config.
  QString branch(int place, std::int64_t step, const RunConfig& twin);
  QString removeRun(int place);
  void noticeRuns();  // checks whether training has closed a run by itself

 signals:
  void openingStarted(QString what);
  void openingProgress(double share);
  void opened();
  void failed(QString message);  // opening failed; what was open stays
  // Opening failed: a file of routed experts fits several shapes, and a person is asked which it has.
  void routedShapeWanted(QStringList paths, QString why);
  // Opening failed: a file holds more runs than can be open together, and a person is asked which to open.
  void tooManyRuns(QString path, QStringList names);
  void configChanged();
  void runsChanged();              // one was added or removed
  void grew();                     // a recording being written, or an attached training, has new steps
  void growingEnded(QString why);  // no more steps will come

 private:
  struct Opened;
  using Work = std::function<void(Opened&)>;
  void launch(const QString& what, std::shared_ptr<Opened> result, Work work);
  void startOpener(std::shared_ptr<Opened> result, Work work);
  void adopt(Opened& result);
  void growWith(std::vector<std::function<std::size_t()>> more);
  std::function<std::size_t()> watch(const Opened& result);
  void followOpened();
  void openFiles(const QStringList& paths, const RoutedShape& routed, const QStringList& only, bool snapshot);
  bool caughtUp(const std::vector<std::shared_ptr<const History>>& now);
  void noticeFollowed();
  void fill();
  void stopFilling();

  std::unique_ptr<LiveRuns> live_;
  std::vector<std::shared_ptr<const History>> histories_;
  std::vector<RunConfig> recorded_configs_;  // as many as there are histories, or none
  QString path_;
  QStringList paths_, only_;
  bool snapshot_ = false;
  std::vector<std::unique_ptr<Follower>> followers_;
  std::vector<std::unique_ptr<Follower>> catching_up_;  // with what is shown, of files that have grown
  std::uint64_t caught_up_sequence_ = 0;
  int ticks_without_news_ = 0;
  QTimer follow_timer_;
  std::vector<SkippedLines> skipped_;
  QStringList missing_;
  std::thread opener_, filler_;
  std::function<void()> newest_request_;  // waits for the opener to give up an earlier one; empty: there is none
  std::atomic<bool> cancelled_ = false, filling_cancelled_ = false;
  std::atomic<double> filling_ = 0;
  QString attached_to_;
  bool can_grow_ = false, shows_new_ = false;
  std::jthread grower_;  // appends to the histories what their sources bring
};

}  // namespace moescope
