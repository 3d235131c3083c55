#include "app/actions/compare_actions.h"

#include <QAction>
#include <QMenu>
#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "app/bars/run_chips.h"
#include "app/session/run_session.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/config/config_check.h"
#include "core/findings/comparison/regression_gate.h"
#include "core/findings/comparison/same_settings.h"
#include "core/findings/comparison/verdict.h"
#include "core/frame/frame.h"
#include "widgets/compare/gradient_error_panel.h"
#include "widgets/compare/judged_runs.h"
#include "widgets/compare/verdict_strip.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

namespace {

constexpr std::int64_t kPaceSteps = 20;

QString settingsText(const std::vector<ConfigDifference>& differences) {
  QStringList texts;
  for (const ConfigDifference& found : differences)
    texts << QString::fromStdString(found.setting.key() + " " + found.b);
  return texts.join(", ");
}

std::vector<ComparedRun> comparedConfigs(const std::vector<RunConfig>& configs,
                                         const std::vector<HistoryPtr>& histories) {
  std::vector<ComparedRun> compared;
  for (const RunConfig& config : configs) {
    ComparedRun run;
    run.noise_twin = !compared.empty() && is_noise_twin(configs.front(), config);
    if (run.noise_twin) {
      const History& history = *histories[compared.size()];
      const std::int64_t until = same_changes_until(*histories.front(), history);
      if (until < history.steps().last) run.twin_until = beginning_of(history, until);
    }
    run.same_start = same_start(configs.front(), config);
    for (const ConfigDifference& found : difference(configs.front(), config))
      run.settings.push_back({QString::fromStdString(found.setting.key()), QString::fromStdString(found.a),
                              QString::fromStdString(found.b)});
    compared.push_back(std::move(run));
  }
  return compared;
}

std::vector<RunConfig> withForcedBalance(std::vector<RunConfig> configs) {
  for (RunConfig& config : configs) {
    config.router.force_balance = true;
    config.router.replay = false;
  }
  return configs;
}

// True if the runs can train with forced balance, which they do not have yet.
bool canForceBalance(const std::vector<RunConfig>& configs) {
  const auto is_valid = [](const RunConfig& config) { return first_problem(config).empty(); };
  return !configs.front().router.force_balance && std::ranges::all_of(withForcedBalance(configs), is_valid);
}

// Returns the settings of each log, which its first lines state.
std::vector<ComparedRun> comparedLogs(const std::vector<HistoryPtr>& histories) {
  std::vector<ComparedRun> compared;
  std::map<std::string, std::string> first;
  for (const HistoryPtr& history : histories) {
    const LogSettings settings = history->settings_at_start()->log();
    ComparedRun run;
    if (compared.empty()) {
      first = settings;
    } else {
      for (const GateSetting& found : differing_settings(*history, std::span(histories).first(1))) {
        run.settings.push_back({QString::fromStdString(found.name), QString::fromStdString(found.good.front()),
                                QString::fromStdString(found.value)});
        run.same_start &= found.name != "seed";
      }
      // The settings of a checkpoint describe only its texts, so equal settings do not imply equal weights.
      const bool checkpoint = run_origin(history->info()) == RunOrigin::checkpoint;
      const auto until = checkpoint ? std::nullopt : same_settings_until(first, settings);
      run.noise_twin = until.has_value();
      if (until && *until < history->steps().last) run.twin_until = beginning_of(*history, *until);
    }
    compared.push_back(std::move(run));
  }
  return compared;
}

}  // namespace

