// What a step of a lesson measures: a name at the left, its value at the right, and what to compare it with below.
#pragma once

#include <QList>
#include <QWidget>

class QBoxLayout;

namespace moescope {

struct LessonFigureRow {
  enum class Kind { missing, live, expected, unexpected };  // missing: there is no value yet
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

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void make(int count);
  void fill();

  QBoxLayout* column_;
  QList<LessonFigureRow> rows_;
};

}  // namespace moescope
