// The tasks of a lesson's step, each a button until it is done.
#pragma once

#include <QList>
#include <QPushButton>
#include <QWidget>

#include "app/lessons/lesson_marks.h"

class QBoxLayout;
class QLabel;
class QProgressBar;

namespace moescope {

struct LessonTaskState {
  QString text;
  bool done = false, enabled = false, running = false;
  qint64 step = 0, until = 0;  // progress of a training; until 0: the task is no training
  double steps_per_s = 0;      // 0: not known yet
  bool operator==(const LessonTaskState&) const = default;
};

// A button whose text wraps. It looks like a button only while it is the next to press.
class LessonTaskButton : public QPushButton {
 public:
  explicit LessonTaskButton(QWidget* parent = nullptr);
  void show(const LessonTaskState& task);
  bool done() const { return mark_ == LessonMark::done; }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {0, sizeHint().height()}; }
  bool hasHeightForWidth() const override { return true; }
  int heightForWidth(int width) const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  bool offered() const { return isEnabled() && !done(); }
  void paintOffered();

  QString words_;  // text() without mnemonic marks
  LessonMark mark_ = LessonMark::waiting;
};

class LessonTaskList : public QWidget {
  Q_OBJECT

 public:
  explicit LessonTaskList(QWidget* parent = nullptr);
  void show(const QList<LessonTaskState>& tasks);
  const QList<LessonTaskState>& tasks() const { return tasks_; }

 signals:
  void requested(int task);

 private:
  void make(int count);
  void showProgress(const LessonTaskState* running);

  QBoxLayout* column_;
  QList<LessonTaskState> tasks_;
  QList<LessonTaskButton*> buttons_;
  QWidget* progress_;
  QProgressBar* bar_;
  QLabel* amount_;
};

}  // namespace moescope
