// A frame that highlights a dock.
#pragma once

#include <QWidget>

namespace moescope {

class LessonHighlight : public QWidget {
 public:
  explicit LessonHighlight(QWidget* over);

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
};

}  // namespace moescope
