// The question of a lesson's step, answered before its tasks: a choice or a number. After the answer only the
// prediction is shown, which can be changed until the measured values are shown.
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QStringList>
#include <QWidget>

class QButtonGroup;
class QToolButton;
class QVBoxLayout;

namespace moescope {

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
  void settle(const QString& figure, const QString& words);
  void reopen();

  QLabel* question_;
  QWidget* offers_;
  QVBoxLayout* offered_;
  QButtonGroup* choices_;
  QLineEdit* number_ = nullptr;
  QWidget* answer_;
  QLabel *figure_, *words_;
  QToolButton* change_;
  Asked prompt_;
  bool answered_ = false;
};

}  // namespace moescope
