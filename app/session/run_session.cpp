#include "app/session/run_session.h"

#include <QFileInfo>
#include <condition_variable>
#include <mutex>
#include <new>
#include <stdexcept>

#include "core/config/config_difference.h"
#include "core/logs/file_kind.h"
#include "core/logs/runs/log_runs.h"
#include "core/logs/standard_input.h"
#include "core/recording/recording.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/engine/retrain.h"

namespace moescope {

namespace {

struct WatchedFile {
  std::string path;
  FileStamp stamp;
};

}  // namespace

struct RunSession::Opened : Open {
  QStringList too_many;  // names of the runs in the first file, if it holds more than can be open
  std::vector<WatchedFile> watched;
  std::vector<std::function<std::size_t()>> more;
  bool glanced = false;                  // only a sample was read
  std::optional<ImportAccount> refused;  // of a log from which no run could be read
  QString error;
};

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFollowMs = 200;       // between two checks of a growing file
constexpr int kTicksUntilRead = 10;  // ticks without new lines after which a follower has read its file to the end
// Least pause between two checks of a file, in multiples of the duration of the last check.
constexpr int kMinWatchPauses = 19;
constexpr std::chrono::milliseconds kWatchEvery{500};

std::vector<std::string> textsOf(const QStringList& list) {
  std::vector<std::string> texts;
  for (const QString& text : list) texts.push_back(text.toStdString());
  return texts;
}

// Returns the settings of all runs, or none if those of a run are not known, since then the runs cannot be compared.
std::vector<RunConfig> configsOf(const std::vector<std::shared_ptr<const History>>& histories) {
  std::vector<RunConfig> configs;
  for (const auto& history : histories) {
    const auto settings = history->settings_at_start();
    if (!settings->config()) return {};
    configs.push_back(*settings->config());
  }
  return configs;
}

}  // namespace

RunSession::RunSession(QObject* parent) : QObject(parent) {
  follow_timer_.setInterval(kFollowMs);
  connect(&follow_timer_, &QTimer::timeout, this, &RunSession::noticeFollowed);
  connect(this, &RunSession::grew, this, [this] { shows_new_ = can_grow_; });
  connect(this, &RunSession::growingEnded, this, [this] { shows_new_ = false; });
}

RunSession::~RunSession() {
  end();
}

void RunSession::end() {
  cancelled_ = true;
  newest_request_ = {};
  grower_ = {};
  if (opener_.joinable()) opener_.join();
  filler_ = {};
  follow_timer_.stop();
  followers_.clear();
  catching_up_.clear();
  open_.live.reset();
}

void RunSession::launch(const QString& what, std::shared_ptr<Opened> result, Work work) {
  emit openingStarted(what);
  if (!opening()) return startOpener(std::move(result), std::move(work));
  newest_request_ = [this, result = std::move(result), work = std::move(work)] { startOpener(result, work); };
  cancelled_ = true;
}

void RunSession::startOpener(std::shared_ptr<Opened> result, Work work) {
  cancelled_ = false;
  opener_ = std::thread([this, result = std::move(result), work = std::move(work)] {
    try {
      work(*result);
    } catch (const AmbiguousRouting& e) {  // of one of the files, "PATH: WHY"
      ImportAccount& account = result->refused.emplace();
      for (const QString& path : result->paths)
        if (account.path = path.toStdString(); std::string_view(e.what()).starts_with(account.path)) break;
      account.refusal = std::string_view(e.what()).substr(account.path.size() + 2);
      result->error = QString::fromUtf8(e.what());
    } catch (const RefusedLog& refused) {
      result->refused = refused.account;
      result->error = QString::fromUtf8(refused.what());
    } catch (const std::bad_alloc&) {
      result->error = "There is not enough memory for this.";
    } catch (const TooManyRuns& refused) {
      for (const std::string& name : refused.names) result->too_many << QString::fromStdString(name);
      result->error = QString::fromUtf8(refused.what());
    } catch (const std::exception& e) {
      result->error = QString::fromUtf8(e.what());
    }
    QMetaObject::invokeMethod(
        this, [this, result] { adopt(*result); }, Qt::QueuedConnection);
  });
}

