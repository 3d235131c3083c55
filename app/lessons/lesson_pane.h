// The page of a guided lesson: text, prediction, tasks, checks, reveal. It shows and asks; lesson_guide.h decides.
//
// Everything can be done with the keyboard: Tab, arrows and Space in the page; Ctrl+Return performs the next action.
#pragma once

#include <QList>
#include <QString>
#include <QStringList>
#include <QWidget>

class QBoxLayout;
class QFrame;
class QLabel;
class QPushButton;
class QScrollArea;
class QToolButton;

namespace moescope {

class LessonQuestion;

class LessonPane : public QWidget {
  Q_OBJECT

 public:
  explicit LessonPane(QWidget* parent = nullptr);

  struct Task {
    QString text;
    bool done = false, enabled = false, running = false;
    bool operator==(const Task&) const = default;
  };
  enum class Mark { pending, holds, fails };
  struct Check {
    QString text, value;
    Mark mark = Mark::pending;
    bool operator==(const Check&) const = default;
  };
  struct Page {
    QString lesson, place, title, text;  // place: "Lesson 2 of 9, step 1 of 4"
    int step = 0, steps = 0;
    QString question;
    QStringList choices;  // empty with a question: asks for a number
    QString hint;
    bool first = false, last = false;
  };
  void showPage(const Page& page);  // with nothing predicted, done, or revealed
  LessonQuestion* question() const { return question_; }
  void showTasks(const QList<Task>& tasks);
  void showMissing(const QString& what);  // why nothing can be done; empty: nothing is missing
  void showChecks(const QList<Check>& checks);
  void showReveal(const QString& verdict, const QString& text);  // both empty: none
  void setRevealEnabled(bool enabled, const QString& why_not);
  void setRevealOffered(bool offered);
  void setNextText(const QString& text);
  void scrollToReveal();

  QSize sizeHint() const override { return {400, 700}; }

 public slots:
  void goOn();  // the next action: predict, perform, reveal or next page

 signals:
  void taskRequested(int task);
  void revealRequested();
  void nextRequested();
  void backRequested();
  void resetRequested();
  void lessonsRequested(QWidget* beside);
  void leaveRequested();

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void makeHead(QBoxLayout* column);
  void makePage(QBoxLayout* column);
  void makeFoot(QBoxLayout* column);
  QFrame* box(QBoxLayout* column, const QString& title, QBoxLayout** inside);
  void colour();

  QLabel *place_, *title_, *dots_, *step_title_, *text_;
  QScrollArea* scroll_;
  QFrame *predict_box_, *do_box_, *check_box_, *reveal_box_;
  QBoxLayout *do_, *check_;
  LessonQuestion* question_;
  QLabel *verdict_, *reveal_text_, *hint_text_, *missing_;
  QToolButton* hint_;
  QPushButton *reveal_, *next_, *back_, *reset_;
  QList<Task> tasks_;
  QList<Check> checks_;
  QList<QPushButton*> task_buttons_;
};

}  // namespace moescope
