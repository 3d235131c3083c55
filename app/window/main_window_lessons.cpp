// Guided lessons: their dock and menu, and the person's own arrangement of the window, which comes back afterwards.
#include <QDockWidget>
#include <QFileDialog>
#include <QMenuBar>
#include <QMessageBox>
#include <QPushButton>
#include <QTimer>
#include <QToolButton>

#include "app/lessons/lesson_guide.h"
#include "app/lessons/lesson_pane.h"
#include "app/session/settings.h"
#include "app/window/main_window.h"
#include "app/workspaces/workspace.h"

namespace moescope {

namespace {

constexpr int kLayoutVersion = 1;  // of own_layout_, which never leaves the process
constexpr int kPaneWidth = 400, kPaneWidthLarge = 480;
constexpr int kLargeWindow = 1600;

QString problemText(const std::vector<ConfigProblem>& problems) {
  QStringList lines;
  for (const ConfigProblem& problem : problems) lines << QString::fromStdString(problem.text());
  return lines.join("\n");
}

int numberOf(const QString& name) {
  const std::vector<std::string> names = lesson_names();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name.toStdString()) return static_cast<int>(i);
  return -1;
}

QString scoreKey(const QString& lesson) {
  return "lessons/" + lesson;
}

}  // namespace

void MainWindow::buildLessons() {
  lesson_pane_ = new LessonPane;
  lesson_dock_ = new QDockWidget("Lesson", this);
  lesson_dock_->setObjectName("dock_lesson");
  lesson_dock_->setAllowedAreas(Qt::LeftDockWidgetArea | Qt::RightDockWidgetArea);
  lesson_dock_->setFeatures(QDockWidget::DockWidgetMovable | QDockWidget::DockWidgetFloatable);
  lesson_dock_->setTitleBarWidget(new QWidget(lesson_dock_));  // the page has a head of its own
  lesson_dock_->setWidget(lesson_pane_);
  setCorner(Qt::TopRightCorner, Qt::RightDockWidgetArea);
  setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
  addDockWidget(Qt::RightDockWidgetArea, lesson_dock_);
  lesson_dock_->hide();
  guide_ = new LessonGuide(this, lesson_pane_);
  connect(lesson_pane_, &LessonPane::leaveRequested, this, &MainWindow::leaveLesson);
  connect(lesson_pane_, &LessonPane::lessonsRequested, this, [this](QWidget* beside) {
    fillLessonMenu();
    lesson_menu_->popup(beside->mapToGlobal(QPoint(0, beside->height())));
  });
  connect(guide_, &LessonGuide::left, this, &MainWindow::giveLayoutBack);
  connect(guide_, &LessonGuide::finished, this, [this](const QString& lesson, int right, int asked) {
    if (remembers_ && !lesson.isEmpty())
      settings().setValue(scoreKey(lesson), QString("%1 of %2").arg(right).arg(asked));
  });
  connect(guide_, &LessonGuide::nextLessonRequested, this, [this] {
    const int next = numberOf(QString::fromStdString(guide_->lesson().name)) + 1;
    if (next <= 0 || next >= static_cast<int>(lesson_names().size())) return leaveLesson();
    startLesson(QString::number(next + 1));
  });
}

void MainWindow::buildLessonMenu() {
  lesson_menu_ = menuBar()->addMenu("&Lessons");
  lesson_menu_->setProperty("fills_itself", true);
  connect(lesson_menu_, &QMenu::aboutToShow, this, &MainWindow::fillLessonMenu);
  const auto key = [this](const QKeySequence& keys, const QString& what, auto act) {
    auto* action = new QAction(what, this);
    action->setShortcut(keys);
    connect(action, &QAction::triggered, this, [this, act] {
      if (guide_->active()) act();
    });
    addAction(action);
  };
  key(QKeySequence("Ctrl+Return"), "In a lesson: whatever comes next", [this] { lesson_pane_->goOn(); });
  key(QKeySequence("Alt+Right"), "In a lesson: next step", [this] { guide_->next(); });
  key(QKeySequence("Alt+Left"), "In a lesson: step before", [this] { guide_->back(); });
}

