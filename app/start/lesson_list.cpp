#include "app/start/lesson_list.h"

#include <QAbstractButton>
#include <QBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QPushButton>
#include <algorithm>

#include "app/lessons/lesson_text.h"
#include "app/look/dialog_parts.h"
#include "core/lessons/assignment.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/axis.h"

namespace moescope {
namespace {

constexpr int kOneColumn = 720;  // width below which the groups are below each other

std::vector<Lesson> read(const std::vector<std::string>& names) {
  std::vector<Lesson> lessons;
  for (const std::string& name : names) lessons.push_back(find_lesson(name).lesson);
  return lessons;
}

// Read once, since the pages are shown often.
const std::vector<Lesson>& lessons() {
  static const std::vector<Lesson> all = read(lesson_names());
  return all;
}

const std::vector<Lesson>& exhibits() {
  static const std::vector<Lesson> all = read(exhibit_names());
  return all;
}

QLabel* wrappedText(const QString& text, Type type, bool is_bold) {
  auto* label = new QLabel(text);
  label->setWordWrap(true);
  setType(label, type, is_bold);
  return label;
}

qsizetype doneCount(const std::vector<Lesson>& lessons, const LessonProgress& progress) {
  return std::ranges::count_if(lessons, [&](const Lesson& lesson) { return progress.isDone(lesson); });
}

}  // namespace

// One lesson, or an exhibit, which has no number and stands below its lesson.
class LessonRow : public QAbstractButton {
 public:
  LessonRow(const Lesson& lesson, int number, bool is_whole) : lesson_(&lesson), number_(number) {
    showSubject(is_whole);
    setText(printedText(lesson.title));
    setToolTip(printedText(lesson.subject));
    setObjectName("lesson_row");
    setFocusPolicy(Qt::StrongFocus);
    setAttribute(Qt::WA_Hover);
    setCursor(Qt::PointingHandCursor);
    keepKeys(this);
    QSizePolicy policy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    policy.setHeightForWidth(true);
    setSizePolicy(policy);
  }

  void showSubject(bool shown) {
    about_ = shown ? printedText(lesson_->subject) : QString();
    updateGeometry();
  }

  const Lesson& lesson() const { return *lesson_; }
  int number() const { return number_; }

  void showProgress(const LessonProgress& progress) {
    is_open_ = progress.open_lesson == QString::fromStdString(lesson_->name);
    mark_ = number_ > 0 ? LessonMark::waiting : LessonMark::fault;
    const QString place = progress.placeIn(*lesson_);
    note_ = QString(number_ > 0 ? "%1 min" : "fault, %1 min").arg(lesson_->minutes);
    if (!place.isEmpty()) {
      mark_ = LessonMark::running;
      note_ = place;
    }
    if (progress.isDone(*lesson_)) mark_ = LessonMark::done;
    const QString name = number_ > 0 ? QString("Lesson %1: %2").arg(number_).arg(text()) : "Fault: " + text();
    setAccessibleName(QString("%1, %2, %3").arg(name, note_, mark_ == LessonMark::done ? "done" : "not done"));
    updateGeometry();
    update();
  }

  QSize sizeHint() const override { return {0, heightForWidth(width())}; }
  int heightForWidth(int width) const override {
    const int lines = titleHeight(width) + (number_ > 0 ? kSpace8 : kSpace4);
    return about_.isEmpty() ? lines : lines + wrappedHeight(about_, aboutMetrics(), width - indent() - kSpace8);
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    const Colors& c = colors(palette());
    if (is_open_ || underMouse())
      drawRounded(painter, rect(), kRadiusControl, QColor(is_open_ ? c.accent_soft : c.neutral_soft), Qt::transparent);
    if (showsFocus(*this)) drawRounded(painter, rect(), kRadiusControl, Qt::transparent, QColor(c.accent), 2);
    const int mark = withType(kMarkSize, fontMetrics()), line = titleMetrics().height();
    QRect room(indent() - mark - kSpace8, number_ > 0 ? kSpace4 : 2, width() - indent() + mark, line);
    paintLessonMark(painter, QRect(room.left(), room.top() + (line - mark) / 2, mark, mark), mark_, palette());
    room.setLeft(indent());
    painter.setPen(QColor(c.ink2));
    painter.setFont(typeFont(font(), Type::secondary));
    painter.drawText(room, Qt::AlignRight | Qt::AlignVCenter, note_);
    const int title_height = titleHeight(width());
    painter.drawText(QRect(room.left(), room.top() + title_height, room.width(), height()), Qt::TextWordWrap, about_);
    painter.setFont(font());
    if (number_ > 0) painter.drawText(room, Qt::AlignLeft | Qt::AlignVCenter, QString::number(number_));
    painter.setPen(QColor(c.ink));
    painter.setFont(titleFont());
    const QRect title(room.left() + numberWidth(), room.top(), titleWidth(width()), title_height);
    painter.drawText(title, Qt::TextWordWrap, text());
  }

