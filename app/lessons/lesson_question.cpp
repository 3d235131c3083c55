#include "app/lessons/lesson_question.h"

#include <QButtonGroup>
#include <QEvent>
#include <QHBoxLayout>
#include <QLocale>
#include <QRadioButton>
#include <QVBoxLayout>

#include "app/lessons/lesson_text.h"
#include "app/look/keep_keys.h"

namespace moescope {

namespace {

constexpr int kSkipped = -2;  // -1 means to a QButtonGroup: give it an id

}  // namespace

LessonQuestion::LessonQuestion(QWidget* parent) : QWidget(parent) {
  column_ = new QVBoxLayout(this);
  column_->setContentsMargins(0, 0, 0, 0);
  column_->setSpacing(6);
  question_ = addLessonText(column_);
  choices_ = new QButtonGroup(this);
  connect(choices_, &QButtonGroup::idClicked, this, [this](int id) {
    answered_ = true;
    emit predicted(id);
  });
}

void LessonQuestion::ask(const QString& question, const QStringList& choices) {
  clearAfter(column_, 1);
  number_ = nullptr;
  answered_ = question.isEmpty();
  question_->setText(question);
  if (question.isEmpty()) return;
  for (int i = 0; i < choices.size(); ++i) offer(choices[i], i);
  if (choices.isEmpty()) offerNumber(question);
  offer(tr("I would rather just see"), kSkipped);
}

// A radio button's own text does not wrap.
void LessonQuestion::offer(const QString& choice, int id) {
  auto* row = new QWidget;
  auto* line = new QHBoxLayout(row);
  line->setContentsMargins(0, 0, 0, 0);
  auto* button = new QRadioButton;
  button->setAccessibleName(choice);
  button->setProperty("choice", choice);
  auto* label = new QLabel(choice);
  label->setWordWrap(true);
  setType(label, kLessonTextSize);
  label->setBuddy(button);
  label->installEventFilter(this);
  line->addWidget(button, 0, Qt::AlignTop);
  line->addWidget(label, 1);
  choices_->addButton(button, id);
  keepKeys(button);
  column_->addWidget(row);
}

void LessonQuestion::offerNumber(const QString& question) {
  number_ = new QLineEdit;
  number_->setPlaceholderText(tr("your number, then Return"));
  setType(number_, kLessonTextSize);
  number_->setAccessibleName(question);
  connect(number_, &QLineEdit::returnPressed, this, &LessonQuestion::takeNumber);
  connect(number_, &QLineEdit::editingFinished, this, [this] {  // left for the next button: that is an answer, too
    if (!answered_ && !number_->text().isEmpty()) takeNumber();
  });
  column_->addWidget(number_);
}

void LessonQuestion::takeNumber() {
  bool ok = false;
  const double value =
      QLocale::c().toDouble(QString(number_->text()).remove('%').remove("dB").remove('x').trimmed(), &ok);
  if (!ok) {
    number_->clear();
    number_->setPlaceholderText(tr("a number, such as 0.5 or 30"));
    return;
  }
  answered_ = true;
  emit predictedNumber(value, number_->text());
}

void LessonQuestion::showAnswer(int choice) {
  answered_ = true;
  if (QAbstractButton* button = choices_->button(choice < 0 ? kSkipped : choice)) button->setChecked(true);
}

void LessonQuestion::showAnswer(const QString& number) {
  answered_ = true;
  if (number_) number_->setText(number);
}

QWidget* LessonQuestion::takeTyped() {
  if (!number_) return choices_->checkedButton() ? choices_->checkedButton() : choices_->buttons().first();
  if (number_->text().isEmpty()) return number_;
  takeNumber();
  return nullptr;
}

bool LessonQuestion::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::MouseButtonRelease)
    if (auto* label = qobject_cast<QLabel*>(watched))
      if (auto* button = qobject_cast<QRadioButton*>(label->buddy()); button && button->isEnabled()) button->click();
  return QWidget::eventFilter(watched, event);
}

}  // namespace moescope
