// Three ways to something to see, for who has nothing open: a lesson, a file, a comparison.
#pragma once

#include <QBoxLayout>
#include <QList>
#include <QString>
#include <QWidget>

class QPushButton;

namespace moescope {

class StartDoors : public QWidget {
  Q_OBJECT

 public:
  explicit StartDoors(QWidget* parent = nullptr);
  // Beside each other with shorter names, or below each other, where there is no more room.
  void fitInto(int width);

 signals:
  void lessonRequested();
  void openRequested();
  void compareRequested();

 private:
  struct Door {
    QPushButton* button;
    QString name, short_name;
  };
  void arrange(QBoxLayout::Direction direction, QString Door::*name);

  QBoxLayout* row_;
  QList<Door> doors_;
};

}  // namespace moescope
