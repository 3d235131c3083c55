// Marks of the lesson page for done, running and waiting tasks. They differ in shape as well as in color.
#pragma once

#include <QWidget>

class QPainter;

namespace moescope {

enum class LessonMark { waiting, running, done, fault };

void paintLessonMark(QPainter& painter, const QRectF& place, LessonMark mark, const QPalette& palette);

// The progress of a lesson: a segment for each of its steps.
class LessonSegments : public QWidget {
 public:
  explicit LessonSegments(QWidget* parent = nullptr);
  void show(int step, int steps);  // `step` from 0
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  int step_ = 0, steps_ = 1;
};

}  // namespace moescope
