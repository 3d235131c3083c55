#include "app/lessons/lesson_pane.h"

#include <QEvent>
#include <QFrame>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "app/lessons/lesson_question.h"
#include "app/lessons/lesson_text.h"
#include "app/look/keep_keys.h"
#include "app/look/theme.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

constexpr double kTitleSize = 1.45;

const char* markText(LessonPane::Mark mark) {
  switch (mark) {
    case LessonPane::Mark::holds:
      return "\u2714";
    case LessonPane::Mark::fails:
      return "\u2718";
    case LessonPane::Mark::pending:
      break;
  }
  return "\u25cb";
}

}  // namespace

LessonPane::LessonPane(QWidget* parent) : QWidget(parent) {
  setObjectName("lesson_pane");
  setAccessibleName(tr("Lesson"));
  followFont(this, [this] { setMinimumWidth(withType(330, fontMetrics())); });
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(10, 8, 10, 8);
  column->setSpacing(6);
  makeHead(column);
  makePage(column);
  makeFoot(column);
  colour();
}

void LessonPane::makeHead(QBoxLayout* column) {
  auto* row = new QHBoxLayout;
  place_ = new QLabel(this);
  place_->setObjectName("lesson_place");
  auto* lessons = new QToolButton(this);
  lessons->setText(tr("Lessons"));
  lessons->setToolTip(tr("All lessons (Alt+L)"));
  lessons->setPopupMode(QToolButton::InstantPopup);
  lessons->setFocusPolicy(Qt::StrongFocus);
  keepKeys(lessons);
  connect(lessons, &QToolButton::clicked, this, [this, lessons] { emit lessonsRequested(lessons); });
  auto* leave = new QToolButton(this);
  leave->setText(tr("Leave"));
  leave->setToolTip(tr("End the lesson and bring back your own arrangement of panels"));
  leave->setFocusPolicy(Qt::StrongFocus);
  keepKeys(leave);
  connect(leave, &QToolButton::clicked, this, &LessonPane::leaveRequested);
  row->addWidget(place_, 1);
  row->addWidget(lessons);
  row->addWidget(leave);
  column->addLayout(row);
  title_ = new QLabel(this);
  title_->setWordWrap(true);
  setType(title_, kTitleSize, true);
  column->addWidget(title_);
  dots_ = new QLabel(this);
  column->addWidget(dots_);
}

QFrame* LessonPane::box(QBoxLayout* column, const QString& title, QBoxLayout** inside) {
  auto* frame = new QFrame;
  frame->setObjectName("lesson_box");
  *inside = new QVBoxLayout(frame);
  (*inside)->setContentsMargins(10, 8, 10, 10);
  (*inside)->setSpacing(6);
  auto* head = new QLabel(title);
  setType(head, 1, true);
  (*inside)->addWidget(head);
  column->addWidget(frame);
  return frame;
}

void LessonPane::makePage(QBoxLayout* column) {
  auto* page = new QWidget;
  auto* inside = new QVBoxLayout(page);
  inside->setContentsMargins(0, 4, 8, 4);
  inside->setSpacing(10);
  step_title_ = new QLabel;
  step_title_->setWordWrap(true);
  setType(step_title_, 1.2, true);
  inside->addWidget(step_title_);
  text_ = addLessonText(inside);
  QBoxLayout* predict = nullptr;
  predict_box_ = box(inside, tr("Predict"), &predict);
  question_ = new LessonQuestion;
  predict->addWidget(question_);
  missing_ = addLessonText(inside);
  missing_->setObjectName("lesson_missing");
  missing_->hide();
  do_box_ = box(inside, tr("Do"), &do_);
  check_box_ = box(inside, tr("Watch"), &check_);
  hint_ = new QToolButton;
  hint_->setText(tr("Hint"));
  hint_->setCheckable(true);
  hint_->setFocusPolicy(Qt::StrongFocus);
  keepKeys(hint_);
  inside->addWidget(hint_, 0, Qt::AlignLeft);
  hint_text_ = addLessonText(inside);
  connect(hint_, &QToolButton::toggled, hint_text_, &QWidget::setVisible);
  QBoxLayout* reveal = nullptr;
  reveal_box_ = box(inside, tr("What happened"), &reveal);
  verdict_ = addLessonText(reveal);
  reveal_text_ = addLessonText(reveal);
  inside->addStretch(1);
  scroll_ = new QScrollArea(this);
  scroll_->setWidgetResizable(true);
  scroll_->setFrameShape(QFrame::NoFrame);
  scroll_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll_->setWidget(page);
  column->addWidget(scroll_, 1);
}

