#include "app/lessons/lesson_question.h"

#include <QButtonGroup>
#include <QEvent>
#include <QLocale>
#include <QRadioButton>
#include <QToolButton>

#include "app/lessons/lesson_text.h"
#include "app/look/keep_keys.h"
#include "widgets/look/layouts.h"

namespace moescope {

constexpr int kSkipped = -2;  // not -1, for which QButtonGroup assigns an id

LessonQuestion::LessonQuestion(QWidget* parent)
    : QWidget(parent),
      offers_(new QWidget(this)),
      answer_(new QWidget(this)),
      figure_(new QLabel(answer_)),
      words_(new QLabel(answer_)),
      change_(new QToolButton(answer_)) {
  auto* column = plainColumn(this, kSpace8);
  question_ = addLessonText(column);
  column->addWidget(offers_);
  offered_ = plainColumn(offers_, kSpace8);
  auto* row = plainRow(answer_, kSpace8);
  setType(figure_, Type::figure, true);
  words_->setWordWrap(true);
  words_->setObjectName("lesson_prediction");
  words_->setForegroundRole(QPalette::PlaceholderText);
  change_->setText("Change");
  change_->setObjectName("lesson_change");
  change_->setFocusPolicy(Qt::StrongFocus);
  change_->setAccessibleName("Change the prediction");
  keepKeys(change_);
  connect(change_, &QToolButton::clicked, this, &LessonQuestion::reopen);
  row->addWidget(figure_, 0, Qt::AlignTop);
  row->addWidget(words_, 1);
  row->addWidget(change_, 0, Qt::AlignTop);
  column->addWidget(answer_);
  choices_ = new QButtonGroup(this);
  connect(choices_, &QButtonGroup::idClicked, this, [this](int id) {
    showAnswer(id);
    emit predicted(id);
  });
}

void LessonQuestion::ask(const Asked& question) {
  clearLayout(offered_);
  prompt_ = question;
  number_ = nullptr;
  answered_ = question.question.isEmpty();
  question_->setText(question.question);
  change_->show();
  reopen();
  if (question.question.isEmpty()) return;
  for (int i = 0; i < question.choices.size(); ++i) offer(question.choices[i], i);
  if (question.choices.isEmpty()) offerNumber();
  offer("Show me without a prediction", kSkipped);
}

void LessonQuestion::reopen() {
  offers_->show();
  answer_->hide();
}

void LessonQuestion::settle(const QString& figure, const QString& words) {
  answered_ = true;
  figure_->setText(figure);
  figure_->setVisible(!figure.isEmpty());
  words_->setText(words);
  offers_->hide();
  answer_->show();
}

void LessonQuestion::setFinal(bool final) {
  change_->setVisible(!final);
}

// Adds a choice with a label, since the text of a radio button does not wrap.
void LessonQuestion::offer(const QString& choice, int id) {
  auto* row = new QWidget;
  auto* line = plainRow(row);
  auto* button = new QRadioButton;
  button->setAccessibleName(choice);
  button->setProperty("choice", choice);
  auto* label = new QLabel(choice);
  label->setWordWrap(true);
  label->setBuddy(button);
  label->installEventFilter(this);
  line->addWidget(button, 0, Qt::AlignTop);
  line->addWidget(label, 1);
  choices_->addButton(button, id);
  keepKeys(button);
  offered_->addWidget(row);
}

void LessonQuestion::offerNumber() {
  number_ = new QLineEdit;
  number_->setPlaceholderText(prompt_.unit.isEmpty() ? "Your number, then Return"
                                                     : QString("Your number in %1, then Return").arg(prompt_.unit));
  number_->setAccessibleName(prompt_.question);
  connect(number_, &QLineEdit::returnPressed, this, &LessonQuestion::takeNumber);
  connect(number_, &QLineEdit::editingFinished, this, [this] {  // leaving the field answers as well
    if (!answered_ && !number_->text().isEmpty()) takeNumber();
  });
  offered_->addWidget(number_);
}

void LessonQuestion::takeNumber() {
  bool ok = false;
  QString typed = number_->text();
  for (const QString& unit : {prompt_.unit, QString("%"), QString("dB"), QString("x")})
    if (!unit.isEmpty()) typed.remove(unit);
  const double value = QLocale::c().toDouble(typed.trimmed(), &ok);
  if (!ok) {
    number_->clear();
    number_->setPlaceholderText("A number, such as 0.5 or 30");
    return;
  }
  showAnswer(typed.trimmed());
  emit predictedNumber(value, typed.trimmed());
}

void LessonQuestion::showAnswer(int choice) {
  const bool skipped = choice < 0;
  if (QAbstractButton* button = choices_->button(skipped ? kSkipped : choice)) button->setChecked(true);
  settle({}, skipped ? QString("No prediction") : "Your prediction: " + prompt_.choices.value(choice));
}

void LessonQuestion::showAnswer(const QString& number) {
  if (number_) number_->setText(number);
  settle(number, prompt_.unit.isEmpty() ? QString("your prediction") : prompt_.unit + ": your prediction");
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