void RunSession::start(std::vector<RunConfig> configs, const QString& recording_path) {
  if (open_.live) open_.live->pause();
  auto result = std::make_shared<Opened>();
  result->configs = std::move(configs);
  result->path = recording_path;
  launch("Building the model", result, [this](Opened& opened) {
    opened.live = std::make_unique<LiveRuns>(opened.configs, opened.path.toStdString(), [this] { return !cancelled_; });
    opened.histories = opened.live->histories();
  });
}

void RunSession::resume(const QString& checkpoints, const QString& recording_path, std::int64_t step) {
  if (open_.live) open_.live->pause();
  auto result = std::make_shared<Opened>();
  result->path = recording_path;
  launch("Reading the checkpoint", result, [this, checkpoints, step](Opened& opened) {
    std::vector<Trainer> trainers;
    for (const std::string& file : newest_checkpoint(checkpoints.toStdString(), step))
      trainers.push_back(Trainer::resume(file));
    for (const Trainer& trainer : trainers) opened.configs.push_back(trainer.config());
    opened.live =
        std::make_unique<LiveRuns>(std::move(trainers), opened.path.toStdString(), [this] { return !cancelled_; });
    opened.histories = opened.live->histories();
  });
}

void RunSession::open(const QStringList& paths, const QStringList& only, bool snapshot, const StatedLogs& stated) {
  if (paths.isEmpty()) return;
  auto result = std::make_shared<Opened>();
  result->paths = paths;
  result->only = only;
  result->snapshot = snapshot;
  result->stated = stated;
  QStringList names;
  for (const QString& path : result->paths) names << QFileInfo(path).fileName();
  result->path = result->paths.front();
  launch("Reading " + names.join(", "), result, [this](Opened& opened) {
    ImportOptions options;
    options.progress = [&](double share) {
      emit openingProgress(share);
      return !cancelled_.load();
    };
    const std::vector<std::string> files = textsOf(opened.paths);
    for (const std::string& file : files)
      if (file_kind(file) != FileKind::recording) opened.watched.push_back({file, stamp_of(file)});
    options.glance = true;
    options.only = textsOf(opened.only);
    OpenedRuns runs = open_runs(files, options, kMaxRuns, opened.stated);
    opened.glanced = runs.glanced;
    opened.histories.assign(runs.histories.begin(), runs.histories.end());
    opened.skipped = std::move(runs.skipped);
    opened.accounts = std::move(runs.accounts);
    for (const std::string& missing : runs.missing) opened.missing << QString::fromStdString(missing);
    opened.more = std::move(runs.more);
    opened.configs = configsOf(opened.histories);
  });
}

void RunSession::openStated(const QStringList& paths, const StatedLogs& stated) {
  const bool are_open = paths == open_.paths;
  open(paths, are_open ? open_.only : QStringList(), are_open && open_.snapshot, stated);
}

void RunSession::add(const QStringList& paths, bool snapshot) {
  if (followers_.empty()) return open(open_.paths + paths, open_.only, snapshot, open_.stated);
  for (const QString& path : paths) {
    followers_.push_back(std::make_unique<Follower>(path.toStdString(), to_int(open_.histories.size()), kMaxRuns));
    open_.paths << path;
  }
}

void RunSession::follow(const QStringList& paths) {
  if (paths.isEmpty()) return;
  if (opening()) {
    newest_request_ = [this, paths] { follow(paths); };
    cancelled_ = true;
    return;
  }
  std::vector<std::unique_ptr<Follower>> followers;
  try {
    for (const QString& path : paths)
      followers.push_back(std::make_unique<Follower>(path.toStdString(), to_int(followers.size()), kMaxRuns));
  } catch (const std::runtime_error& problem) {
    emit failed(QString::fromUtf8(problem.what()));
    return;
  }
  Opened files;
  for (const auto& follower : followers) files.paths << QString::fromStdString(follower->path());
  files.path = files.paths.front();
  files.reads_standard_input = paths.contains(kStandardInput);
  const std::unique_ptr<LiveRuns> old = take(files);
  followers_ = std::move(followers);
  follow_timer_.start();
  emit opened();
}

