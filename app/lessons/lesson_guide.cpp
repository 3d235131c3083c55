#include "app/lessons/lesson_guide.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "app/actions/compare_actions.h"
#include "app/actions/live_settings.h"
#include "app/actions/run_control.h"
#include "app/lessons/lesson_pane.h"
#include "app/session/run_session.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/config/config_field.h"
#include "widgets/microscaling/capture_bar.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensors_panel.h"
#include "widgets/plots/axis.h"

namespace moescope {
namespace {

constexpr int kJudgeEveryMs = 250;
constexpr int kLessonsRuns = -1, kNoRuns = -2;

QString q(const std::string& name) {
  return QString::fromStdString(name);
}

// Returns a number that a person typed with the unit of the figure.
QString withUnit(const QString& number, const LessonFigure& figure) {
  const QString unit = q(find_lesson_figure(figure.key)->unit);
  return unit.isEmpty() || unit == "x" ? number : number + ' ' + unit;
}

// Returns the largest difference that counts as right: "5 percentage points", "15 steps", "0.2".
QString toleranceText(const LessonPrediction& prediction) {
  const QString number = QString::number(prediction.within);
  if (!is_share(*prediction.number)) return withUnit(number, *prediction.number);
  return number + (number == "1" ? " percentage point" : " percentage points");
}

// True if a bound of `check` is the figure of `other`.
bool refersTo(const LessonCheck& check, const LessonCheck& other) {
  return std::ranges::any_of(std::array{check.above, check.below}, [&](const auto& bound) {
    return bound && bound->figure && bound->figure->key == other.figure.key &&
           bound->figure->source == other.figure.source;
  });
}

bool trains(const LessonTask& task) {
  return task.kind != LessonTask::Kind::set && task.kind != LessonTask::Kind::show;
}

bool hasSettings(const RunConfig& config, const std::vector<LessonSetting>& settings) {
  return std::all_of(settings.begin(), settings.end(), [&](const LessonSetting& setting) {
    return setting.setting.field().get(config) == setting.value;
  });
}

}  // namespace

LessonTasks::LessonTasks(RunSession* session, RunControl* control, LiveSettings* settings, CompareActions* comparison,
                         TensorLab* tensor_lab, QObject* parent)
    : QObject(parent),
      session_(session),
      control_(control),
      settings_(settings),
      comparison_(comparison),
      tensor_lab_(tensor_lab) {
  connect(session_, &RunSession::openingStarted, this,
          [this] { opening_ours_ = std::exchange(starting_ours_, false); });
  connect(session_, &RunSession::opened, this, [this] {
    ours_open_ = std::exchange(opening_ours_, false);
    ours_ = session_->histories();
  });
  connect(session_, &RunSession::failed, this, [this] { opening_ours_ = false; });
  connect(session_, &RunSession::runsChanged, this, &LessonTasks::noticeClosedRuns);
}

// Stops treating the runs as the lesson's own once one of them is closed: a lesson identifies runs by their places,
// which then change.
void LessonTasks::noticeClosedRuns() {
  const auto& open = session_->histories();
  if (open.size() < ours_.size() || !std::equal(ours_.begin(), ours_.end(), open.begin())) ours_open_ = false;
  ours_ = open;
}

void LessonTasks::startRuns(const std::vector<RunConfig>& configs) {
  starting_ours_ = true;
  end_ = 0;
  control_->startForLesson(configs);
  starting_ours_ = false;
}

void LessonTasks::endTrainingAt(std::int64_t step) {
  if (!session_->live()->status().running && std::exchange(end_, step) != step) control_->endOpenRunsAt(step);
}

void LessonTasks::endTraining() {
  if (!runsAreOurs()) return;
  control_->setUntil({});
  session_->live()->pause();
}

bool LessonTasks::runsAreOurs() const {
  return ours_open_ && session_->isLive();
}

void LessonTasks::perform(const LessonTask& task) {
  switch (task.kind) {
    case LessonTask::Kind::start:
      return startRuns(task.start);
    case LessonTask::Kind::run_until:
      return control_->runUntil(task.until);
    case LessonTask::Kind::set:
      for (const int place : places(task))
        for (const auto& [setting, value] : task.settings) settings_->change(place, setting, value);
      return;
    case LessonTask::Kind::twin: {
      RunConfig twin = session_->config();
      for (const auto& [setting, value] : task.settings) setting.field().set(twin, value);
      twin.name = task.name;
      return comparison_->addRun(twin);
    }
    case LessonTask::Kind::show:
      return tensor_lab_->showTensor(QString::fromStdString(task.tensor), task.format, task.row, task.column);
  }
}

bool LessonTasks::reached(std::int64_t step) const {
  if (!session_->isLive() || session_->opening()) return false;
  const LiveStatus status = session_->live()->status();
  if (status.step < step || !status.catching_up.empty()) return false;
  return std::ranges::all_of(session_->histories(),
                             [&](const auto& history) { return history->steps().last + 1 >= step; });
}

bool LessonTasks::stillDone(const LessonTask& task) const {
  return task.kind != LessonTask::Kind::run_until || session_->live()->status().step >= task.until;
}

std::vector<int> LessonTasks::places(const LessonTask& task) const {
  if (task.run != kAllRuns) return {task.run};
  std::vector<int> all(session_->histories().size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool LessonTasks::done(const LessonTask& task) const {
  const int runs = to_int(session_->histories().size());
  switch (task.kind) {
    case LessonTask::Kind::start:
      return false;
    case LessonTask::Kind::run_until:
      return reached(task.until);
    case LessonTask::Kind::set:
      return session_->isLive() && std::ranges::all_of(places(task), [&](int place) {
               return place < runs && hasSettings(session_->config(place), task.settings);
             });
    case LessonTask::Kind::twin:
      for (int place = 1; session_->isLive() && place < runs; ++place)
        if (hasSettings(session_->config(place), task.settings)) return session_->live()->status().catching_up.empty();
      return false;
    case LessonTask::Kind::show:
      return tensor_lab_->tensorName() == QString::fromStdString(task.tensor) && tensor_lab_->format() == task.format &&
             tensor_lab_->showsBlockOf(task.row, task.column);
  }
  return false;
}

LessonGuide::LessonGuide(RunSession* session, Selection* selection, RunControl* control, LiveSettings* settings,
                         CompareActions* comparison, WorkspaceTabs* workspaces, LessonPane* pane)
    : QObject(workspaces),
      session_(session),
      selection_(selection),
      control_(control),
      tensor_lab_(workspaces->microscaling()->tensorLab()),
      pane_(pane),
      tasks_(session, control, settings, comparison, tensor_lab_, this),
      panels_(selection, workspaces) {
  connect(pane_, &LessonPane::nextRequested, this, &LessonGuide::next);
  connect(pane_, &LessonPane::backRequested, this, &LessonGuide::back);
  connect(pane_, &LessonPane::restartRequested, this, &LessonGuide::reset);
  connect(pane_, &LessonPane::taskRequested, this, &LessonGuide::perform);
  connect(pane_->question(), &LessonQuestion::predicted, this, [this](int choice) { predict(std::max(choice, -1)); });
  connect(pane_->question(), &LessonQuestion::predictedNumber, this,
          [this](double value, const QString& text) { predict({}, text, value); });
  connect(pane_, &LessonPane::revealRequested, this, [this] {
    look();
    explain();
    look();
    pane_->scrollToReveal();
  });
  connect(session_, &RunSession::opened, this, [this] {
    open_start_ = tasks_.runsAreOurs() ? opening_start_ : kNoRuns;
    entered_ = std::exchange(entering_, false) && tasks_.runsAreOurs();
  });
  // Queued, so that the window shows the new run first.
  connect(
      session_, &RunSession::opened, this,
      [this] {
        if (!active_ || at_end_) return;
        if (std::exchange(entered_, false)) panels_.startAfresh();  // panels may have followed the runs before
        arrange();
        look();
      },
      Qt::QueuedConnection);
  connect(session_, &RunSession::failed, this, [this] { entering_ = false; });
  connect(tensor_lab_->browser(), &TensorsPanel::tensorChosen, this, &LessonGuide::describeTensor);
  timer_.setInterval(kJudgeEveryMs);
  connect(&timer_, &QTimer::timeout, this, [this] {
    look();
    if (step_ < next_stop_ && passStep()) next();
  });
}

void LessonGuide::start(const Lesson& lesson, int number, int lessons, int step) {
  lesson_ = lesson;
  number_ = number;
  lessons_ = lessons;
  active_ = true;
  begin(step);
}

// Starts the lesson with new runs and without predictions. The runs of a step are trained again from their start.
void LessonGuide::begin(int step) {
  next_stop_ = std::min(step, to_int(lesson_.steps.size()) - 1);
  step_ = lesson_.runs.empty() ? next_stop_ : std::max(0, startOf(next_stop_));
  at_end_ = false;
  tasks_.endTraining();
  panels_.startAfresh();
  states_.assign(lesson_.steps.size(), {});
  for (std::size_t i = 0; i < states_.size(); ++i) states_[i].done.assign(lesson_.steps[i].tasks.size(), false);
  reader_ = LessonReader(lesson_.tensors);
  open_start_ = kNoRuns;
  opening_start_ = kLessonsRuns;
  entering_ = !lesson_.runs.empty();
  openTensors();
  showStep();
  if (entering_) tasks_.startRuns(lesson_.runs);
  timer_.start();
}

// Adds the lesson's tensors and removes those of the lesson before. A lesson begins in MXFP8 E4M3.
void LessonGuide::openTensors() {
  if (lesson_.tensors.empty()) return;
  for (const QString& name : std::exchange(opened_tensors_, {})) tensor_lab_->removeTensor(name);
  for (const LessonTensor& tensor : lesson_.tensors) {
    tensor_lab_->setTensor(q(tensor.name), tensor.rows, tensor.cols, make_tensor(tensor));
    opened_tensors_ << q(tensor.name);
  }
  tensor_lab_->setFormat(mx_format(ElementFormat::e4m3), BlockAxis::row);
}

void LessonGuide::describeTensor() {
  const auto shown = std::ranges::find(lesson_.tensors, tensor_lab_->tensorName().toStdString(), &LessonTensor::name);
  if (active_ && shown != lesson_.tensors.end())
    tensor_lab_->captureBar()->showSample(q(shown->name) + ": " + printedText(shown->about));
}

void LessonGuide::leave() {
  if (!active_) return;
  active_ = false;
  timer_.stop();
  showRuns(true);
  panels_.leave();
  tensor_lab_->captureBar()->showSample({});
  emit lessonLeft();
}

void LessonGuide::next() {
  if (!active_) return;
  if (at_end_) return emit nextLessonRequested();
  if (step_ + 1 == to_int(lesson_.steps.size())) return showEnd();
  ++step_;
  showStep();
}

void LessonGuide::back() {
  if (!active_) return;
  if (!at_end_ && step_ > 0) --step_;
  next_stop_ = 0;
  at_end_ = false;
  showStep();
}

void LessonGuide::reset() {
  if (active_) begin();
}

void LessonGuide::predict(std::optional<int> choice, const QString& number, double value) {
  if (!active_ || at_end_ || state().is_final) return;
  state().choice = choice;
  state().number = number;
  state().value = value;
  arrange();
  look();
  if (!tasksDone()) pane_->scrollToTasks();  // the next action
}

bool LessonGuide::passStep() {
  if (!active_ || entering_ || session_->opening()) return false;
  if (!predicted()) {
    pane_->question()->showAnswer(-1);
    predict(-1);
  }
  const bool explained = state().revealed || (lessonStep().reveal.empty() && !lessonStep().prediction);
  if (explained && tasksDone()) return true;
  pane_->goOn();
  return false;
}

LessonPane::Page LessonGuide::newPage() const {
  LessonPane::Page page;
  page.lesson = printedText(lesson_.title);
  if (number_ >= 0) page.place = QString("Lesson %1 of %2").arg(number_ + 1).arg(lessons_);
  page.steps = to_int(lesson_.steps.size());
  return page;
}

void LessonGuide::showStep() {
  if (at_end_) return;
  const LessonStep& step = lessonStep();
  LessonPane::Page page = newPage();
  page.title = printedText(step.title);
  page.text = printedText(step.text);
  page.step = step_;
  if (step.prediction) {
    page.question.question = printedText(step.prediction->question);
    for (const std::string& choice : step.prediction->choices) page.question.choices << printedText(choice);
    if (step.prediction->number) {
      page.question.unit = q(find_lesson_figure(step.prediction->number->key)->unit).remove("x");
      page.question.question += QString(" Within %1 counts as right.").arg(toleranceText(*step.prediction));
    }
  }
  page.hint = printedText(step.hint);
  pane_->showPage(page);
  panels_.fitSteps();
  showTensorOf(step);
  if (state().choice) pane_->question()->showAnswer(*state().choice);
  if (!state().number.isEmpty()) pane_->question()->showAnswer(state().number);
  arrange();
  look();
  emit stepShown(q(lesson_.name), step_);
}

// Opens the tensor and the block of the step's first task in the format of the step before, if another tensor is shown.
// If the task has this format, the block is not shown yet, since it would be the answer.
void LessonGuide::showTensorOf(const LessonStep& step) {
  if (step.tasks.empty() || step.tasks.front().kind != LessonTask::Kind::show) return;
  const LessonTask& task = step.tasks.front();
  if (step_ > 0 && q(task.tensor) == tensor_lab_->tensorName()) return;
  const bool is_answer = task.format == tensor_lab_->format();
  tensor_lab_->showTensor(q(task.tensor), tensor_lab_->format(), is_answer ? 0 : task.row, is_answer ? 0 : task.column);
  describeTensor();
}

// Returns links to the exhibits that the lesson explains.
QString LessonGuide::faultLinks() const {
  QStringList links;
  for (const std::string& name : exhibit_names())
    if (const Lesson exhibit = find_lesson(name).lesson; exhibit.explained_by == lesson_.name)
      links << QString("[%1](%2)").arg(printedText(exhibit.title), q(name));
  return links.isEmpty() ? QString()
                         : "\n\nFaults of real trainings that this lesson explains: " + links.join(", ") + '.';
}

std::pair<int, int> LessonGuide::score() const {
  return {to_int(std::ranges::count(states_, std::optional(true), &StepState::right)),
          to_int(std::ranges::count_if(states_, [](const StepState& s) { return s.right.has_value(); }))};
}

void LessonGuide::showEnd() {
  at_end_ = true;
  const auto [right, questions] = score();
  LessonPane::Page page = newPage();
  page.title = number_ < 0 ? "What this shows" : "What this lesson shows";
  page.text = printedText(lesson_.teaches);
  if (questions > 0) page.text += QString("\n\nCorrect predictions: **%1 of %2**.").arg(right).arg(questions);
  QStringList missed;
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (states_[i].right == false) missed << QString::number(i + 1);
  if (!missed.isEmpty() && page.steps > 1) page.text += " Look again at: step " + missed.join(", ") + '.';
  page.text += faultLinks() + "\n\n";
  if (!lesson_.runs.empty()) page.text += "You can go on with these runs: every change can be undone. ";
  page.text += "**Leave** restores your own arrangement of panels.";
  page.step = page.steps - 1;
  page.end = true;
  pane_->showPage(page);
  pane_->setNext(true, number_ >= 0 && number_ + 1 < lessons_ ? QString("Next lesson") : QString("All lessons"));
  emit finished(q(lesson_.name), right, questions);
}

void LessonGuide::arrange() {
  showRuns(!showsOtherRuns());
  panels_.show(lessonStep().view, cover(), !predicted());
}

// Hides the open runs from panels, bar and timeline: a person would take their letters for those of this step's runs.
void LessonGuide::showRuns(bool are_shown) {
  if (session_->histories().empty() || are_shown == (selection_->history() != nullptr)) return;
  selection_->setHistories(are_shown ? session_->histories() : decltype(StepState::histories)());
  control_->showOpen();
}

bool LessonGuide::showsOtherRuns() const {
  return tasks_.runsAreOurs() && !runsAreOpen();
}

// Returns why the panels are covered. A step that trains nothing asks about what is there already, so that any panel
// may give the answer away, and so does a training that began before the prediction.
QString LessonGuide::cover() const {
  const auto& tasks = lessonStep().tasks;
  const bool asks = lessonStep().view.after_prediction || state().trained_early || std::ranges::none_of(tasks, trains);
  const bool lacks_runs = (!entering_ && showsOtherRuns()) || (startsRuns(step_) && !runsAreOpen());
  if (!tasks.empty() && tasks.front().kind == LessonTask::Kind::show && !state().done.front())
    return "Shown after the task";
  if (!predicted() && state().trained_early)
    return "The runs were trained before your prediction, which does not count. Shown after it";
  if (!predicted() && (asks || lacks_runs)) return "Shown after your prediction";
  return lacks_runs ? "Shown when the runs of this step are open" : QString();
}

void LessonGuide::perform(int index) {
  if (!active_ || at_end_ || index >= to_int(lessonStep().tasks.size())) return;
  const LessonTask& task = lessonStep().tasks[index];
  if (task.kind == LessonTask::Kind::start) opening_start_ = step_;
  tasks_.perform(task);
  if (task.kind == LessonTask::Kind::twin) arrange();  // adding a run opened the workspace Compare
  look();
}

bool LessonGuide::tasksDone() {
  return std::all_of(state().done.begin(), state().done.end(), [](bool is_done) { return is_done; });
}

bool LessonGuide::startsRuns(int step) const {
  return std::ranges::any_of(lesson_.steps[step].tasks,
                             [](const LessonTask& task) { return task.kind == LessonTask::Kind::start; });
}

int LessonGuide::startOf(int step) const {
  while (step >= 0 && !startsRuns(step)) --step;
  if (step >= 0) return step;
  return lesson_.runs.empty() ? kNoRuns : kLessonsRuns;
}

bool LessonGuide::runsAreOpen() const {
  return !entering_ && !session_->opening() && tasks_.runsAreOurs() && open_start_ == startOf(step_);
}

void LessonGuide::lookAtTask(int index) {
  const LessonTask& task = lessonStep().tasks[index];
  const bool done = state().done[index];
  if (task.kind == LessonTask::Kind::show)
    state().done[index] = done || tasks_.done(task);
  else if (runsAreOpen())
    state().done[index] = task.kind == LessonTask::Kind::start || (done ? tasks_.stillDone(task) : tasks_.done(task));
  if (state().done[index] && !done && task.kind == LessonTask::Kind::show) arrange();  // uncovers the panels
}

// Judges only the runs that this step is about, since any run may be open. Past steps keep their results when other
// runs are opened.
void LessonGuide::look() {
  if (!active_ || at_end_) return;
  const LessonStep& step = lessonStep();
  if (runsAreOpen()) state().histories = session_->histories();
  reader_.set_histories(state().histories);
  // Checks the tasks in order and stops at the first that is not done, so that a later task is not marked before its
  // turn.
  for (std::size_t i = 0; i < step.tasks.size() && predicted() && !state().revealed; ++i) {
    lookAtTask(to_int(i));
    if (!state().done[i]) break;
  }
  const auto next_training = std::ranges::find_if(step.tasks, [&](const LessonTask& task) {
    return task.kind == LessonTask::Kind::run_until && !state().done[&task - step.tasks.data()];
  });
  if (next_training != step.tasks.end() && runsAreOpen()) tasks_.endTrainingAt(next_training->until);
  noticeEarlyTraining();
  state().is_final = state().is_final || resultIsSeen();
  pane_->question()->setFinal(state().is_final);
  showTasks();
  showWhatIsMissing();
  pane_->showFigures(state().revealed ? state().figures : figures());
  if (state().revealed) pane_->showReveal(state().verdict, state().explanation);
  showNext();
}

// Covers the panels if the step's runs are trained before the prediction, in this step or beyond the end of an earlier
// one.
void LessonGuide::noticeEarlyTraining() {
  if (predicted() || !runsAreOpen()) return;
  const std::int64_t trained = session_->live()->status().step;
  if (!state().trained_before) state().trained_before = trained;
  const bool is_over = std::ranges::any_of(lessonStep().tasks, [&](const LessonTask& task) {
    return task.kind == LessonTask::Kind::run_until && task.until <= trained;
  });
  if ((is_over || trained > *state().trained_before) && !std::exchange(state().trained_early, true)) arrange();
}

// Returns whether the panels may show the result: they were covered and had data, a training has begun, or the tasks
// are done.
bool LessonGuide::resultIsSeen() {
  if (!predicted()) return false;
  const bool has_data = std::ranges::any_of(state().histories, [](const auto& run) { return run->count() > 0; });
  const bool uncovered = lessonStep().view.after_prediction && has_data && !startsRuns(step_);
  const LiveStatus status = runsAreOpen() ? session_->live()->status() : LiveStatus{};
  return uncovered || state().trained_early || tasksDone() || status.running || !status.catching_up.empty();
}

// Returns the figures. The measured values are hidden until the prediction, since they would give the answer away.
QList<LessonFigureRow> LessonGuide::figures() {
  QList<LessonFigureRow> rows;
  const auto& prediction = lessonStep().prediction;
  for (const LessonCheck& check : lessonStep().checks) {
    if (!predicted() && check.figure.key == "finding") continue;  // its name says what will be found
    LessonFigureRow& row = rows.emplace_back(figureRow(check));
    const auto is_said = [&](const LessonCheck& other) { return refersTo(other, check) && refersTo(check, other); };
    const std::span before(lessonStep().checks.data(), &check);
    if (row.kind == LessonFigureRow::Kind::expected && std::ranges::any_of(before, is_said)) row.note.clear();
    const bool was_predicted = prediction && prediction->number == check.figure && !state().number.isEmpty();
    if (!was_predicted) continue;
    row.note.prepend("you predicted " + withUnit(state().number, check.figure) + (row.note.isEmpty() ? "" : "; "));
  }
  return rows;
}

LessonFigureRow LessonGuide::figureRow(const LessonCheck& check) {
  LessonFigureRow row{printedText(check.text), {}, {}, LessonFigureRow::Kind::missing};
  const bool live = showsLiveFigures();
  if (!predicted() || (!live && !tasksDone())) {
    row.value = predicted() ? "after the task" : "after your prediction";
    return row;
  }
  const LessonJudgement judged = reader_.judge(check);
  row.value = printedText(judged.text);
  if (judged.value) row.kind = LessonFigureRow::Kind::live;
  if (live || judged.state == LessonJudgement::State::pending) return row;
  row.kind = judged.state == LessonJudgement::State::holds ? LessonFigureRow::Kind::expected
                                                           : LessonFigureRow::Kind::unexpected;
  row.note = printedText(judged.note);
  return row;
}

bool LessonGuide::showsLiveFigures() {
  const auto& tasks = lessonStep().tasks;
  const auto& done = state().done;
  if (tasks.empty() || tasks.back().kind != LessonTask::Kind::run_until || !runsAreOpen()) return false;
  return std::ranges::find(done, false) == done.end() - 1 && session_->live()->status().running;  // the last is left
}

void LessonGuide::showNext() {
  const bool offered = (!lessonStep().reveal.empty() || lessonStep().prediction) && !state().revealed;
  const bool ready = predicted() && tasksDone();
  const auto reveal = ready ? LessonPane::Reveal::open : LessonPane::Reveal::locked;
  pane_->setReveal(offered ? reveal : LessonPane::Reveal::none, opensWhen());
  pane_->setNext(ready && !offered);
}

QString LessonGuide::opensWhen() {
  if (!predicted()) return "after your prediction";
  const auto& tasks = lessonStep().tasks;
  if (!tasks.empty() && tasks.back().kind == LessonTask::Kind::run_until)
    return QString("after %1 steps of training").arg(tasks.back().until);
  return "after the task";
}

void LessonGuide::showWhatIsMissing() {
  const int start = startOf(step_);
  const bool waits = entering_ || session_->opening();
  if (start == kNoRuns || start == step_ || waits || runsAreOpen()) return pane_->showMissing({});
  const QString starter =
      start == kLessonsRuns ? "**Lessons > Restart this lesson**" : QString("Step %1").arg(start + 1);
  pane_->showMissing(QString("The runs of this step are not open. %1 starts new ones.").arg(starter));
}

LessonTaskState LessonGuide::taskState(int index, bool before) {
  const LessonTask& task = lessonStep().tasks[index];
  const bool open = runsAreOpen();
  const bool possible = open || task.kind == LessonTask::Kind::start || task.kind == LessonTask::Kind::show;
  LessonTaskState shown{printedText(task.text), state().done[index]};
  const LiveStatus status = open ? session_->live()->status() : LiveStatus{};
  shown.steps_per_s = status.steps_per_s;
  if (task.kind == LessonTask::Kind::run_until && open) {
    shown.step = status.step;
    shown.until = task.until;
    shown.running = status.running;
  } else if (task.kind == LessonTask::Kind::twin && !status.catching_up.empty()) {
    shown.step = status.catching_up.front().step;
    shown.until = status.step;
    shown.running = true;
  }
  shown.running = shown.running && !shown.done && before;
  const bool is_repeatable = !shown.done || task.kind == LessonTask::Kind::show;
  shown.enabled = before && possible && !shown.running && is_repeatable && !session_->opening();
  return shown;
}

void LessonGuide::showTasks() {
  QList<LessonTaskState> tasks;
  bool before = predicted();
  for (int i = 0; i < to_int(lessonStep().tasks.size()); ++i) {
    tasks << taskState(i, before);
    before = before && tasks.back().done;
  }
  pane_->showTasks(tasks);
}

void LessonGuide::judgePrediction() {
  const auto& prediction = lessonStep().prediction;
  StepState& s = state();
  if (!prediction || s.right || s.trained_early) return;
  if (!prediction->number) {
    if (s.choice && *s.choice >= 0) s.right = *s.choice == prediction->right;
    return;
  }
  const auto measured = reader_.read(*prediction->number);
  if (!measured || s.number.isEmpty()) return;
  s.right = std::fabs(s.value - (is_share(*prediction->number) ? 100 : 1) * *measured) <= prediction->within;
}

// Keeps the figures and the explanation as they are now: later steps change the runs and their settings.
void LessonGuide::explain() {
  const bool holds = std::ranges::all_of(lessonStep().checks, [this](const LessonCheck& check) {
    return reader_.judge(check).state == LessonJudgement::State::holds;
  });
  if (holds) judgePrediction();
  StepState& s = state();
  s.verdict = holds ? verdict(s)
                    : QString(
                          "**This run differs from the lesson.** See the figure marked \"not as "
                          "expected\": a setting is different, or chance had a larger effect than usual. **Lessons > "
                          "Restart this lesson** trains new runs.");
  s.explanation = printedText(reader_.fill_in(lessonStep().reveal, lessonStep().values));
  s.figures = figures();
  s.revealed = true;
  const auto [right, questions] = score();
  if (step_ + 1 == to_int(lesson_.steps.size())) emit finished(q(lesson_.name), right, questions);
}

QString LessonGuide::verdict(const StepState& s) const {
  const auto& prediction = lessonStep().prediction;
  if (!prediction) return {};
  QString word;
  if (s.right) word = *s.right ? "**Correct.** " : "**Not as predicted.** ";
  if (s.trained_early && s.choice != -1) word = "**Not counted:** the runs were trained before your prediction. ";
  if (!prediction->number)
    return word + QString("Result: **%1**").arg(printedText(prediction->choices[prediction->right]));
  const auto measured = reader_.read(*prediction->number);
  const QString value = measured ? printedText(figure_text(*prediction->number, *measured)) : QString("not yet");
  if (s.number.isEmpty()) return QString("Measured: **%1**").arg(value);
  return word + QString("You predicted %1; measured: **%2**").arg(withUnit(s.number, *prediction->number), value);
}

}  // namespace moescope
