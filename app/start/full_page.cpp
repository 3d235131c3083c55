#include "app/start/full_page.h"

#include <QKeyEvent>

#include "app/lessons/lesson_text.h"
#include "app/look/dialog_parts.h"
#include "app/look/theme.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

constexpr int kNextDigitMs = 1500;  // time for the second digit of a number
constexpr int kPageWidth = 1200;

}  // namespace

LessonsPage::LessonsPage(QWidget* parent)
    : FullPage("lessons_page", "Lessons", parent), list_(new LessonList(LessonList::Form::whole)) {
  QToolButton* start = flatButton("Start page", {}, "lessons_start_page");
  QToolButton* plan = flatButton(
      "Plan of a course", "Two sessions of 90 minutes, notes for the lecturer, problem sets (F1)", "lessons_plan");
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

FullPage::FullPage(const char* name, const QString& title, QWidget* parent)
    : QScrollArea(parent),
      heading_(pageText(title, Type::figure)),
      about_(pageText({}, Type::body, true)),
      back_(flatButton({}, "Shows the panels (Esc)", "page_back")),
      head_(plainRow(kSpace12)) {
  setObjectName(name);
  setAccessibleName(title);
  setWidgetResizable(true);
  setFrameShape(QFrame::NoFrame);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  viewport()->setAutoFillBackground(false);
  auto* centred = new QWidget;
  auto* page = new QWidget;
  auto* row = new QHBoxLayout(centred);
  row->setContentsMargins(kSpace24, kSpace16, kSpace24, kSpace8);
  row->addStretch(1);
  row->addWidget(page, 1000);
  row->addStretch(1);
  column_ = plainColumn(page, kSpace8);
  head_->addWidget(heading_, 1);
  head_->addWidget(back_);
  column_->addLayout(head_);
  column_->addWidget(about_);
  connect(back_, &QToolButton::clicked, this, &FullPage::backRequested);
  setWidget(centred);
  centred->setAutoFillBackground(false);
  followFont(page, [page] { page->setMaximumWidth(withType(kPageWidth, page->fontMetrics())); });
  FullPage::setBack({});
  hide();
}

void FullPage::setBack(const QString& text) {
  back_->setVisible(!text.isEmpty());
  back_->setText(text);
}

void FullPage::setHeading(const QString& heading, const QString& about) {
  heading_->setText(heading);
  about_->setText(about);
}

void FullPage::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Escape) return emit backRequested();
  QScrollArea::keyPressEvent(event);
}

void FullPage::showEvent(QShowEvent* event) {
  QScrollArea::showEvent(event);
  emit shown();
}

QLabel* FullPage::pageText(const QString& text, Type type, bool muted) {
  auto* label = new QLabel(text);
  setType(label, type, !muted);
  label->setWordWrap(true);
  if (muted) label->setForegroundRole(QPalette::PlaceholderText);
  return label;
}

QPushButton* FullPage::pageButton(const QString& text, const char* name, bool primary) {
  auto* made = new QPushButton(text);
  made->setObjectName(name);
  made->setProperty(kPrimaryProperty, primary);
  keepKeys(made);
  return made;
}

}  // namespace moescope