// Returns a function that reports once that an opened file has changed. Recordings report their new steps themselves.
std::function<std::size_t()> RunSession::watch(const Opened& result) {
  if (result.watched.empty()) return {};
  return [this, files = result.watched, histories = result.histories, next = Clock::now(),
          has_changed = false]() mutable {
    const auto start = Clock::now();
    if (has_changed || start < next) return std::size_t{0};
    has_changed = std::ranges::any_of(files, [](const WatchedFile& file) { return stamp_of(file.path) != file.stamp; });
    next = Clock::now() + std::max<Clock::duration>(kWatchEvery, kMinWatchPauses * (Clock::now() - start));
    if (!has_changed) return std::size_t{0};
    const auto follow_them = [this, histories] {
      if (open_.histories == histories) followOpened();  // else another run was opened meanwhile
    };
    QMetaObject::invokeMethod(this, follow_them, Qt::QueuedConnection);
    return std::size_t{0};
  };
}

// Starts to follow the opened files. The steps that were read stay on screen until the followers have read as many.
void RunSession::followOpened() {
  catching_up_.clear();
  for (const std::string& path : textsOf(open_.paths))
    catching_up_.push_back(std::make_unique<Follower>(path, to_int(catching_up_.size()), kMaxRuns, textsOf(open_.only),
                                                      open_.stated[path]));
  caught_up_sequence_ = 0;
  ticks_without_news_ = 0;
  follow_timer_.start();
}

// True if the followers have read as many steps as are shown, or have read nothing new for kTicksUntilRead ticks: a
// rewritten file may stay shorter than before.
bool RunSession::caughtUp(const std::vector<std::shared_ptr<const History>>& newer) {
  std::uint64_t sequence = 0;
  for (const auto& history : newer) sequence += history->sequence();
  ticks_without_news_ = std::exchange(caught_up_sequence_, sequence) == sequence ? ticks_without_news_ + 1 : 0;
  if (newer.empty()) return false;
  if (ticks_without_news_ >= kTicksUntilRead) return true;
  return std::ranges::equal(newer, open_.histories,
                            [](const auto& a, const auto& b) { return a->steps().last >= b->steps().last; });
}

// Adopts runs of followed files that started or restarted. New frames arrive without this function.
void RunSession::noticeFollowed() {
  std::vector<std::shared_ptr<const History>> followed;
  for (const auto& follower : catching_up_.empty() ? followers_ : catching_up_)
    for (const auto& history : follower->histories()) followed.push_back(history);
  if (followed.size() > kMaxRuns) followed.resize(kMaxRuns);
  if (!catching_up_.empty()) {
    if (!caughtUp(followed)) return;
    grower_ = {};
    can_grow_ = shows_new_ = false;
    open_.skipped.clear();  // the followers list the skipped lines
    followers_ = std::exchange(catching_up_, {});
  }
  if (followed == open_.histories || (followed.empty() && !open_.histories.empty())) return;
  open_.histories = std::move(followed);
  open_.configs = configsOf(open_.histories);
  emit runsChanged();
}

QString RunSession::followingText() const {
  QStringList texts;
  for (const auto& follower : followers_) {
    const QString name = QFileInfo(QString::fromStdString(follower->path())).fileName();
    const QString problem = QString::fromStdString(follower->problem());
    const BadLines lines = follower->bad();
    const qint64 bad = lines.count() - lines.in_part(), in_part = lines.in_part();
    QString text = problem.isEmpty() ? QString("following %1: %2").arg(name, QString::fromStdString(follower->amount()))
                                     : QString("waiting for %1 (%2)").arg(name, problem.toLower());
    if (bad > 0) text += QString(", %1 could not be read").arg(bad);
    if (in_part > 0) text += QString(", %1 could be read in part only").arg(in_part);
    if (const auto restarts = follower->restart_remarks(); !restarts.empty())
      text += ", " + QString::fromStdString(restarts.back());
    texts << text;
  }
  return texts.join("; ");
}