CompareActions::CompareActions(const Context& context, ComparedRuns* compared, RunChips* chips)
    : Actions(context), compared_(compared), chips_(chips) {
  connect(chips_, &RunChips::activated, selection_, &Selection::setRun);
  connect(chips_, &RunChips::menuWanted, this, [this](QMenu* menu) { fillMenu(menu); });
  connect(chips_, &RunChips::chipMenuWanted, this, &CompareActions::openChipMenu);
  connect(workspaces_->compare()->gradientPanel(), &GradientErrorPanel::cadenceRequested, this,
          &CompareActions::measureGradients);
  connect(workspaces_->compare()->strip(), &VerdictStrip::twinRequested, this, &CompareActions::addNoiseTwin);
  connect(workspaces_->compare()->strip(), &VerdictStrip::runWanted, this, [this] {
    if (session_->isLive()) askForTwin({});
  });
  connect(workspaces_->compare()->strip(), &VerdictStrip::stepsRequested, this, &CompareActions::stepsRequested);
  connect(workspaces_->compare()->strip(), &VerdictStrip::forcedBalanceRequested, this,
          [this] { emit startRequested(withForcedBalance(session_->configs())); });
  connect(workspaces_->compare()->strip(), &VerdictStrip::seedsRequested, this, [this] {
    seeds_left_ = workspaces_->compare()->judged()->seedsToAdd();
    trainNextSeed();
  });
}

void CompareActions::addActionsTo(QMenu* menu) {
  QAction* twin = menu->addAction("&Compare with...", QKeySequence(Qt::Key_C), this, [this] { askForTwin({}); });
  twin->setWhatsThis("Compare with: train a twin with another setting beside run A");
  QAction* noise =
      menu->addAction("Add a &noise twin", QKeySequence("Ctrl+Shift+N"), this, &CompareActions::addNoiseTwin);
  noise->setWhatsThis("Add a noise twin: run A with its first weights changed in the last place");
  QAction* active =
      menu->addAction("Add a &dense twin, equal active weights", this, [this] { addDenseTwin(DenseSize::active); });
  active->setWhatsThis("Add a dense twin: no experts, as many weights as a token multiplies in run A");
  QAction* total =
      menu->addAction("Add a dense twin, equal &total weights", this, [this] { addDenseTwin(DenseSize::total); });
  total->setWhatsThis("Add a dense twin: no experts, as many weights as run A has");
  menu->addAction("Re&move or close the active run", this, [this] { removeRun(selection_->run()); })
      ->setWhatsThis("Remove the active run from the comparison: close an added log");
  offWithoutTraining(menu, {twin, noise, active, total});
  for (int run = 0; run < kMaxRuns; ++run) {
    auto* choose = new QAction(this);
    choose->setShortcut(QKeySequence(QString("Alt+%1").arg(run + 1)));
    connect(choose, &QAction::triggered, this, [this, run] { selection_->setRun(run); });
    menu->addAction(choose);
    choices_ << choose;
  }
  updateRunLetters();
}

void CompareActions::fillMenu(QMenu* menu, std::optional<int> chip) {
  menu->clear();
  const int runs = to_int(session_->histories().size());
  const bool room = runs < kMaxRuns;
  const int seeds = std::clamp(kMaxRuns - runs, 1, kSeedsAtOnce);
  menu->addAction("&Noise twin: run A with its weights perturbed", this, &CompareActions::addNoiseTwin)
      ->setEnabled(room);
  const QString times = seeds == 1 ? QString("once") : QString("%1 times").arg(seeds);
  menu->addAction(QString("Other &seeds: run A %1 more").arg(times), this,
                  [this, seeds] { addTwins(seeds, noise_twin); })
      ->setEnabled(room);
  QMenu* dense = menu->addMenu("&Dense twin: the model without experts");
  dense->setEnabled(room);
  dense->addAction("as many weights as a token &multiplies, about as many FLOPs", this,
                   [this] { addDenseTwin(DenseSize::active); });
  dense->addAction("as many weights &in all", this, [this] { addDenseTwin(DenseSize::total); });
  QMenu* formats = menu->addMenu("Experts in another number &format");
  formats->setEnabled(room);
  formats->setToolTipsVisible(true);
  const Setting recipe(&PrecisionConfig::experts);
  for (const std::string& choice : recipe.field().choices)
    if (choice != to_string(recipe.field().get(session_->config())))
      formats
          ->addAction(valueWords(QString::fromStdString(choice)), this,
                      [this, choice] { addTwinWith(&PrecisionConfig::experts, choice); })
          ->setToolTip(QString::fromStdString(choice));
  menu->addAction(room ? "Another &value of a setting..." : "Candidates that train in &groups...", this,
                  [this] { askForTwin({}); });
  if (!room) menu->addAction(QString("%1 runs are open: no room for a further one").arg(kMaxRuns))->setEnabled(false);
  if (runs < 2 || chip == 0) return;
  menu->addSeparator();
  for (int run = chip.value_or(1); run < chip.value_or(runs - 1) + 1; ++run) addRemovalTo(menu, run);
}

