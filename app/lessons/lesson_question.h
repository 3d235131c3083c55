// The question of a lesson's step, to be answered before the task: one of some choices, or a number. Once it is
// answered, the prediction alone is shown, and can be changed until the measured values are.
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
    QStringList choices;  // empty: asks for a number
    QString unit;         // of the number
  };
  void ask(const Asked& asked);
  void showAnswer(int choice);  // as given before; -1: skipped
  void showAnswer(const QString& number);
  void setFinal(bool final);                   // it can no longer be changed
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
  void offerNumber();
  void takeNumber();
  void settle(const QString& figure, const QString& words);
  void reopen();

  QVBoxLayout* column_;
  QLabel* question_;
  QWidget* offers_;
  QVBoxLayout* offered_;
  QButtonGroup* choices_;
  QLineEdit* number_ = nullptr;
  QWidget* answer_;
  QLabel *figure_, *words_;
  QToolButton* change_;
  Asked asked_;
  bool answered_ = false;
};

}  // namespace moescope