std::vector<ImportAccount> RunSession::accounts() const {
  if (followers_.empty()) return open_.accounts;
  std::vector<ImportAccount> accounts;
  for (const auto& follower : followers_)
    for (ImportAccount& account : follower->accounts()) accounts.push_back(std::move(account));
  return accounts;
}

std::vector<SkippedLines> RunSession::skipped() const {
  std::vector<SkippedLines> skipped = open_.skipped;
  for (const auto& follower : followers_)
    if (BadLines bad = follower->bad(); bad.count() > 0) skipped.push_back({follower->path(), std::move(bad)});
  return skipped;
}

// Reads the files completely and replaces the sample that is shown.
void RunSession::fill() {
  filling_ = 0;
  filler_ = std::jthread([this, files = textsOf(open_.paths), only = textsOf(open_.only), stated = open_.stated,
                          histories = open_.histories](const std::stop_token& stop) {
    ImportOptions options;
    options.only = only;
    options.progress = [&](double share) {
      filling_ = share;
      return !stop.stop_requested();
    };
    auto runs = std::make_shared<OpenedRuns>();
    try {
      *runs = open_runs(files, options, kMaxRuns, stated);
    } catch (const std::exception&) {  // the sample stays
    }
    QMetaObject::invokeMethod(
        this,
        [this, runs, histories] {
          if (open_.histories != histories) return;  // another run was opened meanwhile
          filler_ = {};
          if (!runs->histories.empty()) open_.histories.assign(runs->histories.begin(), runs->histories.end());
          emit runsChanged();
          if (!open_.snapshot) growWith(std::move(runs->more));
        },
        Qt::QueuedConnection);
  });
}

// Appends new steps in a thread, until other runs are opened or a source ends.
void RunSession::growWith(std::vector<std::function<std::size_t()>> more) {
  grower_ = {};
  if (more.empty()) return;
  grower_ = std::jthread([this, more = std::move(more)](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any alarm;
    while (!stop.stop_requested()) {
      try {
        std::size_t news = 0;
        for (const auto& read : more) news += read();
        if (news > 0) emit grew();
      } catch (const std::exception& e) {
        emit growingEnded(QString::fromUtf8(e.what()));
        return;
      }
      std::unique_lock lock(mutex);
      alarm.wait_for(lock, stop, std::chrono::milliseconds(kFollowMs), [] { return false; });
    }
  });
}

void RunSession::adopt(Opened& result) {
  opener_.join();
  if (newest_request_) return std::exchange(newest_request_, {})();
  if (!result.error.isEmpty() || cancelled_) {
    const bool means = result.refused && !cancelled_;
    const bool chooses = !result.too_many.isEmpty() && result.paths.size() == 1 && !cancelled_;
    emit failed(cancelled_ || chooses || means ? QString() : result.error);
    if (means) emit meaningWanted(result.paths, *result.refused, result.stated);
    if (chooses) emit tooManyRuns(result.path, result.too_many);
    return;
  }
  if (result.snapshot) {
    result.watched.clear();
    result.more.clear();
  }
  const auto watched = watch(result);
  const std::unique_ptr<LiveRuns> old = take(result);
  if (watched) result.more.push_back(watched);
  if (result.glanced) fill();
  emit opened();
  if (!result.glanced) growWith(std::move(result.more));
}

std::unique_ptr<LiveRuns> RunSession::take(Opened& result) {
  std::unique_ptr<LiveRuns> old = std::move(open_.live);
  follow_timer_.stop();
  followers_.clear();
  catching_up_.clear();
  filler_ = {};
  grower_ = {};
  open_ = std::move(static_cast<Open&>(result));
  can_grow_ = !result.more.empty();
  shows_new_ = false;
  return old;
}

std::vector<RunConfig> RunSession::configs() const {
  std::vector<RunConfig> configs;
  for (int place = 0; hasConfig() && place < to_int(open_.histories.size()); ++place) configs.push_back(config(place));
  return configs;
}