// The reveal is offered where it is always seen, however far the page is scrolled.
void LessonPane::makeFoot(QBoxLayout* column) {
  reveal_ = new QPushButton(this);
  reveal_->setObjectName("lesson_reveal");
  setType(reveal_, kLessonTextSize);
  keepKeys(reveal_);
  connect(reveal_, &QPushButton::clicked, this, &LessonPane::revealRequested);
  column->addWidget(reveal_);
  auto* row = new QHBoxLayout;
  back_ = new QPushButton(tr("Back"), this);
  reset_ = new QPushButton(tr("Reset"), this);
  next_ = new QPushButton(tr("Next"), this);
  back_->setToolTip(tr("The step before (Alt+Left)"));
  reset_->setToolTip(tr("Start this lesson again, with a fresh run"));
  next_->setToolTip(tr("The next step (Alt+Right). Ctrl+Return does whatever comes next."));
  setType(next_, kLessonTextSize, true);
  for (QPushButton* button : {back_, reset_, next_}) {
    keepKeys(button);
    row->addWidget(button, button == next_ ? 2 : 1);
  }
  connect(back_, &QPushButton::clicked, this, &LessonPane::backRequested);
  connect(reset_, &QPushButton::clicked, this, &LessonPane::resetRequested);
  connect(next_, &QPushButton::clicked, this, &LessonPane::nextRequested);
  column->addLayout(row);
}

void LessonPane::showPage(const Page& page) {
  place_->setText(page.place);
  title_->setText(page.lesson);
  QString dots;
  for (int i = 0; i < page.steps; ++i) dots += i <= page.step ? QStringLiteral("\u25cf ") : QStringLiteral("\u25cb ");
  dots_->setText(dots);
  dots_->setAccessibleName(tr("Step %1 of %2").arg(page.step + 1).arg(page.steps));
  step_title_->setText(page.title);
  text_->setText(page.text);
  predict_box_->setVisible(!page.question.isEmpty());
  question_->ask(page.question, page.choices);
  hint_->setVisible(!page.hint.isEmpty());
  hint_->setChecked(false);
  hint_text_->setText(page.hint);
  hint_text_->hide();
  tasks_.clear(), checks_.clear();
  showTasks({}), showChecks({}), showReveal({}, {}), showMissing({});
  back_->setEnabled(!page.first);
  next_->setText(page.last ? tr("Finish") : tr("Next"));
  scroll_->verticalScrollBar()->setValue(0);
}

void LessonPane::showMissing(const QString& what) {
  missing_->setVisible(!what.isEmpty());
  missing_->setText(what);
}

void LessonPane::showTasks(const QList<Task>& tasks) {
  do_box_->setVisible(!tasks.isEmpty());
  if (tasks == tasks_ && task_buttons_.size() == tasks.size()) return;
  if (task_buttons_.size() != tasks.size()) {
    clearAfter(do_, 1);
    task_buttons_.clear();
    for (int i = 0; i < tasks.size(); ++i) {
      auto* button = new QPushButton;
      button->setObjectName("lesson_task");
      setType(button, kLessonTextSize);
      keepKeys(button);
      connect(button, &QPushButton::clicked, this, [this, i] { emit taskRequested(i); });
      do_->addWidget(button);
      task_buttons_ << button;
    }
  }
  tasks_ = tasks;
  for (int i = 0; i < tasks.size(); ++i) {
    const Task& task = tasks[i];
    const QString mark = task.done ? QStringLiteral("\u2714 ") : task.running ? QStringLiteral("\u2026 ") : QString();
    task_buttons_[i]->setText(mark + task.text);
    task_buttons_[i]->setEnabled(task.enabled);
  }
}