 private:
  int indent() const { return (number_ > 0 ? 1 : 2) * (withType(kMarkSize, fontMetrics()) + kSpace8) + kSpace8; }
  int numberWidth() const { return number_ > 0 ? fontMetrics().horizontalAdvance("12") + kSpace8 : 0; }
  int titleWidth(int width) const {
    // Any note has room, so that no row of the page moves; the list of titles has no room to spare.
    const QString widest = about_.isEmpty() ? note_ : QString("step 10 of 10");
    return width - indent() - numberWidth() - 2 * kSpace8 - aboutMetrics().horizontalAdvance(widest);
  }
  int titleHeight(int width) const { return wrappedHeight(text(), titleMetrics(), titleWidth(width)); }
  static int wrappedHeight(const QString& text, const QFontMetrics& metrics, int width) {
    return metrics.boundingRect(QRect(0, 0, std::max(1, width), 1000), Qt::TextWordWrap, text).height();
  }
  QFont titleFont() const { return number_ > 0 ? semibold(font()) : typeFont(font(), Type::secondary); }
  QFontMetrics titleMetrics() const { return QFontMetrics(titleFont()); }
  QFontMetrics aboutMetrics() const { return QFontMetrics(typeFont(font(), Type::secondary)); }

  const Lesson* lesson_;
  const int number_;  // from 1; 0: an exhibit
  QString about_, note_;
  LessonMark mark_ = LessonMark::waiting;
  bool is_open_ = false;
};

NextLesson nextLesson(const LessonProgress& progress) {
  const std::vector<Lesson>& all = lessons();
  const auto is_left = [&](const Lesson& lesson) { return !progress.isDone(lesson); };
  const auto has_begun = [&](const Lesson& lesson) {
    return !progress.placeIn(lesson).isEmpty() &&
           (is_left(lesson) || lesson.name == progress.open_lesson.toStdString());
  };
  auto next = std::ranges::find(all, progress.open_lesson.toStdString(), &Lesson::name);
  if (next == all.end()) next = std::ranges::find_if(all, has_begun);
  if (next == all.end() || !has_begun(*next)) next = std::find_if(next, all.end(), is_left);
  if (next == all.end()) next = std::ranges::find_if(all, is_left);
  if (next == all.end()) next = all.begin();
  const auto number = next - all.begin() + 1;
  const QString place = has_begun(*next) ? progress.placeIn(*next) : QString();
  const QString button = place.isEmpty() && next == all.begin() ? "Start lesson %1" : "Continue with lesson %1";
  return {QString::fromStdString(next->name),
          button.arg(number) + (place.isEmpty() ? QString() : ", " + place.section(" of", 0, 0)),
          QString("lesson %1, %2, %3")
              .arg(number)
              .arg(printedText(next->title), place.isEmpty() ? QString("%1 minutes").arg(next->minutes) : place)};
}

QString progressText(const LessonProgress& progress) {
  int minutes = 0, minutes_left = 0;
  for (const Lesson& lesson : lessons()) {
    minutes += lesson.minutes;
    minutes_left += progress.isDone(lesson) ? 0 : lesson.minutes;
  }
  return QString("%1 of %2 done, %3 of %4 minutes left; %5 of %6 faults seen")
      .arg(doneCount(lessons(), progress))
      .arg(lessons().size())
      .arg(minutes_left)
      .arg(minutes)
      .arg(doneCount(exhibits(), progress))
      .arg(exhibits().size());
}

LessonList::LessonList(Form form, QWidget* parent) : QWidget(parent), form_(form), groups_(plainRow(this, kSpace8)) {
  std::vector<std::string> names;
  for (const Lesson& lesson : lessons())
    if (std::ranges::find(names, lesson.group) == names.end()) names.push_back(lesson.group);
  const std::string shortest = *std::ranges::min_element(
      names, {}, [](const std::string& name) { return std::ranges::count(lessons(), name, &Lesson::group); });
  for (const std::string& name : names) {
    auto* column = plainColumn(nullptr);
    auto* card = new LessonCard(QString::fromStdString(name), column);
    card->inside()->setContentsMargins(kSpace4, kSpace8, kSpace4, kSpace8);
    card->inside()->itemAt(0)->widget()->setContentsMargins(kSpace8, 0, kSpace8, 0);
    card->inside()->setSpacing(form == Form::whole ? kSpace4 : 0);
    groups_->addLayout(column, 1);
    int number = 0;
    for (const Lesson& lesson : lessons()) {
      ++number;
      if (lesson.group != name) continue;
      addRow(card->inside(), lesson, number);
      for (const Lesson& exhibit : exhibits())
        if (form == Form::whole && exhibit.explained_by == lesson.name) addRow(card->inside(), exhibit, 0);
    }
    if (form == Form::whole && name == shortest) addProblemSets(column);
    card->inside()->addStretch(1);
    column->setStretchFactor(card, 1);  // cards of equal heights
  }
}

void LessonList::addRow(QBoxLayout* column, const Lesson& lesson, int number) {
  auto* row = new LessonRow(lesson, number, form_ == Form::whole);
  connect(row, &QAbstractButton::clicked, this,
          [this, row] { emit chosen(QString::fromStdString(row->lesson().name)); });
  column->addWidget(row);
  rows_ << row;
}

// Adds a card with the problem sets, whose runs are trained again when they are graded.
void LessonList::addProblemSets(QBoxLayout* column) {
  auto* card = new LessonCard("Problem sets: forms to fill in with a text editor", column);
  card->inside()->setSpacing(kSpace4);
  for (const std::string& name : assignment_names()) {
    const Assignment assignment = find_assignment(name, 1).assignment;
    const Lesson& set = assignment.lesson;
    auto* form = new QPushButton("Questions...");
    form->setObjectName("problem_set_form");
    form->setAccessibleName("Save the questions of " + printedText(set.title));
    form->setToolTip("The questions of the set, the seed of a student, and the commands that train the runs");
    connect(form, &QPushButton::clicked, this, [this, name] { emit formRequested(QString::fromStdString(name)); });
    card->inside()->addWidget(wrappedText(printedText(set.title), Type::body, true));
    card->inside()->addWidget(wrappedText(printedText(set.subject), Type::secondary, false));
    auto* hand_in = new QPushButton("Hand-in file...");
    hand_in->setObjectName("problem_set_hand_in");
    hand_in->setAccessibleName("Make the hand-in file of " + printedText(set.title));
    hand_in->setToolTip("Trains the runs of a filled form and adds the hashes of their losses");
    connect(hand_in, &QPushButton::clicked, this, [this, name] { emit handInRequested(QString::fromStdString(name)); });
    auto* row = plainRow(kSpace8);
    const QString size = QString("%1 min, %2 marks").arg(set.minutes).arg(max_marks(assignment));
    row->addWidget(wrappedText(size, Type::secondary, false), 1);
    row->addWidget(form);
    row->addWidget(hand_in);
    card->inside()->addLayout(row);
  }
}

void LessonList::showProgress(const LessonProgress& progress) {
  for (LessonRow* row : rows_) row->showProgress(progress);
}

void LessonList::showSubjects(bool shown) {
  for (LessonRow* row : rows_) row->showSubject(shown);
}

void LessonList::focusRow(int number) {
  for (LessonRow* row : rows_)
    if (row->number() == number) row->setFocus(Qt::ShortcutFocusReason);
}

void LessonList::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  const bool is_narrow = width() < withType(kOneColumn, fontMetrics());
  groups_->setDirection(is_narrow ? QBoxLayout::TopToBottom : QBoxLayout::LeftToRight);
}

}  // namespace moescope