void CompareActions::addRemovalTo(QMenu* menu, int run) {
  const QString form = session_->isLive() ? QString("Remove run %1, %2") : QString("Close %1, %2");
  menu->addAction(form.arg(runLetter(*selection_, run), runName(*selection_, run)), this,
                  [this, run] { removeRun(run); });
}

void CompareActions::openChipMenu(int run, QPoint at) {
  auto* menu = new QMenu(chips_);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  if (session_->isLive())
    fillMenu(menu, run);
  else if (session_->histories().size() > 1)
    addRemovalTo(menu, run);
  auto* against = new QAction(QString("Compare the others with &%1").arg(runLetter(*selection_, run)), menu);
  connect(against, &QAction::triggered, this, [this, run] {
    workspaces_->compare()->judged()->setBaseline(run);
    workspaces_->bringUp(workspaces_->compare());
  });
  against->setEnabled(session_->histories().size() > 1 && !selection_->isNoiseTwin(run));
  menu->insertAction(menu->actions().value(0), against);
  menu->popup(at);
}

void CompareActions::updateRunLetters() {
  for (int run = 0; run < choices_.size(); ++run) {
    const QString letter = runLetter(*selection_, run);
    choices_[run]->setText("Run " + letter);
    choices_[run]->setVisible(run < std::ssize(selection_->histories()));
    choices_[run]->setWhatsThis("Make run " + letter + " the active one");
  }
}

void CompareActions::askForTwin(std::optional<Setting> setting) {
  if (!session_->isLive()) return messages_->warn("A twin trains only beside a model in training: start a run first.");
  auto* dialog =
      new CompareDialog(session_->config(), setting.value_or(&PrecisionConfig::experts), messages_->window());
  dialog->setRoom(kMaxRuns - to_int(session_->histories().size()));
  dialog->setCost(cost_);
  connect(dialog, &CompareDialog::twinRequested, this, &CompareActions::addTwin);
  connect(dialog, &CompareDialog::groupsRequested, this, &CompareActions::groupsRequested);
  dialog->open();
}

void CompareActions::addTwin(RunConfig twin) {
  if (const std::string problem = first_problem(twin); !problem.empty())
    return messages_->warn(QString::fromStdString(problem));
  if (session_->isLive()) twin.name = twin_name(session_->config(), twin);
  addRun(twin);
}

void CompareActions::addRun(const RunConfig& twin) {
  if (const QString refused = session_->addRun(twin); !refused.isEmpty()) return messages_->warn(refused);
  workspaces_->bringUp(workspaces_->compare());
}

void CompareActions::addTwinWith(Setting setting, const ConfigValue& value) {
  RunConfig twin = session_->config();
  setting.field().set(twin, value);
  if (difference(session_->config(), twin).empty())
    return messages_->warn("Run A has this value already: choose another one.");
  addTwin(twin);
}

void CompareActions::addDenseTwin(DenseSize size) {
  if (!session_->isLive()) return messages_->say(kNothingTrains, 6000);
  const RunConfig& first = session_->config();
  if (first.model.n_dense_layers == first.model.n_layers)
    return messages_->warn("All layers of run A are dense: it has no experts to leave out.");
  addTwin(dense_twin(first, size));
}

