#include "app/lessons/lesson_actions.h"

#include <QDir>
#include <QDockWidget>
#include <QFileDialog>
#include <QInputDialog>
#include <QMainWindow>
#include <QMenuBar>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>

#include "app/actions/close_question.h"
#include "app/lessons/lesson_guide.h"
#include "app/lessons/lesson_pane.h"
#include "app/look/dialog_parts.h"
#include "app/session/progress_job.h"
#include "app/session/run_session.h"
#include "app/session/settings.h"
#include "app/workspaces/window_layout.h"
#include "core/files/whole_file.h"
#include "core/lessons/grading.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"

namespace moescope {

namespace {

constexpr int kPaneWidth = 400, kPaneWidthLarge = 480;
constexpr int kLargeWindow = 1600;

// Gives the page the same margin to the window's edges as the panels have to each other.
QWidget* inFrame(QWidget* page) {
  auto* around = new QWidget;
  auto* margins = new QVBoxLayout(around);
  margins->setContentsMargins(0, kSpace8, kSpace8, kSpace8);
  auto* card = new CardFrame;
  auto* inside = plainColumn(card);
  inside->addWidget(page);
  margins->addWidget(card);
  return around;
}

constexpr char kProblemSetFilter[] = "Problem sets (*.toml)";
// Groups of the settings: the score of each finished lesson, and the step of each other one that was begun.
constexpr char kScores[] = "lessons", kSteps[] = "lesson_steps";

}  // namespace

LessonActions::LessonActions(const Context& context, QMainWindow* window, LessonGuide* guide, LessonPane* pane,
                             WindowLayout* layout, bool keeps_scores)
    : Actions(context), window_(window), guide_(guide), pane_(pane), layout_(layout), keeps_scores_(keeps_scores) {
  makeDock();
  if (keeps_scores_) {
    QSettings store = settings();
    store.beginGroup(kScores);
    finished_ = store.childKeys();
    store.endGroup();
    store.beginGroup(kSteps);
    for (const QString& lesson : store.childKeys())
      if (const int step = store.value(lesson).toInt(); step >= 0) steps_[lesson] = step;
  }
  connect(pane_, &LessonPane::leaveRequested, this, &LessonActions::leave);
  connect(pane_, &LessonPane::lessonsRequested, this, &LessonActions::pageRequested);
  connect(pane_, &LessonPane::lessonRequested, this, [this](const QString& name) { start(name); });
  connect(guide_, &LessonGuide::lessonLeft, this, &LessonActions::giveWindowBack);
  connect(guide_, &LessonGuide::stepShown, this, &LessonActions::keepStep);
  connect(guide_, &LessonGuide::finished, this, [this](const QString& lesson, int right, int questions) {
    keepStep(lesson, -1);
    if (lesson.isEmpty()) return;
    if (!finished_.contains(lesson)) finished_ << lesson;
    if (keeps_scores_)
      settings().setValue(QString("%1/%2").arg(kScores, lesson), QString("%1 of %2").arg(right).arg(questions));
  });
  connect(guide_, &LessonGuide::nextLessonRequested, this, &LessonActions::startNext);
}

// Keeps the step at which the lesson goes on; -1: it begins anew.
void LessonActions::keepStep(const QString& lesson, int step) {
  if (step >= 0)
    steps_[lesson] = step;
  else
    steps_.remove(lesson);
  if (keeps_scores_) settings().setValue(QString("%1/%2").arg(kSteps, lesson), step);
}

void LessonActions::makeDock() {
  dock_ = new QDockWidget("Lesson", window_);
  dock_->setObjectName("dock_lesson");
  dock_->setTitleBarWidget(new QWidget(dock_));  // the page has its own head
  dock_->setWidget(inFrame(pane_));
  dock_->setAllowedAreas(Qt::LeftDockWidgetArea | Qt::RightDockWidgetArea);
  dock_->setFeatures(QDockWidget::DockWidgetMovable | QDockWidget::DockWidgetFloatable);
  window_->addDockWidget(Qt::RightDockWidgetArea, dock_);
  dock_->hide();
}

void LessonActions::addMenuTo(QMenuBar* bar) {
  QMenu* menu = bar->addMenu("Lesso&ns");
  menu->addAction("&All lessons", QKeySequence("Alt+L"), this, &LessonActions::pageRequested)
      ->setWhatsThis("All lessons: their subjects, and which are done");
  menu->addSeparator();
  const auto in_lesson = [this, menu](const QString& what, const QKeySequence& keys, auto act) {
    QAction* action = menu->addAction(what, keys, this, act);
    action->setEnabled(false);
    connect(this, &LessonActions::started, action, [action] { action->setEnabled(true); });
    connect(guide_, &LessonGuide::lessonLeft, action, [action] { action->setEnabled(false); });
  };
  in_lesson("&Next action", QKeySequence("Ctrl+Return"), [this] { pane_->goOn(); });
  in_lesson("Next &step", QKeySequence("Alt+Right"), [this] { guide_->next(); });
  in_lesson("Step &before", QKeySequence("Alt+Left"), [this] { guide_->back(); });
  in_lesson("&Restart this lesson", {}, [this] { guide_->reset(); });
  in_lesson("&Leave the lesson", {}, [this] { leave(); });
}

void LessonActions::askForm(const QString& problem_set) {
  auto* dialog = new QInputDialog(window_);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setObjectName("problem_set_student");
  dialog->setWindowTitle("Form of a problem set");
  dialog->setLabelText(
      "Your name, as the course knows it: letters a to z, digits, blanks and . _ @ + -\n"
      "The seed of your runs follows from it. Capitals do not matter, and a blank is the same as a hyphen.");
  dialog->setTextValue(student_);
  connect(dialog, &QInputDialog::textValueSelected, this,
          [this, problem_set](const QString& student) { writeForm(problem_set, student); });
  dialog->open();
}

void LessonActions::writeForm(const QString& problem_set, const QString& student) {
  student_ = student;
  const std::string name = student.toStdString();
  if (const std::string problem = student_problem(name); !problem.empty()) {
    askForm(problem_set);
    return messages_->warn("The name " + QString::fromStdString(problem));
  }
  const Assignment set = find_assignment(problem_set.toStdString(), seed_of_student(name)).assignment;
  save("Save the questions", problem_set + ".toml", hand_in_form(set, name));
}

// Asks for a file of a problem set, in the folder of the file before.
void LessonActions::save(const QString& title, const QString& suggested, const std::string& text) {
  messages_->saveAs(title, QDir(folder_).filePath(suggested), kProblemSetFilter, [&](const QString& path) {
    folder_ = QFileInfo(path).path();
    write_whole_file(path.toStdString(), text);
    messages_->saySaved(path);
  });
}

void LessonActions::askHandIn(const QString& problem_set) {
  const QString form = QFileDialog::getOpenFileName(window_, "Filled form", folder_, kProblemSetFilter);
  if (form.isEmpty()) return;
  folder_ = QFileInfo(form).path();
  messages_->warnOfErrors([&] { writeHandIn(problem_set, form); });
}

void LessonActions::writeHandIn(const QString& problem_set, const QString& form) {
  const ParsedHandIn parsed = load_hand_in(form.toStdString());
  if (!parsed.problems.empty()) return messages_->warn(linesOf(parsed.problems));
  if (const QString form_set = QString::fromStdString(parsed.hand_in.assignment); form_set != problem_set)
    return messages_->warn(QString("%1 is a form of the problem set %2, not of %3").arg(form, form_set, problem_set));
  const auto hand_in = std::make_shared<HandIn>(parsed.hand_in);
  auto* job = new ProgressJob("Training the runs of the hand-in", window_, [hand_in](const auto& progress) {
    const ParsedAssignment set = find_assignment(hand_in->assignment, seed_of_student(hand_in->student));
    if (!set.problems.empty()) throw std::runtime_error(set.problems.front().text());
    std::atomic<double> share = 0;
    fill_in_losses(
        *hand_in, set.assignment, [&](int ended, int all) { share = ended / static_cast<double>(all); },
        [&] { return progress(share); });
    return progress(1);
  });
  connect(job, &ProgressJob::failed, messages_, &Messages::warn);
  connect(job, &ProgressJob::workDone, this, [this, hand_in] {
    const std::string suggested = hand_in->student + "-" + hand_in->assignment + ".toml";
    save("Save the hand-in file", QString::fromStdString(suggested), to_toml(*hand_in));
  });
}

bool LessonProgress::isDone(const Lesson& lesson) const {
  return finished.contains(QString::fromStdString(lesson.name));
}

QString LessonProgress::placeIn(const Lesson& lesson) const {
  const auto step = steps.find(QString::fromStdString(lesson.name));
  return step == steps.end() ? QString() : QString("step %1 of %2").arg(*step + 1).arg(lesson.steps.size());
}

LessonProgress LessonActions::progress() const {
  return {finished_, active() ? QString::fromStdString(guide_->lesson().name) : QString(), steps_};
}

void LessonActions::start(const QString& name_or_path, Ask ask) {
  const ParsedLesson parsed = find_lesson(name_or_path.toStdString());
  const bool has_run =
      ask != Ask::never && session_->isLive() && session_->live()->status().step > 0 && !guide_->runsAreOurs();
  if (!has_run || parsed.lesson.runs.empty() || !parsed.problems.empty()) return begin(name_or_path);
  askToClose(*selection_, window_, "The lesson", "Start the lesson", [this, name_or_path] { begin(name_or_path); });
}

void LessonActions::begin(const QString& name_or_path) {
  const ParsedLesson parsed = find_lesson(name_or_path.toStdString());
  if (!parsed.problems.empty()) return messages_->warn(linesOf(parsed.problems));
  if (const QStringList unknown = LessonPanels::unknown(parsed.lesson, *workspaces_); !unknown.isEmpty())
    return messages_->warn(name_or_path + ": " + unknown.join("\n"));
  layout_->lendToLesson();
  emit started();
  guide_->start(parsed.lesson, index_in(lesson_names(), parsed.lesson.name), to_int(lesson_names().size()),
                steps_.value(QString::fromStdString(parsed.lesson.name)));
  showPane();
}

bool LessonActions::active() const {
  return guide_->active();
}

void LessonActions::leave() {
  guide_->leave();
}

// Shows the dock after the few panels of the lesson are arranged: with all panels of a workspace a small window would
// grow.
void LessonActions::showPane() {
  const QSize size = window_->size();
  dock_->show();
  pane_->setFocus();
  QTimer::singleShot(0, this, [this, size] {
    if (window_->width() > size.width()) window_->resize(size);
    const int width = window_->width() >= kLargeWindow ? kPaneWidthLarge : kPaneWidth;
    window_->resizeDocks({dock_}, {std::min(withType(width, pane_->fontMetrics()), window_->width() * 2 / 5)},
                         Qt::Horizontal);
  });
}

void LessonActions::setPaneShown(bool shown) {
  dock_->setVisible(shown && active());
}

void LessonActions::giveWindowBack() {
  layout_->takeBack();
  dock_->hide();
  emit lessonLeft();
}

void LessonActions::startNext() {
  const int next = index_in(lesson_names(), guide_->lesson().name) + 1;
  if (next <= 0 || next >= to_int(lesson_names().size())) return emit pageRequested();
  start(QString::number(next + 1));
}

}  // namespace moescope
