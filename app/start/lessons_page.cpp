#include "app/start/lessons_page.h"

#include <QKeyEvent>

namespace moescope {
namespace {

constexpr int kNextDigitMs = 1500;  // time for the second digit of a number

}  // namespace

LessonsPage::LessonsPage(QWidget* parent)
    : FullPage("lessons_page", "Lessons", parent), list_(new LessonList(LessonList::Form::whole)) {
  QToolButton* start = flatButton("Start page", "lessons_start_page");
  QToolButton* plan = flatButton("Plan of a course", "lessons_plan");
  plan->setToolTip("Two sessions of 90 minutes, notes for the lecturer, problem sets (F1)");
  next_ = pageButton({}, "lessons_next", true);
  for (QWidget* button : std::initializer_list<QWidget*>{start, plan, next_}) headRow()->addWidget(button);
  column()->addWidget(list_);
  column()->addStretch(1);
  connect(list_, &LessonList::chosen, this, &LessonsPage::chosen);
  connect(next_, &QPushButton::clicked, this, [this] { emit chosen(next_lesson_); });
  connect(plan, &QToolButton::clicked, this, &LessonsPage::planRequested);
  connect(start, &QToolButton::clicked, this, &LessonsPage::startPageRequested);
}

void LessonsPage::showProgress(const LessonProgress& progress) {
  list_->showProgress(progress);
  setHeading("Lessons", progressText(progress));
  const NextLesson next = nextLesson(progress);
  next_->setText(next.button);
  next_lesson_ = next.name;
}

void LessonsPage::keyPressEvent(QKeyEvent* event) {
  const QString digit = event->text();
  if (digit.size() != 1 || !digit[0].isDigit()) return FullPage::keyPressEvent(event);
  const bool goes_on = since_typed_.isValid() && since_typed_.elapsed() < kNextDigitMs;
  typed_ = goes_on ? typed_ + digit : digit;
  since_typed_.start();
  list_->focusRow(typed_.toInt());
}

}  // namespace moescope