void CompareActions::addTwins(int count, RunConfig (*next)(const RunConfig&)) {
  if (!session_->isLive()) return messages_->say(kNothingTrains, 6000);
  RunConfig twin = session_->config();
  const auto is_open = [&] {
    return std::ranges::any_of(session_->configs(),
                               [&](const RunConfig& open) { return difference(open, twin).empty(); });
  };
  for (int added = 0; added < count; ++added) {
    while (is_open()) twin = next(twin);
    addTwin(twin);
  }
}

void CompareActions::removeRun(int place) {
  if (place == 0 && session_->isLive())
    return messages_->say("Run A cannot be removed: the other runs are compared with it", 6000);
  if (const QString refused = session_->removeRun(place); !refused.isEmpty()) messages_->warn(refused);
}

// Changes the interval of all open runs, so that their gradients can be compared. The changes are not put on the undo
// stack: undoing one click would take one undo per run.
void CompareActions::measureGradients(int interval) {
  for (int place = 0; place < to_int(session_->histories().size()); ++place) {
    const QString refused = session_->change(
        {.run = session_->runAt(place), .setting = &TelemetryConfig::gradient_every, .value = std::int64_t{interval}});
    if (!refused.isEmpty()) return messages_->warn(refused);
  }
  messages_->say(QString("Gradients are compared with FP32 every %1 steps").arg(interval));
}

// Starts all open runs again with the next seed.
void CompareActions::trainNextSeed() {
  --seeds_left_;
  ended_seed_ = workspaces_->compare()->judged()->openSeed();
  next_seed_ = session_->configs();
  for (RunConfig& config : next_seed_) ++config.seed;
  emit startRequested(next_seed_);
  messages_->say(QString("The runs train again from step 0 with seed %1; the recording of the seed before is kept")
                     .arg(next_seed_.front().seed),
                 8000);
}

// Keeps the conclusions of the seed that has ended once the runs with the next one are open; other runs end the series.
void CompareActions::takeSeed() {
  JudgedRuns* judged = workspaces_->compare()->judged();
  const auto is_equal = [](const RunConfig& a, const RunConfig& b) { return difference(a, b).empty(); };
  auto seeds = judged->seeds();
  if (!session_->isLive() || !std::ranges::equal(session_->configs(), next_seed_, is_equal)) {
    seeds = recordedSeeds();
    ended_seed_.clear();
    seeds_left_ = 0;
  } else if (!ended_seed_.empty()) {
    seeds.push_back(std::exchange(ended_seed_, {}));
    recordSeeds(seeds);
  }
  judged->setSeeds(std::move(seeds), seeds_left_);
}

std::vector<int> CompareActions::candidatesOfA() const {
  std::vector<int> places;
  for (int place = 1; place < std::ssize(session_->histories()); ++place)
    if (!selection_->isNoiseTwin(place)) places.push_back(place);
  return places;
}

// Keeps the gaps of the earlier seeds in the recording of the next one, which then shows the mean when it is opened.
void CompareActions::recordSeeds(std::span<const std::vector<Conclusion>> seeds) {
  const std::vector<int> places = candidatesOfA();
  for (std::size_t i = 0; i < places.size() && workspaces_->compare()->judged()->baseline() == 0; ++i) {
    std::vector<Conclusion> seed_conclusions;
    for (const std::vector<Conclusion>& seed : seeds)
      if (i < seed.size()) seed_conclusions.push_back(seed[i]);
    if (!seed_conclusions.empty())
      session_->live()->pin({session_->runAt(places[i]), 0, "event", seeds_text(seed_conclusions)});
  }
}