std::vector<std::string> RunSession::inputPaths() const {
  std::vector<std::string> inputs = {path().toStdString()};
  for (const QString& file : paths()) inputs.push_back(file.toStdString());
  for (const RunConfig& config : configs())
    for (const std::string& input : input_paths(config)) inputs.push_back(input);
  return inputs;
}

RunConfig RunSession::config(int place) const {
  if (open_.live) return open_.live->config(runAt(place));
  return open_.configs.empty() ? RunConfig{} : open_.configs[place];
}

QString RunSession::ask(const char* refusal, const std::function<void()>& act) {
  if (!open_.live) return refusal;
  try {
    act();
  } catch (const std::invalid_argument& refused) {
    return QString::fromUtf8(refused.what());
  }
  return {};
}

QString RunSession::change(const LiveChange& change) {
  return ask("only a model in training can be changed", [&] {
    open_.live->change(change);
    emit configChanged();
  });
}

QString RunSession::rewind(std::int64_t step) {
  return ask("only a model in training can be rewound", [&] {
    open_.live->rewind(step);
    emit configChanged();
  });
}

QString RunSession::addRun(const RunConfig& config) {
  return ask("a twin can be trained only beside a model in training", [&] {
    open_.live->add_run(config);
    catchUp(0);
  });
}

QString RunSession::branch(int place, std::int64_t step, const RunConfig& twin) {
  return ask("a twin can be trained only beside a model in training", [&] {
    std::vector<LiveChange> changes;
    for (const ConfigDifference& found : difference(config(place), twin))
      changes.push_back({runAt(place), found.setting, found.setting.field().get(twin)});
    open_.live->branch(runAt(place), step, changes);
    catchUp(step);
  });
}

QString RunSession::removeRun(int place) {
  const bool has_file_of_each = open_.paths.size() > 1 && open_.paths.size() == std::ssize(open_.histories);
  if (!open_.live && has_file_of_each) {
    QStringList other_paths = open_.paths;
    other_paths.removeAt(place);
    if (isFollowing())
      follow(other_paths);
    else
      open(other_paths, open_.only, open_.snapshot, open_.stated);
    return {};
  }
  return ask("only one of several open logs can be closed; the runs of one file stay together", [&] {
    open_.live->remove_run(runAt(place));
    noticeRuns();
  });
}

void RunSession::catchUp(std::int64_t from) {
  if (const LiveStatus status = open_.live->status(); !status.running && status.step > from)
    open_.live->run_until(status.step);
  noticeRuns();
}

// The runs of a recording have numbers in it. A log counts as one run.
std::optional<RecordedRun> RunSession::recordedRun(int place) const {
  for (const QString& path : open_.paths) {
    const std::string file = path.toStdString();
    if (file_kind(file) != FileKind::recording) {
      if (place-- == 0) return std::nullopt;
      continue;
    }
    const RecordingReader recording(file);
    const int runs = to_int(recording.runs().size());
    if (place < runs) return RecordedRun{file, recording.runs()[place].run};
    place -= runs;
  }
  return std::nullopt;
}

bool RunSession::isFinished() const {
  if (!open_.live) return false;
  const LiveStatus status = open_.live->status();
  return !status.running && status.step == config().optimizer.total_steps;
}

RecomputePlan RunSession::planOfStep(const History& run, const OperandPlace& place, std::int64_t step) const {
  if (open_.live)
    return plan_recompute(run, *open_.histories.front(), place, step,
                          open_.live->checkpoint_before(run.info().run, step));
  // Runs from several files each have their own batches.
  const bool several = open_.paths.size() > 1;
  return plan_recompute(run, several ? run : *open_.histories.front(), place, step, nullptr,
                        several ? std::string() : recorded_checkpoint(open_.path.toStdString(), run.info().name, step));
}

void RunSession::noticeRuns() {
  if (!open_.live) return;
  auto live_histories = open_.live->histories();
  if (live_histories == open_.histories) return;
  open_.histories = std::move(live_histories);
  emit runsChanged();
}

}  // namespace moescope