void LessonPane::showChecks(const QList<Check>& checks) {
  check_box_->setVisible(!checks.isEmpty());
  if (checks == checks_ && check_->count() == checks.size() + 1) return;
  if (check_->count() != checks.size() + 1) {
    clearAfter(check_, 1);
    for (int i = 0; i < checks.size(); ++i) {
      auto* row = new QWidget;
      auto* line = new QHBoxLayout(row);
      line->setContentsMargins(0, 0, 0, 0);
      auto* mark = new QLabel;
      auto* label = new QLabel;
      setType(mark, 1.3, true);
      mark->setObjectName("mark");
      mark->setMinimumWidth(22);
      label->setObjectName("check");
      label->setWordWrap(true);
      setType(label, kLessonTextSize);
      line->addWidget(mark, 0, Qt::AlignTop);
      line->addWidget(label, 1);
      check_->addWidget(row);
    }
  }
  const auto judged = [](const Check& check) { return check.mark != Mark::pending; };
  const bool first = !checks_.isEmpty() && std::none_of(checks_.begin(), checks_.end(), judged) &&
                     std::any_of(checks.begin(), checks.end(), judged);
  if (first) QTimer::singleShot(50, this, [this] { scroll_->ensureWidgetVisible(check_box_, 0, 8); });
  checks_ = checks;
  for (int i = 0; i < checks.size(); ++i) {
    QWidget* row = check_->itemAt(i + 1)->widget();
    row->findChild<QLabel*>("mark")->setText(markText(checks[i].mark));
    row->findChild<QLabel*>("check")->setText(
        QString("%1<br><b>%2</b>").arg(checks[i].text.toHtmlEscaped(), checks[i].value.toHtmlEscaped()));
  }
  colour();
}

void LessonPane::showReveal(const QString& verdict, const QString& text) {
  reveal_box_->setVisible(!verdict.isEmpty() || !text.isEmpty());
  verdict_->setVisible(!verdict.isEmpty());
  verdict_->setText(verdict);
  reveal_text_->setText(text);
}

void LessonPane::setRevealOffered(bool offered) {
  reveal_->setVisible(offered);
}

void LessonPane::setRevealEnabled(bool enabled, const QString& why_not) {
  const QString what = tr("What happened?");
  reveal_->setEnabled(enabled);
  reveal_->setText(enabled || why_not.isEmpty() ? what : what + "  " + why_not);
  setType(reveal_, kLessonTextSize, enabled);
}

void LessonPane::setNextText(const QString& text) {
  next_->setText(text);
}

// Once the layout knows how tall the new text is: its end in sight, its beginning first where both do not fit.
void LessonPane::scrollToReveal() {
  QTimer::singleShot(50, this, [this] {
    const int top = reveal_box_->y(), bottom = top + reveal_box_->height();
    QScrollBar* bar = scroll_->verticalScrollBar();
    bar->setValue(std::min(top, bottom - scroll_->viewport()->height() + 8));
  });
}

void LessonPane::goOn() {
  if (!question_->answered()) {
    if (QWidget* waits = question_->takeTyped()) {
      waits->setFocus(Qt::ShortcutFocusReason);
      scroll_->ensureWidgetVisible(waits);
    }
    return;
  }
  for (int i = 0; i < tasks_.size(); ++i)
    if (!tasks_[i].done) return tasks_[i].enabled ? emit taskRequested(i) : void();
  if (reveal_->isVisibleTo(this)) return reveal_->isEnabled() ? emit revealRequested() : void();
  emit nextRequested();
}

void LessonPane::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) colour();
  if (event->type() == QEvent::FontChange) renewType(this);
  QWidget::changeEvent(event);
}

// Marks are signs first; the colour only helps: blue as what the program calls chosen, orange as what warns.
void LessonPane::colour() {
  const QPalette p = palette();
  const QString muted = mutedColor(p).name();
  place_->setStyleSheet("color:" + muted);
  dots_->setStyleSheet("color:" + p.link().color().name());
  missing_->setStyleSheet("color:" + warningColor(p).name());
  setStyleSheet(
      QString("QFrame#lesson_box { background: %1; border: 1px solid %2; border-radius: 5px; }"
              "QRadioButton::indicator { width: 10px; height: 10px; border-radius: 7px; border: 2px solid %3; }"
              "QRadioButton::indicator:focus { border-color: %4; }"
              "QRadioButton::indicator:checked { border-color: %4; background: %4; }")
          .arg(p.alternateBase().color().name(), p.mid().color().name(), muted, p.link().color().name()));
  for (int i = 0; i < checks_.size() && i + 1 < check_->count(); ++i) {
    auto* mark = check_->itemAt(i + 1)->widget()->findChild<QLabel*>("mark");
    const QColor colour = checks_[i].mark == Mark::holds   ? p.link().color()
                          : checks_[i].mark == Mark::fails ? warningColor(p)
                                                           : mutedColor(p);
    mark->setStyleSheet("color:" + colour.name());
  }
}

}  // namespace moescope