std::vector<std::vector<Conclusion>> CompareActions::recordedSeeds() const {
  std::vector<std::vector<Conclusion>> seeds;
  for (const int place : session_->isLive() ? std::vector<int>() : candidatesOfA()) {
    const std::vector<Conclusion> seed_conclusions = recorded_seeds(*session_->histories()[place]);
    if (seeds.empty()) seeds.resize(seed_conclusions.size());
    if (seed_conclusions.size() != seeds.size()) return {};
    for (std::size_t seed = 0; seed < seeds.size(); ++seed) seeds[seed].push_back(seed_conclusions[seed]);
  }
  return seeds;
}

void CompareActions::showDifferences() {
  const std::vector<RunConfig> configs = session_->configs();
  auto compared =
      session_->hasConfig() ? comparedConfigs(configs, session_->histories()) : comparedLogs(session_->histories());
  std::vector<bool> twins;
  for (const ComparedRun& run : compared) twins.push_back(run.noise_twin);
  selection_->setNoiseTwins(std::move(twins));
  updateRunLetters();
  compared_->set(std::move(compared));
  workspaces_->compare()->gradientPanel()->setLive(session_->isLive());
  workspaces_->compare()->judged()->setLive(session_->isLive());
  if (!session_->isLive()) compared_->setGoesOn(session_->isFollowing());
  workspaces_->compare()->judged()->setCanForce(session_->isLive() && canForceBalance(configs));
  workspaces_->compare()->judged()->setRoom(session_->histories().size() < kMaxRuns);
  chips_->setLive(session_->isLive());
  takeSeed();
  showChips();
}

void CompareActions::showStatus(const LiveStatus& status, std::optional<qint64> end) {
  JudgedRuns* judged = workspaces_->compare()->judged();
  judged->setSecondsPerStep(secondsPerStep(status));
  const qint64 goal = end && *end > status.step ? *end : INT64_MAX;  // a run that goes on after its end has none
  judged->setGoal(status.running ? goal : 0);
  compared_->setGoesOn(status.running);
  showChips();
  const bool has_ended = !status.running && status.error.empty() && end && status.step >= *end;
  if (has_ended && seeds_left_ > 0 && ended_seed_.empty()) trainNextSeed();
}

// Returns the mean time of a step over at most about kPaceSteps steps, timed from the end of one step to the end of
// another; kNoValue until two steps have ended.
float CompareActions::secondsPerStep(const LiveStatus& status) {
  const std::size_t runs = session_->histories().size();
  if (!status.running || !status.catching_up.empty() || runs != pace_.runs || status.step < pace_.last) {
    pace_ = {};
    pace_.runs = runs;
    pace_.last = status.step;
    return kNoValue;
  }
  if (std::exchange(pace_.last, status.step) == status.step) return pace_.seconds_per_step;
  if (pace_.first >= 0)
    pace_.seconds_per_step = static_cast<float>(1e-3 * pace_.timer.elapsed() / (status.step - pace_.first));
  if (pace_.first < 0 || status.step - pace_.first >= kPaceSteps) {
    pace_.first = status.step;
    pace_.timer.start();
  }
  return pace_.seconds_per_step;
}

void CompareActions::showChips() {
  const auto& histories = selection_->histories();
  const LiveStatus status = session_->isLive() ? session_->live()->status() : LiveStatus{};
  std::vector<RunChips::Run> runs;
  for (int place = 0; place < to_int(histories.size()); ++place) {
    RunChips::Run run{runLetter(*selection_, place), runColor(*selection_, place), runName(*selection_, place), {}, {}};
    if (place > 0 && session_->hasConfig())
      run.differs = settingsText(difference(session_->config(), session_->config(place)));
    for (const RunProgress& behind : status.catching_up)
      if (behind.run == session_->runAt(place)) run.progress = QString("%1 of %2").arg(behind.step).arg(status.step);
    runs.push_back(std::move(run));
  }
  chips_->showRuns(runs, selection_->run());
}

}  // namespace moescope
