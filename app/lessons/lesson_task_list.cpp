#include "app/lessons/lesson_task_list.h"

#include <QLabel>
#include <QPainter>
#include <QProgressBar>
#include <QStyleOptionButton>
#include <QVBoxLayout>
#include <algorithm>

#include "app/lessons/lesson_text.h"
#include "app/look/keep_keys.h"
#include "core/numerics/index.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/type_scale.h"
#include "widgets/plots/axis.h"

namespace moescope {

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
      column_(new QVBoxLayout(this)),
      progress_(new QWidget(this)),
      bar_(new QProgressBar(progress_)),
      amount_(new QLabel(progress_)) {
  column_->setContentsMargins(0, 0, 0, 0);
  column_->setSpacing(kSpace4);
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

}  // namespace moescope
