// The page of a guided lesson: text, prediction, tasks, figures, explanation. It shows and asks; LessonGuide
// (lesson_guide.h) decides.
//
// Everything can be done with the keyboard: Tab, arrows and Space in the page; Ctrl+Return performs the next action.
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QList>
#include <QPushButton>
#include <QString>
#include <QStringList>
#include <QWidget>

#include "app/lessons/lesson_text.h"

class QButtonGroup;
class QProgressBar;
class QScrollArea;
class QToolButton;
class QVBoxLayout;

namespace moescope {

// The question of a lesson's step, answered before its tasks: a choice or a number. After the answer only the
// prediction is shown, which can be changed until the measured values are shown.
class LessonQuestion : public QWidget {
  Q_OBJECT

 public:
  explicit LessonQuestion(QWidget* parent = nullptr);

  struct Asked {
    QString question;
    QStringList choices;  // choices; empty: asks for a number
    QString unit;         // unit of the number
  };
  void ask(const Asked& question);
  void showAnswer(int choice);  // shows an earlier answer; -1: skipped
  void showAnswer(const QString& number);
  void setFinal(bool final);                   // the answer can no longer be changed
  bool answered() const { return answered_; }  // whether the question was answered, or there is none
  // Takes a typed number as the answer; returns the widget that still waits for an answer, nullptr if none does.
  QWidget* takeTyped();

 signals:
  void predicted(int choice);  // chosen answer; -1: skipped
  void predictedNumber(double value, const QString& text);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;  // makes a click on the text of a choice choose it

 private:
  void offer(const QString& choice, int id);
  void offerNumber();
  void takeNumber();
  void settle(const QString& prediction);
  void reopen();

  QLabel* question_;
  QWidget* offers_;
  QVBoxLayout* offered_;
  QButtonGroup* choices_;
  QLineEdit* number_ = nullptr;
  QWidget* answer_;
  QLabel* words_;
  QToolButton* change_;
  Asked prompt_;
  bool answered_ = false;
};

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

// The tasks of a step, each a button until it is done.
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

struct LessonFigureRow {
  enum class Kind { missing, live, expected, unexpected };  // missing: no value yet
  QString name, value, note;
  Kind kind = Kind::missing;
  bool operator==(const LessonFigureRow&) const = default;
};

// The figures that a step measures: name at the left, value at the right, and below it the value to compare with.
class LessonFigureList : public QWidget {
  Q_OBJECT

 public:
  explicit LessonFigureList(QWidget* parent = nullptr);
  void show(const QList<LessonFigureRow>& rows);
  const QList<LessonFigureRow>& rows() const { return rows_; }

 private:
  void fill();

  QBoxLayout* column_;
  QList<LessonFigureRow> rows_;
};

class LessonPane : public QWidget {
  Q_OBJECT

 public:
  explicit LessonPane(QWidget* parent = nullptr);

  struct Page {
    QString lesson, place, title, text;  // place: "Lesson 2 of 12"
    int step = 0, steps = 0;             // number of the step, from 0, and number of steps
    LessonQuestion::Asked question;      // the question; empty: none is asked
    QString hint;
    bool end = false;  // this is the page after the last step
  };
  void showPage(const Page& page);  // shows a page without prediction, done tasks and explanation
  LessonQuestion* question() const { return question_; }
  void showTasks(const QList<LessonTaskState>& tasks);
  void showMissing(const QString& what);  // shows why the step cannot be done; empty: it can be done
  void showFigures(const QList<LessonFigureRow>& figures);
  // Shows the verdict and the text of the explanation; hides the explanation if both are empty.
  void showReveal(const QString& verdict, const QString& text);
  enum class Reveal { none, locked, open };
  void setReveal(Reveal reveal, const QString& opens_when = {});  // `opens_when`: "after 500 steps of training"
  void setNext(bool ready, const QString& text = {});
  void scrollToReveal() { scrollTo(reveal_card_); }
  void scrollToTasks() { scrollTo(do_card_); }

  QSize sizeHint() const override;

 public slots:
  void goOn();  // performs the next action: predict, perform, reveal or next page

 signals:
  void taskRequested(int task);
  void revealRequested();
  void nextRequested();
  void backRequested();
  void restartRequested();
  void lessonsRequested();
  void lessonRequested(QString name);  // a link in the text of the last page
  void leaveRequested();

 protected:
  bool focusNextPrevChild(bool next) override;

 private:
  void followLinksOf(QLabel* text);
  void follow(const QString& link);
  void makeHead(QBoxLayout* column);
  void makePage(QBoxLayout* column);
  void makeFoot(QBoxLayout* column);
  void markActive();
  void scrollTo(LessonCard* card);

  QLabel *place_, *title_, *step_title_, *text_;
  LessonSegments* segments_;
  QScrollArea* scroll_;
  LessonCard* scrolls_to_ = nullptr;
  LessonCard *predict_card_, *do_card_, *figure_card_, *reveal_card_;
  LessonTaskList* tasks_;
  LessonFigureList* figures_;
  LessonQuestion* question_;
  QLabel *verdict_, *hint_text_, *missing_, *locked_;
  QBoxLayout* explanation_;
  QString revealed_;  // text of explanation_
  QToolButton* hint_;
  QPushButton *reveal_, *next_, *back_;
};

}  // namespace moescope
