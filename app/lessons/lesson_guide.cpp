#include "app/lessons/lesson_guide.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/actions/compare_actions.h"
#include "app/actions/run_control.h"
#include "app/lessons/lesson_question.h"
#include "app/session/run_session.h"
#include "app/workspaces/microscaling_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "widgets/look/type_scale.h"
#include "widgets/microscaling/capture_bar.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/plots/axis.h"

namespace moescope {

namespace {

constexpr int kJudgeEveryMs = 250;
constexpr int kRoomForList = 1600;  // of the window, beside the lesson
constexpr int kLessonsRuns = -1, kNoRuns = -2;

QString q(const std::string& name) {
  return QString::fromStdString(name);
}

QString words(const std::string& text) {
  return inPrint(QString::fromStdString(text));
}

LessonPane::Mark markOf(LessonJudgement::State state) {
  switch (state) {
    case LessonJudgement::State::holds:
      return LessonPane::Mark::holds;
    case LessonJudgement::State::fails:
      return LessonPane::Mark::fails;
    case LessonJudgement::State::pending:
      break;
  }
  return LessonPane::Mark::pending;
}

}  // namespace

LessonGuide::LessonGuide(RunSession* session, Selection* selection, RunControl* control, LiveSettings* settings,
                         CompareActions* comparison, WorkspaceTabs* workspaces, LessonPane* pane)
    : QObject(workspaces),
      session_(session),
      workspaces_(workspaces),
      lab_(workspaces->microscaling()->tensorLab()),
      pane_(pane),
      tasks_(session, control, settings, comparison, lab_, this),
      panels_(selection, workspaces) {
  connect(pane_, &LessonPane::nextRequested, this, &LessonGuide::next);
  connect(pane_, &LessonPane::backRequested, this, &LessonGuide::back);
  connect(pane_, &LessonPane::resetRequested, this, &LessonGuide::reset);
  connect(pane_, &LessonPane::taskRequested, this, &LessonGuide::perform);
  connect(pane_->question(), &LessonQuestion::predicted, this, [this](int choice) {
    if (!active_ || at_end_ || state().revealed) return;
    state().choice = std::max(choice, -1);
    if (now().view.after_prediction) arrange();
    look();
  });
  connect(pane_->question(), &LessonQuestion::predictedNumber, this, [this](double value, const QString& text) {
    if (!active_ || at_end_ || state().revealed) return;
    state().value = value;
    state().number = text;
    if (now().view.after_prediction) arrange();
    look();
  });
  connect(pane_, &LessonPane::revealRequested, this, [this] {
    state().revealed = true;
    look();
    showReveal();
    pane_->scrollToReveal();
  });
  connect(session_, &RunSession::opened, this, [this] {
    open_start_ = tasks_.runsAreOurs() ? opening_start_ : kNoRuns;
    entered_ = std::exchange(entering_, false) && tasks_.runsAreOurs();
  });
  // After the window has taken the run in.
  connect(
      session_, &RunSession::opened, this,
      [this] {
        if (!active_ || at_end_) return;
        if (std::exchange(entered_, false)) panels_.selectNothing();
        arrange(), look();
      },
      Qt::QueuedConnection);
  connect(session_, &RunSession::failed, this, [this] { entering_ = false; });
  timer_.setInterval(kJudgeEveryMs);
  connect(&timer_, &QTimer::timeout, this, &LessonGuide::look);
}

void LessonGuide::start(const Lesson& lesson, int number, int lessons) {
  lesson_ = lesson;
  number_ = number;
  lessons_ = lessons;
  active_ = true;
  begin();
}

// With a new run; earlier predictions are discarded.
void LessonGuide::begin() {
  step_ = 0;
  at_end_ = false;
  tasks_.rest();
  panels_.startAfresh();
  states_.assign(lesson_.steps.size(), {});
  for (std::size_t i = 0; i < states_.size(); ++i) states_[i].done.assign(lesson_.steps[i].tasks.size(), false);
  reader_ = LessonReader(lesson_.tensors);
  open_start_ = kNoRuns;
  opening_start_ = kLessonsRuns;
  entering_ = !lesson_.runs.empty();
  openTensors();
  showStep();
  if (entering_) tasks_.startRuns(lesson_.runs.configs);
  timer_.start();
}

// In place of those of another lesson. What the first task shows is under the microscope, but not as the task shows it.
void LessonGuide::openTensors() {
  if (lesson_.tensors.empty()) return;
  for (const QString& name : std::exchange(opened_tensors_, {})) lab_->removeTensor(name);
  QStringList about;
  for (const LessonTensor& tensor : lesson_.tensors) {
    lab_->setTensor(q(tensor.name), static_cast<std::size_t>(tensor.rows), static_cast<std::size_t>(tensor.cols),
                    make_tensor(tensor));
    opened_tensors_ << q(tensor.name);
    about << q(tensor.name) + ": " + words(tensor.about);
  }
  const MatrixFormat usual{mx_format(ElementFormat::e4m3), BlockAxis::row};
  const LessonTask* first = firstShown();
  const bool is_answer = first && first->format == usual;
  lab_->showTensor(first ? q(first->tensor) : opened_tensors_.front(), usual,
                   first && !is_answer ? static_cast<std::size_t>(first->row) : 0,
                   first && !is_answer ? static_cast<std::size_t>(first->column) : 0);
  lab_->captureBar()->showSample(about.join("; "));
}

const LessonTask* LessonGuide::firstShown() const {
  for (const LessonStep& step : lesson_.steps)
    for (const LessonTask& task : step.tasks)
      if (task.kind == LessonTask::Kind::show) return &task;
  return nullptr;
}

void LessonGuide::leave() {
  if (!active_) return;
  active_ = false;
  timer_.stop();
  panels_.clearHighlights();
  lab_->setListsShown(true);
  lab_->captureBar()->showSample({});
  emit left();
}

int LessonGuide::rightPredictions() const {
  return static_cast<int>(
      std::count_if(states_.begin(), states_.end(), [](const StepState& s) { return s.right == true; }));
}

int LessonGuide::predictions() const {
  return static_cast<int>(
      std::count_if(states_.begin(), states_.end(), [](const StepState& s) { return s.right.has_value(); }));
}

void LessonGuide::next() {
  if (!active_) return;
  if (at_end_) return emit nextLessonRequested();
  if (step_ + 1 == static_cast<int>(lesson_.steps.size())) return showEnd();
  ++step_;
  showStep();
}

void LessonGuide::back() {
  if (!active_) return;
  if (!at_end_ && step_ > 0) --step_;
  at_end_ = false;
  showStep();
}

void LessonGuide::reset() {
  if (active_) begin();
}

void LessonGuide::showStep() {
  if (at_end_) return;
  const LessonStep& step = now();
  LessonPane::Page page;
  page.lesson = words(lesson_.title);
  page.place = number_ < 0 ? tr("Step %1 of %2").arg(step_ + 1).arg(lesson_.steps.size())
                           : tr("Lesson %1 of %2, step %3 of %4")
                                 .arg(number_ + 1)
                                 .arg(lessons_)
                                 .arg(step_ + 1)
                                 .arg(lesson_.steps.size());
  page.title = words(step.title);
  page.text = words(step.text);
  page.step = step_;
  page.steps = static_cast<int>(lesson_.steps.size());
  if (step.prediction) {
    page.question = words(step.prediction->question);
    for (const std::string& choice : step.prediction->choices) page.choices << words(choice);
  }
  page.hint = words(step.hint);
  page.first = step_ == 0;
  page.last = step_ + 1 == page.steps;
  pane_->showPage(page);
  if (state().choice) pane_->question()->showAnswer(*state().choice);
  if (!state().number.isEmpty()) pane_->question()->showAnswer(state().number);
  arrange();
  look();
  if (state().revealed) showReveal();
}

void LessonGuide::showEnd() {
  at_end_ = true;
  const int right = rightPredictions(), asked = predictions();
  LessonPane::Page page;
  page.lesson = words(lesson_.title);
  page.place = number_ < 0 ? QString() : tr("Lesson %1 of %2").arg(number_ + 1).arg(lessons_);
  page.title = tr("Done");
  page.text = words(lesson_.teaches);
  if (asked > 0) {
    page.text += "\n\n" + tr("You predicted **%1 of %2** correctly. ").arg(right).arg(asked);
    page.text += right == asked       ? tr("Nothing here surprises you any more.")
                 : 2 * right >= asked ? tr("The others are what the lesson was for.")
                                      : tr("Good: what surprises stays. Try it again some day (Reset).");
  }
  page.text += "\n\n" + tr("The run is yours now: change what you like, everything can be undone. **Leave** brings "
                           "back your own arrangement of panels.");
  page.step = static_cast<int>(lesson_.steps.size()) - 1;
  page.steps = page.step + 1;
  pane_->showPage(page);
  pane_->setRevealOffered(false);
  pane_->setNextText(number_ >= 0 && number_ + 1 < lessons_ ? tr("Next lesson") : tr("Leave"));
  emit finished(q(lesson_.name), right, asked);
}

void LessonGuide::arrange() {
  const LessonView& view = now().view;
  if (view.after_prediction && !state().predicted()) return panels_.clearHighlights();
  panels_.show(view);
  // The list of a lesson's one or two tensors is not worth a third of a small window.
  if (!lesson_.tensors.empty())
    lab_->setListsShown(workspaces_->window()->width() >= withType(kRoomForList, workspaces_->fontMetrics()));
}

void LessonGuide::perform(int index) {
  if (!active_ || at_end_ || index >= static_cast<int>(now().tasks.size())) return;
  const LessonTask& task = now().tasks[static_cast<std::size_t>(index)];
  if (task.kind == LessonTask::Kind::start) opening_start_ = step_;
  tasks_.perform(task);
  look();
}

bool LessonGuide::tasksDone() {
  return std::all_of(state().done.begin(), state().done.end(), [](bool each) { return each; });
}

bool LessonGuide::startsRuns(int step) const {
  return std::ranges::any_of(lesson_.steps[static_cast<std::size_t>(step)].tasks,
                             [](const LessonTask& task) { return task.kind == LessonTask::Kind::start; });
}

int LessonGuide::startOf(int step) const {
  while (step >= 0 && !startsRuns(step)) --step;
  return step >= 0 ? step : lesson_.runs.empty() ? kNoRuns : kLessonsRuns;
}

bool LessonGuide::runsAreOpen() const {
  return !entering_ && !session_->opening() && tasks_.runsAreOurs() && open_start_ == startOf(step_);
}

void LessonGuide::lookAtTask(int index) {
  const LessonTask& task = now().tasks[static_cast<std::size_t>(index)];
  const bool done = state().done[static_cast<std::size_t>(index)];
  if (task.kind == LessonTask::Kind::show)
    state().done[static_cast<std::size_t>(index)] = done || tasks_.done(task);
  else if (runsAreOpen())
    state().done[static_cast<std::size_t>(index)] =
        task.kind == LessonTask::Kind::start || (done ? tasks_.stillDone(task) : tasks_.done(task));
}

// What is open may be anything: only runs that this step is about are judged, and those of a step that is over stay
// what they were when others have taken their place.
void LessonGuide::look() {
  if (!active_ || at_end_) return;
  const LessonStep& step = now();
  if (runsAreOpen()) state().histories = session_->histories();
  reader_.set_chosen(lab_->format());
  reader_.set_histories(state().histories);
  // In order: a later task that happens to be done already still waits for its turn.
  for (std::size_t i = 0; i < step.tasks.size(); ++i) {
    if (step.prediction && !state().predicted()) break;
    lookAtTask(static_cast<int>(i));
    if (!state().done[i]) break;
  }
  showTasks();
  showWhatIsMissing();
  // The measured values would give the answer away.
  const bool predicted = !step.prediction || state().predicted();
  QList<LessonPane::Check> checks;
  for (const LessonCheck& check : step.checks) {
    LessonPane::Check shown{words(check.text), predicted ? tr("after the task") : tr("after your prediction"),
                            LessonPane::Mark::pending};
    if (predicted && tasksDone()) {
      const LessonJudgement judged = reader_.judge(check);
      shown.value = words(judged.text);
      shown.mark = markOf(judged.state);
    }
    checks << shown;
  }
  pane_->showChecks(checks);
  const bool offered = (!step.reveal.empty() || step.prediction) && !state().revealed;
  pane_->setRevealOffered(offered);
  pane_->setRevealEnabled(predicted && tasksDone(),
                          !predicted ? tr("First make your prediction.") : tr("First do the task."));
}

void LessonGuide::showWhatIsMissing() {
  const int start = startOf(step_);
  const bool waits = entering_ || session_->opening();
  if (start == kNoRuns || start == step_ || waits || runsAreOpen()) return pane_->showMissing({});
  pane_->showMissing(start == kLessonsRuns
                         ? tr("The runs of this step are not open. **Reset** starts the lesson again with new ones.")
                         : tr("The runs of this step are not open. Step %1 starts them.").arg(start + 1));
}

void LessonGuide::showTasks() {
  const LessonStep& step = now();
  const bool predicted = !step.prediction || state().predicted();
  QList<LessonPane::Task> tasks;
  bool before = predicted;
  const bool open = runsAreOpen();
  for (std::size_t i = 0; i < step.tasks.size(); ++i) {
    const LessonTask::Kind kind = step.tasks[i].kind;
    const bool possible = open || kind == LessonTask::Kind::start || kind == LessonTask::Kind::show;
    LessonPane::Task shown{words(step.tasks[i].text), state().done[i], before, false};
    const Lab* lab = session_->lab();
    const bool running = lab && lab->status().running;
    shown.running = !shown.done && before && running && open && kind == LessonTask::Kind::run_until;
    shown.enabled =
        before && possible && !shown.running && (!shown.done || kind == LessonTask::Kind::show) && !session_->opening();
    before = before && shown.done;
    tasks << shown;
  }
  pane_->showTasks(tasks);
}

bool LessonGuide::allHold() const {
  return std::all_of(now().checks.begin(), now().checks.end(), [this](const LessonCheck& check) {
    return reader_.judge(check).state == LessonJudgement::State::holds;
  });
}

void LessonGuide::showReveal() {
  const LessonStep& step = now();
  StepState& s = state();
  const bool holds = allHold();
  if (step.prediction && !s.right && holds) {
    if (step.prediction->number) {
      const auto measured = reader_.read(*step.prediction->number);
      const bool share = std::string_view(find_lesson_figure(step.prediction->number->key)->unit) == "%";
      const double given = share ? s.value / 100 : s.value;
      if (measured && !s.number.isEmpty())
        s.right = given > 0 && std::fabs(std::log(given / *measured)) <= std::log(step.prediction->within);
    } else if (s.choice && *s.choice >= 0) {
      s.right = *s.choice == step.prediction->right;
    }
  }
  QString said = verdict(s);
  if (!holds)
    said =
        tr("**This run shows something else.** Look at the line that is not ticked: a setting differs from the "
           "lesson's, or chance played a part. Reset starts the lesson again.");
  pane_->showReveal(said, words(reader_.fill_in(step.reveal, step.values)));
}

QString LessonGuide::verdict(const StepState& s) const {
  const auto& prediction = now().prediction;
  if (!prediction) return {};
  if (prediction->number) {
    const auto measured = reader_.read(*prediction->number);
    const QString value = measured ? words(figure_text(*prediction->number, *measured)) : tr("nothing yet");
    if (s.number.isEmpty()) return tr("Measured: **%1**").arg(value);
    return tr("You said %1, measured **%2**. ").arg(s.number, value) +
           (s.right == true ? tr("Well judged!") : tr("That is what the experiment is for."));
  }
  const QString right = words(prediction->choices[static_cast<std::size_t>(prediction->right)]);
  if (s.right == true) return tr("**You predicted it:** %1").arg(right);
  if (s.right == false) return tr("Not what you expected? It happened otherwise: **%1**").arg(right);
  return tr("What happened: **%1**").arg(right);
}

}  // namespace moescope
