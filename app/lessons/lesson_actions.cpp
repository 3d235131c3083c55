#include "app/lessons/lesson_actions.h"

#include <QDockWidget>
#include <QFileDialog>
#include <QMainWindow>
#include <QMenuBar>
#include <QMessageBox>
#include <QPushButton>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>

#include "app/lessons/claims_window.h"
#include "app/lessons/lesson_guide.h"
#include "app/lessons/lesson_pane.h"
#include "app/look/card_frame.h"
#include "app/session/run_session.h"
#include "app/session/settings.h"
#include "app/workspaces/window_layout.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/config/config_check.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

constexpr int kPaneWidth = 400, kPaneWidthLarge = 480;
constexpr int kLargeWindow = 1600;

int numberOf(const std::string& name) {  // number of a built-in lesson, from 0; -1: another lesson
  const std::vector<std::string> names = lesson_names();
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

// Returns the number with its mnemonic: the keys 1 to 9 and, for the tenth lesson, 0. Later numbers have none, since
// two entries with the same key would both wait for Return.
QString mnemonic(int number) {
  QString text = QString::number(number);
  return text.insert(number == 10 ? 1 : 0, number <= 10 ? "&" : "");
}

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

QString scoreKey(const QString& lesson) {
  return "lessons/" + lesson;
}

}  // namespace

LessonActions::LessonActions(const Context& context, QMainWindow* window, LessonGuide* guide, LessonPane* pane,
                             WindowLayout* layout, bool keeps_scores)
    : Actions(context), window_(window), guide_(guide), pane_(pane), layout_(layout), keeps_scores_(keeps_scores) {
  makeDock();
  connect(pane_, &LessonPane::leaveRequested, this, &LessonActions::leave);
  connect(pane_, &LessonPane::lessonsRequested, this, [this](QWidget* button) {
    fillMenu();
    menu_->popup(button->mapToGlobal(QPoint(0, button->height())));
  });
  connect(guide_, &LessonGuide::left, this, &LessonActions::giveWindowBack);
  connect(guide_, &LessonGuide::finished, this, [this](const QString& lesson, int right, int questions) {
    if (keeps_scores_ && !lesson.isEmpty())
      settings().setValue(scoreKey(lesson), QString("%1 of %2").arg(right).arg(questions));
  });
  connect(guide_, &LessonGuide::nextLessonRequested, this, &LessonActions::startNext);
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
  menu_ = bar->addMenu("&Lessons");
  menu_->setProperty("fills_itself", true);
  connect(menu_, &QMenu::aboutToShow, this, &LessonActions::fillMenu);
  const auto key = [this](const QKeySequence& keys, const QString& what, auto act) {
    auto* action = new QAction(what, window_);
    action->setShortcut(keys);
    connect(action, &QAction::triggered, this, [this, act] {
      if (guide_->active()) act();
    });
    window_->addAction(action);
  };
  key(QKeySequence("Ctrl+Return"), "Lesson: next action", [this] { pane_->goOn(); });
  key(QKeySequence("Alt+Right"), "Lesson: next step", [this] { guide_->next(); });
  key(QKeySequence("Alt+Left"), "Lesson: step before", [this] { guide_->back(); });
}

void LessonActions::fillMenu() {
  qDeleteAll(menu_->findChildren<QMenu*>(Qt::FindDirectChildrenOnly));
  menu_->clear();
  const QSettings store = settings();
  int number = 0;
  for (const std::string& name : lesson_names()) {
    const QString lesson = QString::fromStdString(name);
    const Lesson about = find_lesson(name).lesson;
    const QString score = store.value(scoreKey(lesson)).toString();
    QAction* action = menu_->addAction(QString("%1  %2, %3 min%4")
                                           .arg(mnemonic(++number), QString::fromStdString(about.title))
                                           .arg(about.minutes)
                                           .arg(score.isEmpty() ? QString() : QString("  \u2714 %1").arg(score)),
                                       this, [this, lesson] { start(lesson); });
    action->setToolTip(QString::fromStdString(about.teaches));
  }
  QMenu* faults = menu_->addMenu("&Faults of real trainings");
  for (const std::string& name : exhibit_names()) {
    const Lesson about = find_lesson(name).lesson;
    QAction* action = faults->addAction(QString::fromStdString(about.title), this,
                                        [this, name] { start(QString::fromStdString(name)); });
    action->setToolTip(QString::fromStdString(about.teaches));
  }
  for (QMenu* menu : {menu_, faults}) menu->setToolTipsVisible(true);
  menu_->addAction("&Published claims", this, [this] { showClaims(window_); })
      ->setToolTip("Claims of papers and threads about MoE training, tested on small models");
  menu_->addSeparator();
  menu_->addAction("&Open a lesson file...", this, [this] {
    const QString path = QFileDialog::getOpenFileName(window_, "Open lesson", QString(), "Lessons (*.toml)");
    if (!path.isEmpty()) start(path);
  });
  menu_->addAction("&Restart this lesson", guide_, &LessonGuide::reset)->setEnabled(guide_->active());
  menu_->addAction("&Leave the lesson", this, &LessonActions::leave)->setEnabled(guide_->active());
}

void LessonActions::start(const QString& name_or_path, Ask ask) {
  const bool has_run =
      ask != Ask::never && session_->isLive() && session_->live()->status().step > 0 && !guide_->runsAreOurs();
  const ParsedLesson parsed = find_lesson(name_or_path.toStdString());
  if (!has_run || parsed.lesson.runs.empty() || !parsed.problems.empty()) return begin(name_or_path);
  const bool running = session_->live()->status().running;
  session_->live()->pause();
  const QString place = session_->path().isEmpty()
                            ? QString("It was not recorded.")
                            : QString("Its steps stay in the recording\n%1").arg(session_->path());
  auto* box = new QMessageBox(QMessageBox::Question, "MoEScope",
                              QString("The lesson replaces the run \"%1\" with runs of its own. %2")
                                  .arg(QString::fromStdString(session_->config().name), place),
                              QMessageBox::Cancel, window_);
  box->addButton("Start the lesson", QMessageBox::AcceptRole)->setObjectName("start_lesson");
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->setObjectName("lesson_question");
  connect(box, &QMessageBox::finished, this, [this, box, name_or_path, running, of = session_->live()] {
    if (box->clickedButton() && box->buttonRole(box->clickedButton()) == QMessageBox::AcceptRole)
      begin(name_or_path);
    else if (running && session_->live() == of)
      emit goOnRequested();
  });
  box->open();
}

void LessonActions::begin(const QString& name_or_path) {
  const ParsedLesson parsed = find_lesson(name_or_path.toStdString());
  if (!parsed.problems.empty()) return messages_->warn(linesOf(parsed.problems));
  if (const QStringList unknown = LessonPanels::unknown(parsed.lesson, *workspaces_); !unknown.isEmpty())
    return messages_->warn(name_or_path + ": " + unknown.join("\n"));
  layout_->lendToLesson();
  emit started();
  guide_->start(parsed.lesson, numberOf(parsed.lesson.name), lesson_names().size());
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

void LessonActions::giveWindowBack() {
  layout_->takeBack();
  dock_->hide();
}

void LessonActions::startNext() {
  const int next = numberOf(guide_->lesson().name) + 1;
  if (next <= 0 || next >= static_cast<int>(lesson_names().size())) return leave();
  start(QString::number(next + 1));
}

}  // namespace moescope
