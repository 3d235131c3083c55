// A quiet strip above the panels, for who is new here: where to begin, and later a single hint at what comes next.
#pragma once

#include <QFrame>

class QLabel;

namespace moescope {

class StartDoors;

class StartCard : public QFrame {
  Q_OBJECT

 public:
  explicit StartCard(QWidget* parent = nullptr);
  StartDoors* doors() const { return doors_; }

  void showDoors(const QString& head, const QString& words);
  void showHint(const QString& words);

 signals:
  void closed();  // by its button

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void takeColors();

  QLabel *head_, *words_;
  StartDoors* doors_;
};

}  // namespace moescope
