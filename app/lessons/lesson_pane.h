// The page of a guided lesson: text, prediction, tasks, checks, reveal. It only displays and emits signals; the logic
// is in app/lessons/lesson_guide.h.
//
// Everything can be done with the keyboard: Tab, arrows and Space in the page; Ctrl+Return performs the next action.
#pragma once

#include <QList>
#include <QString>
#include <QStringList>
#include <QWidget>

class QBoxLayout;
class QButtonGroup;
class QFrame;
class QLabel;
class QLineEdit;
class QPushButton;
class QScrollArea;
class QToolButton;

namespace moescope {

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
  void showPrediction(int choice);  // as made before; -1: skipped
  void showPrediction(const QString& number);
  void showTasks(const QList<Task>& tasks);
  void showChecks(const QList<Check>& checks);
  void showReveal(const QString& verdict, const QString& text);  // both empty: none
  void setRevealEnabled(bool enabled, const QString& why_not);
  void setRevealOffered(bool offered);
  void setNextText(const QString& text);
  void scrollToReveal();

  // Parts of the page, for tests and keyboard focus.
  QList<QWidget*> choiceButtons() const;
  QList<QPushButton*> taskButtons() const;
  QPushButton* revealButton() const { return reveal_; }
  QPushButton* nextButton() const { return next_; }
  QPushButton* backButton() const { return back_; }
  QPushButton* resetButton() const { return reset_; }
  QString visibleText() const;  // everything on the page

  QSize sizeHint() const override { return {400, 700}; }

 public slots:
  void goOn();  // the next action: predict, perform, reveal or next page

 signals:
  void predicted(int choice);  // -1: skipped
  void predictedNumber(double value, const QString& text);
  void taskRequested(int task);
  void revealRequested();
  void nextRequested();
  void backRequested();
  void resetRequested();
  void lessonsRequested(QWidget* beside);
  void leaveRequested();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  void makeHead(QBoxLayout* column);
  void makePage(QBoxLayout* column);
  void makeFoot(QBoxLayout* column);
  QLabel* text(QBoxLayout* column);
  QFrame* box(QBoxLayout* column, const QString& title, QBoxLayout** inside);
  void makeChoices(const Page& page);
  void takeNumber();
  void colour();
  void listen(QWidget* widget);

  QLabel *place_, *title_, *dots_, *step_title_, *text_;
  QScrollArea* scroll_;
  QFrame *predict_box_, *do_box_, *check_box_, *reveal_box_;
  QBoxLayout *predict_, *do_, *check_;
  QLabel *question_, *verdict_, *reveal_text_, *hint_text_;
  QButtonGroup* choices_;
  QLineEdit* number_ = nullptr;
  QToolButton* hint_;
  QPushButton *reveal_, *next_, *back_, *reset_;
  QList<Task> tasks_;
  QList<Check> checks_;
  QList<QPushButton*> task_buttons_;
  bool answered_ = false;
};

}  // namespace moescope
