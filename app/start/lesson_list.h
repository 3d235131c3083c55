// All lessons by subject: a row for each with its mark, number and title. The whole form also has the subject, the
// minutes, the faults of real trainings that the lesson explains, and the problem sets.
#pragma once

#include <QWidget>

#include "app/lessons/lesson_actions.h"

class QBoxLayout;

namespace moescope {

class LessonRow;

// The lesson to go on with: the open one, else the first one that is not done.
struct NextLesson {
  QString name;
  QString button;  // "Continue with lesson 5, step 2"
  QString about;   // "lesson 5, One outlier channel, 5 minutes"
};
NextLesson nextLesson(const LessonProgress& progress);

// "4 of 12 done, 54 of 85 minutes left; 2 of 10 faults seen".
QString progressText(const LessonProgress& progress);

class LessonList : public QWidget {
  Q_OBJECT

 public:
  enum class Form { titles, whole };
  explicit LessonList(Form form, QWidget* parent = nullptr);

  void showProgress(const LessonProgress& progress);
  void showSubjects(bool shown);
  void focusRow(int number);  // gives the focus to the row of a lesson, from 1; ignores other numbers

 signals:
  void chosen(QString lesson);
  void formRequested(QString problem_set);
  void handInRequested(QString problem_set);

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  void addRow(QBoxLayout* column, const Lesson& lesson, int number);
  void addProblemSets(QBoxLayout* column);

  const Form form_;
  QBoxLayout* groups_;
  QList<LessonRow*> rows_;
};

}  // namespace moescope
