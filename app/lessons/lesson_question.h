// The question of a lesson's step, to be answered before the task: one of some choices, or a number.
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QStringList>
#include <QWidget>

class QButtonGroup;
class QVBoxLayout;

namespace moescope {

class LessonQuestion : public QWidget {
  Q_OBJECT

 public:
  explicit LessonQuestion(QWidget* parent = nullptr);

  void ask(const QString& question, const QStringList& choices);  // without choices: for a number
  void showAnswer(int choice);                                    // as given before; -1: skipped
  void showAnswer(const QString& number);
  bool answered() const { return answered_; }  // or nothing was asked
  // Takes a number that was typed; otherwise the part that waits for an answer, for the keyboard's focus.
  QWidget* takeTyped();

 signals:
  void predicted(int choice);  // -1: would rather see
  void predictedNumber(double value, const QString& text);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;  // a click on a choice's text

 private:
  void offer(const QString& choice, int id);
  void offerNumber(const QString& question);
  void takeNumber();

  QVBoxLayout* column_;
  QLabel* question_;
  QButtonGroup* choices_;
  QLineEdit* number_ = nullptr;
  bool answered_ = false;
};

}  // namespace moescope
