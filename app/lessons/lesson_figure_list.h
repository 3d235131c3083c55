// The figures that a step of a lesson measures: name at the left, value at the right, and below it the value to compare
// with.
#pragma once

#include <QList>
#include <QWidget>

class QBoxLayout;

namespace moescope {

struct LessonFigureRow {
  enum class Kind { missing, live, expected, unexpected };  // missing: no value yet
  QString name, value, note;
  Kind kind = Kind::missing;
  bool operator==(const LessonFigureRow&) const = default;
};

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

}  // namespace moescope