void MainWindow::fillLessonMenu() {
  lesson_menu_->clear();
  const QSettings store = settings();
  int number = 0;
  for (const std::string& name : lesson_names()) {
    const QString lesson = QString::fromStdString(name);
    const QString score = store.value(scoreKey(lesson)).toString();
    const QString title = QString::fromStdString(find_lesson(name).lesson.title);
    QAction* action = lesson_menu_->addAction(
        QString("&%1  %2%3").arg(++number).arg(title, score.isEmpty() ? QString() : QString("  \u2714 %1").arg(score)),
        this, [this, lesson] { startLesson(lesson); });
    action->setToolTip(QString::fromStdString(find_lesson(name).lesson.teaches));
  }
  lesson_menu_->setToolTipsVisible(true);
  lesson_menu_->addSeparator();
  lesson_menu_->addAction("&Open a lesson file...", this, [this] {
    const QString path = QFileDialog::getOpenFileName(this, "Open lesson", QString(), "Lessons (*.toml)");
    if (!path.isEmpty()) startLesson(path);
  });
  lesson_menu_->addAction("&Leave the lesson", this, &MainWindow::leaveLesson)->setEnabled(guide_->active());
}

void MainWindow::startLesson(const QString& name_or_path) {
  if (session_.opening()) return;
  const bool has_run = session_.isLive() && session_.lab()->status().step > 0 && !guide_->runsAreOurs();
  const ParsedLesson parsed = find_lesson(name_or_path.toStdString());
  if (!has_run || parsed.lesson.runs.empty() || !parsed.problems.empty()) return beginLesson(name_or_path);
  session_.lab()->pause();
  const QString kept = session_.path().isEmpty()
                           ? QString("It was not recorded.")
                           : QString("What it did so far stays in its recording:\n%1").arg(session_.path());
  auto* box = new QMessageBox(QMessageBox::Question, "MoEScope",
                              QString("The lesson trains a model of its own in place of the run \"%1\". %2")
                                  .arg(QString::fromStdString(session_.config().name), kept),
                              QMessageBox::Cancel, this);
  box->addButton("Start the lesson", QMessageBox::AcceptRole)->setObjectName("start_lesson");
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->setObjectName("lesson_question");
  connect(box, &QMessageBox::buttonClicked, this, [this, box, name_or_path](QAbstractButton* button) {
    if (box->buttonRole(button) == QMessageBox::AcceptRole) beginLesson(name_or_path);
  });
  box->open();
}

void MainWindow::beginLesson(const QString& name_or_path) {
  const ParsedLesson parsed = find_lesson(name_or_path.toStdString());
  if (!parsed.problems.empty()) return complain(problemText(parsed.problems));
  if (const QStringList unknown = LessonGuide::unknownPanels(parsed.lesson, workspaces()); !unknown.isEmpty())
    return complain(name_or_path + ": " + unknown.join("\n"));
  takeLayoutForLesson();
  guide_->start(parsed.lesson, numberOf(QString::fromStdString(parsed.lesson.name)),
                static_cast<int>(lesson_names().size()));
  lesson_pane_->setFocus();
}

void MainWindow::takeLayoutForLesson() {
  if (!guide_->active()) {
    own_layout_ = {{"window", saveState(kLayoutVersion)}, {"workspace", workspace()->name()}};
    for (const Workspace* each : workspaces()) own_layout_["workspaces/" + each->name()] = each->remembered();
  }
  form_dock_->hide();
  lesson_dock_->show();
  QTimer::singleShot(0, this, [this] {
    resizeDocks({lesson_dock_}, {width() >= kLargeWindow ? kPaneWidthLarge : kPaneWidth}, Qt::Horizontal);
  });
}

void MainWindow::leaveLesson() {
  guide_->leave();
}

void MainWindow::giveLayoutBack() {
  restoreState(own_layout_["window"].toByteArray(), kLayoutVersion);
  lesson_dock_->hide();
  for (Workspace* each : workspaces()) each->restore(own_layout_["workspaces/" + each->name()].toMap());
  showWorkspace(own_layout_["workspace"].toString());
}

void MainWindow::startLessonRuns(const std::vector<RunConfig>& configs) {
  setUntil({});
  run_when_open_ = false;
  guarded([&] { session_.start(configs, QString()); });
}

void MainWindow::runUntil(qint64 step) {
  if (!session_.isLive()) return;
  setUntil(step);
  goOn();
}

}  // namespace moescope
