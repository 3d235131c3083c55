#include "app/lessons/lesson_pane.h"

#include <QButtonGroup>
#include <QDesktopServices>
#include <QEvent>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLocale>
#include <QPainter>
#include <QProgressBar>
#include <QRadioButton>
#include <QScrollBar>
#include <QStyleOptionButton>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <functional>
#include <utility>

#include "app/look/dialog_parts.h"
#include "app/look/icons.h"
#include "core/frame/metrics.h"
#include "core/numerics/index.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/explain_card.h"
#include "widgets/plots/axis.h"

namespace moescope {
namespace {

constexpr int kSkipped = -2;  // not -1, for which QButtonGroup assigns an id
constexpr int kLessonPaneWidth = 400, kMinPaneWidth = 330, kPaneHeight = 640;

QWidget* newFigureRow() {
  auto* row = new QWidget;
  auto* grid = new QGridLayout(row);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(kSpace12);
  grid->setVerticalSpacing(0);
  auto* name = new QLabel;
  auto* value = new QLabel;
  auto* note = new QLabel;
  name->setObjectName("figure_name");
  value->setObjectName("figure_value");
  note->setObjectName("figure_note");
  name->setWordWrap(true);
  note->setWordWrap(true);
  setType(note, Type::caption);
  note->setForegroundRole(QPalette::PlaceholderText);
  grid->addWidget(name, 0, 0);
  grid->addWidget(value, 0, 1, Qt::AlignRight | Qt::AlignTop);
  grid->addWidget(note, 1, 0, 1, 2);
  grid->setColumnStretch(0, 1);
  return row;
}

// Colors unexpected values. The note says in words that they are unexpected.
void tint(QLabel* label, const LessonFigureRow& row) {
  QPalette palette = label->parentWidget()->palette();
  const Colors& c = colors(palette);
  const bool unexpected = row.kind == LessonFigureRow::Kind::unexpected;
  const bool judged = unexpected || row.kind == LessonFigureRow::Kind::expected;
  const QRgb ink = judged ? c.ink : c.ink2;
  palette.setColor(QPalette::WindowText, QColor(unexpected ? c.attention : ink));
  label->setPalette(palette);
}

}  // namespace

LessonQuestion::LessonQuestion(QWidget* parent)
    : QWidget(parent),
      offers_(new QWidget(this)),
      answer_(new QWidget(this)),
      words_(new QLabel(answer_)),
      change_(flatButton("Change", "Change the prediction", "lesson_change")) {
  auto* column = plainColumn(this, kSpace8);
  question_ = addLessonText(column);
  column->addWidget(offers_);
  offered_ = plainColumn(offers_, kSpace8);
  auto* row = plainRow(answer_, kSpace8);
  words_->setWordWrap(true);
  words_->setObjectName("lesson_prediction");
  words_->setForegroundRole(QPalette::PlaceholderText);
  change_->setAccessibleName("Change the prediction");
  connect(change_, &QToolButton::clicked, this, &LessonQuestion::reopen);
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

void LessonQuestion::settle(const QString& prediction) {
  answered_ = true;
  words_->setText(prediction);
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
  settle(skipped ? QString("No prediction") : "Your prediction: " + prompt_.choices.value(choice));
}

void LessonQuestion::showAnswer(const QString& number) {
  if (number_) number_->setText(number);
  settle(QString("Your prediction: %1 %2").arg(number, prompt_.unit).trimmed());
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

LessonTaskButton::LessonTaskButton(QWidget* parent) : QPushButton(parent) {
  setObjectName("lesson_task");
  setProperty(kPrimaryProperty, true);
  QSizePolicy policy(QSizePolicy::Expanding, QSizePolicy::Minimum);
  policy.setHeightForWidth(true);
  setSizePolicy(policy);
  keepKeys(this);
}

void LessonTaskButton::show(const LessonTaskState& task) {
  words_ = task.text;
  setText(QString(task.text).replace('&', "&&"));
  mark_ = task.running ? LessonMark::running : LessonMark::waiting;
  if (task.done) mark_ = LessonMark::done;
  const QString state = task.running ? ", running" : "";
  setAccessibleName(task.text + (task.done ? ", done" : state));
  setEnabled(task.enabled);
  updateGeometry();
  update();
}

QSize LessonTaskButton::sizeHint() const {
  const int wide = fontMetrics().horizontalAdvance(words_) + withType(kMarkSize, fontMetrics()) + 3 * kSpace8;
  return {wide, withType(kFieldHeight, fontMetrics())};
}

int LessonTaskButton::heightForWidth(int width) const {
  const QFontMetrics metrics(semibold(font()));
  const int room = width - withType(kMarkSize, fontMetrics()) - 3 * kSpace8;
  const int text = metrics.boundingRect(0, 0, std::max(1, room), 0, Qt::TextWordWrap, words_).height();
  return std::max(withType(kFieldHeight, metrics), text + kSpace8);
}

void LessonTaskButton::paintOffered() {
  QPainter painter(this);
  QStyleOptionButton option;
  initStyleOption(&option);
  style()->drawPrimitive(QStyle::PE_PanelButtonCommand, &option, &painter, this);
  painter.setFont(semibold(font()));
  painter.setPen(QColor(colors(palette()).on_accent));
  painter.drawText(rect().adjusted(kSpace8, 0, -kSpace8, 0), Qt::AlignCenter | Qt::TextWordWrap, words_);
}

void LessonTaskButton::paintEvent(QPaintEvent*) {
  if (offered()) return paintOffered();
  QPainter painter(this);
  const Colors& c = colors(palette());
  const int mark = withType(kMarkSize, fontMetrics());
  paintLessonMark(painter, QRectF(0, (height() - mark) / 2.0, mark, mark), mark_, palette());
  painter.setFont(font());
  painter.setPen(QColor(mark_ == LessonMark::running ? c.ink : c.ink2));
  painter.drawText(rect().adjusted(mark + kSpace8, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter | Qt::TextWordWrap,
                   words_);
  if (hasFocus()) drawRounded(painter, rect(), kRadiusControl, Qt::transparent, QColor(c.accent), kFocusLine);
}

LessonTaskList::LessonTaskList(QWidget* parent)
    : QWidget(parent),
      column_(plainColumn(this, kSpace4)),
      progress_(new QWidget(this)),
      bar_(new QProgressBar(progress_)),
      amount_(new QLabel(progress_)) {
  auto* row = plainRow(progress_, kSpace12);
  row->setContentsMargins(withType(kMarkSize, fontMetrics()) + kSpace8, 0, 0, 0);
  bar_->setTextVisible(false);
  bar_->setAccessibleName("Training of this task");
  amount_->setObjectName("lesson_progress");
  amount_->setForegroundRole(QPalette::PlaceholderText);
  setType(amount_, Type::secondary);
  row->addWidget(bar_, 1);
  row->addWidget(amount_);
  progress_->hide();
  column_->addWidget(progress_);
}

void LessonTaskList::make(int count) {
  qDeleteAll(buttons_);
  buttons_.clear();
  for (int i = 0; i < count; ++i) {
    auto* button = new LessonTaskButton;
    connect(button, &QPushButton::clicked, this, [this, i] { emit requested(i); });
    column_->insertWidget(i, button);
    buttons_ << button;
  }
}

void LessonTaskList::show(const QList<LessonTaskState>& tasks) {
  if (tasks == tasks_ && buttons_.size() == tasks.size()) return;
  if (buttons_.size() != tasks.size()) make(to_int(tasks.size()));
  tasks_ = tasks;
  const LessonTaskState* running = nullptr;
  for (int i = 0; i < tasks.size(); ++i) {
    buttons_[i]->show(tasks[i]);
    if (tasks[i].running) running = &tasks[i];
  }
  showProgress(running);
}

void LessonTaskList::showProgress(const LessonTaskState* running) {
  progress_->setVisible(running != nullptr);
  if (!running) return;
  column_->removeWidget(progress_);
  column_->insertWidget(to_int(running - tasks_.constData()) + 1, progress_);
  bar_->setRange(0, to_int(running->until));
  const qint64 step = std::min(running->step, running->until);
  bar_->setValue(to_int(step));
  const double rest_s = static_cast<double>(running->until - step) / running->steps_per_s;
  amount_->setText(QString("%1 of %2 steps").arg(groupedText(step), groupedText(running->until)) +
                   (running->steps_per_s > 0 ? ", " + aboutDuration(rest_s) + " left" : QString()));
}

LessonFigureList::LessonFigureList(QWidget* parent) : QWidget(parent), column_(plainColumn(this, kSpace8)) {
  followFont(this, [this] { fill(); });
  followPalette(this, [this] { fill(); });
}

void LessonFigureList::show(const QList<LessonFigureRow>& rows) {
  if (rows == rows_) return;
  if (rows.size() != rows_.size()) {
    clearLayout(column_);
    for (qsizetype i = 0; i < rows.size(); ++i) column_->addWidget(newFigureRow());
  }
  rows_ = rows;
  fill();
}

void LessonFigureList::fill() {
  for (int i = 0; i < rows_.size(); ++i) {
    QWidget* row = column_->itemAt(i)->widget();
    row->findChild<QLabel*>("figure_name")->setText(rows_[i].name);
    auto* value = row->findChild<QLabel*>("figure_value");
    const bool judged = rows_[i].kind != LessonFigureRow::Kind::missing;
    value->setFont(typeFont(Type::body, judged));
    value->setText(withUnbrokenUnits(rows_[i].value));
    auto* note = row->findChild<QLabel*>("figure_note");
    note->setText(withUnbrokenUnits(rows_[i].note));
    note->setVisible(!rows_[i].note.isEmpty());
    tint(value, rows_[i]);
    const bool unexpected = rows_[i].kind == LessonFigureRow::Kind::unexpected;
    note->setForegroundRole(unexpected ? QPalette::WindowText : QPalette::PlaceholderText);
    if (unexpected) tint(note, rows_[i]);
  }
}

LessonPane::LessonPane(QWidget* parent) : QWidget(parent) {
  setObjectName("lesson_pane");
  setAccessibleName("Lesson");
  setMinimumWidth(kMinPaneWidth);  // does not grow with the font, since the panels need the room
  auto* column = plainColumn(this, kSpace8);
  column->setContentsMargins(kSpace12, kSpace4, kSpace12, kSpace12);
  makeHead(column);
  makePage(column);
  makeFoot(column);
}

QSize LessonPane::sizeHint() const {
  return {withType(kLessonPaneWidth, fontMetrics()), kPaneHeight};
}

void LessonPane::makeHead(QBoxLayout* column) {
  auto* row = new QHBoxLayout;
  row->setContentsMargins(kSpace8, 0, 0, 0);
  place_ = new QLabel;
  place_->setObjectName("lesson_place");
  setType(place_, Type::secondary);
  place_->setForegroundRole(QPalette::PlaceholderText);
  QToolButton* lessons = flatButton("All lessons", "All lessons (Alt+L)", "lesson_all");
  connect(lessons, &QToolButton::clicked, this, &LessonPane::lessonsRequested);
  QToolButton* leave =
      flatButton("Leave", "Ends the lesson and restores your own arrangement of panels", "lesson_leave");
  connect(leave, &QToolButton::clicked, this, &LessonPane::leaveRequested);
  row->addWidget(place_, 1);
  row->addWidget(lessons);
  row->addWidget(leave);
  column->addLayout(row);
  auto* head = plainColumn(kSpace8);
  head->setContentsMargins(kSpace8, 0, kSpace8, 0);
  title_ = new QLabel;
  title_->setObjectName("lesson_title");
  title_->setWordWrap(true);
  setType(title_, Type::figure, true);
  head->addWidget(title_);
  segments_ = new LessonSegments;
  head->addWidget(segments_);
  column->addLayout(head);
}

void LessonPane::makePage(QBoxLayout* column) {
  auto* page = new QWidget;
  page->setMinimumWidth(1);  // a wide word is cut itself; otherwise the whole page would become wider, and be cut
  auto* inside = plainColumn(page, kSpace8);
  auto* words = plainColumn(kSpace8);
  words->setContentsMargins(kSpace8, 0, kSpace8, 0);
  inside->addLayout(words);
  step_title_ = new QLabel;
  step_title_->setObjectName("lesson_step");
  step_title_->setWordWrap(true);
  setType(step_title_, Type::body, true);
  words->addWidget(step_title_);
  text_ = addLessonText(words);
  followLinksOf(text_);
  hint_ = flatButton("Hint", "A hint for the prediction");
  hint_->setCheckable(true);
  words->addWidget(hint_, 0, Qt::AlignLeft);
  hint_text_ = addLessonText(words);
  hint_text_->setForegroundRole(QPalette::PlaceholderText);
  connect(hint_, &QToolButton::toggled, hint_text_, &QWidget::setVisible);
  predict_card_ = new LessonCard("Predict", inside);
  question_ = new LessonQuestion;
  predict_card_->inside()->addWidget(question_);
  missing_ = addLessonText(inside);
  missing_->setObjectName("lesson_missing");
  missing_->hide();
  do_card_ = new LessonCard("Do", inside);
  tasks_ = new LessonTaskList;
  connect(tasks_, &LessonTaskList::requested, this, &LessonPane::taskRequested);
  do_card_->inside()->addWidget(tasks_);
  figure_card_ = new LessonCard("Watch", inside);
  figures_ = new LessonFigureList;
  figure_card_->inside()->addWidget(figures_);
  reveal_card_ = new LessonCard("What happened", inside);
  verdict_ = addLessonText(reveal_card_->inside());
  explanation_ = plainColumn(kSpace8);
  reveal_card_->inside()->addLayout(explanation_);
  locked_ = quietText();
  locked_->setMargin(kSpace8);
  inside->addWidget(locked_);
  inside->addStretch(1);
  scroll_ = scrollOf(page);
  scroll_->setObjectName("lesson_page");
  connect(scroll_->verticalScrollBar(), &QScrollBar::rangeChanged, this, [this] {  // the texts are laid out
    if (scrolls_to_) scrollTo(scrolls_to_);
  });
  scroll_->viewport()->setAutoFillBackground(false);
  page->setAutoFillBackground(false);
  column->addWidget(scroll_, 1);
}

void LessonPane::followLinksOf(QLabel* text) {
  text->setTextInteractionFlags(Qt::TextBrowserInteraction);
  connect(text, &QLabel::linkActivated, this, &LessonPane::follow);
}

// Opens the card of a figure, an exhibit, or a page in the browser.
void LessonPane::follow(const QString& link) {
  if (link.startsWith("https:")) return void(QDesktopServices::openUrl(link));
  const MetricInfo* info = find_metric(link.toStdString());
  if (!info) return emit lessonRequested(link);
  ExplainCard* card = ExplainCard::open(window(), QCursor::pos(), info->name, [info] { return metricCard(*info); });
  connect(card, &ExplainCard::lessonRequested, this, &LessonPane::lessonRequested);
}

// Makes the foot of the page, which does not scroll.
void LessonPane::makeFoot(QBoxLayout* column) {
  auto* row = plainRow(kSpace8);
  back_ = new QPushButton("Back");
  auto* restart = new QPushButton("Restart");
  reveal_ = new QPushButton("What happened?");
  next_ = new QPushButton("Next");
  reveal_->setObjectName("lesson_reveal");
  next_->setObjectName("lesson_next");
  back_->setToolTip("The step before (Alt+Left)");
  restart->setToolTip("Restarts this lesson with new runs");
  reveal_->setToolTip("Shows the explanation, with the measured values (Ctrl+Return)");
  for (QPushButton* button : {reveal_, next_}) button->setProperty(kPrimaryProperty, true);
  for (QPushButton* button : {back_, restart, reveal_, next_}) {
    keepKeys(button);
    row->addWidget(button);
    followFont(button, [button] {  // keeps the button narrower than a button of a dialog
      button->setMinimumWidth(button->fontMetrics().horizontalAdvance(button->text()) + kSpace16);
    });
    if (button == restart) row->addStretch(1);
  }
  connect(back_, &QPushButton::clicked, this, &LessonPane::backRequested);
  connect(restart, &QPushButton::clicked, this, &LessonPane::restartRequested);
  connect(reveal_, &QPushButton::clicked, this, &LessonPane::revealRequested);
  connect(next_, &QPushButton::clicked, this, &LessonPane::nextRequested);
  column->addLayout(row);
}

void LessonPane::showPage(const Page& page) {
  place_->setText(page.place);
  title_->setText(page.lesson);
  segments_->show(page.step, page.steps);
  step_title_->setText(page.end ? page.title
                                : QString("Step %1 of %2: %3").arg(page.step + 1).arg(page.steps).arg(page.title));
  step_title_->setVisible(page.end || page.steps > 1);  // an exhibit has one step, with its own title
  text_->setText(spacedText(page.text));
  predict_card_->setVisible(!page.question.question.isEmpty());
  question_->ask(page.question);
  hint_->setVisible(!page.hint.isEmpty());
  hint_->setChecked(false);
  hint_text_->setText(page.hint);
  hint_text_->hide();
  showTasks({});
  showFigures({});
  showReveal({}, {});
  scrolls_to_ = nullptr;
  showMissing({});
  setReveal(Reveal::none);
  back_->setEnabled(page.step > 0 || page.end);
  setNext(page.end, page.step + 1 == page.steps ? "Finish" : "Next");
  scroll_->verticalScrollBar()->setValue(0);
}

void LessonPane::showMissing(const QString& what) {
  missing_->setVisible(!what.isEmpty());
  missing_->setText(what);
}

void LessonPane::showTasks(const QList<LessonTaskState>& tasks) {
  do_card_->setVisible(!tasks.isEmpty());
  tasks_->show(tasks);
  markActive();
}

// Marks the card of the next action.
void LessonPane::markActive() {
  const bool predicting = predict_card_->isVisibleTo(this) && !question_->answered();
  predict_card_->setActive(predicting);
  do_card_->setActive(!predicting && !std::ranges::all_of(tasks_->tasks(), std::identity(), &LessonTaskState::done));
}

void LessonPane::showFigures(const QList<LessonFigureRow>& figures) {
  figure_card_->setVisible(!figures.isEmpty());
  figures_->show(figures);
}

void LessonPane::showReveal(const QString& verdict, const QString& text) {
  reveal_card_->setVisible(!verdict.isEmpty() || !text.isEmpty());
  verdict_->setVisible(!verdict.isEmpty());
  verdict_->setText(withUnbrokenUnits(verdict));
  if (text == std::exchange(revealed_, text)) return;
  showTextAndCode(explanation_, text);
  for (QLabel* label : reveal_card_->findChildren<QLabel*>())
    if (label->text().contains("](")) followLinksOf(label);
}

void LessonPane::setReveal(Reveal reveal, const QString& opens_when) {
  locked_->setVisible(reveal == Reveal::locked);
  locked_->setText("What happened: opens " + opens_when);
  if (reveal == Reveal::open && reveal_->isHidden()) scrollTo(figure_card_);  // the figures are complete
  reveal_->setVisible(reveal == Reveal::open);
  next_->setVisible(reveal != Reveal::open);
}

void LessonPane::setNext(bool ready, const QString& text) {
  next_->setEnabled(ready);
  next_->setToolTip(ready ? "The next step (Alt+Right). Ctrl+Return performs the next action."
                          : "After the tasks of this step. Alt+Right skips them.");
  if (!text.isEmpty()) next_->setText(text);
}

// Scrolls down until the end of the card is visible, or its beginning if both do not fit.
void LessonPane::scrollTo(LessonCard* card) {
  scrolls_to_ = card;
  const int top = card->y(), bottom = top + card->height();
  QScrollBar* bar = scroll_->verticalScrollBar();
  bar->setValue(std::max(bar->value(), std::min(top, bottom - scroll_->viewport()->height() + kSpace8)));
}

// A control that is hidden or disabled gives the focus to the page instead of a control elsewhere in the window.
bool LessonPane::focusNextPrevChild(bool next) {
  const QWidget* from = focusWidget();
  if (!from || (from->isVisible() && from->isEnabled())) return QWidget::focusNextPrevChild(next);
  scroll_->setFocus();
  return true;
}

void LessonPane::goOn() {
  if (!question_->answered()) {
    if (QWidget* waits = question_->takeTyped()) {
      waits->setFocus(Qt::ShortcutFocusReason);
      scroll_->ensureWidgetVisible(waits);
    }
    return;
  }
  const auto& tasks = tasks_->tasks();
  for (int i = 0; i < tasks.size(); ++i)
    if (!tasks[i].done) return tasks[i].enabled ? emit taskRequested(i) : void();
  if (reveal_->isVisibleTo(this)) return emit revealRequested();
  if (next_->isEnabled()) emit nextRequested();
}

}  // namespace moescope
