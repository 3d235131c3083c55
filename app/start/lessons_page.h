// The page of all lessons. Typing the number of a lesson gives its row the focus.
#pragma once

#include <QElapsedTimer>

#include "app/start/full_page.h"
#include "app/start/lesson_list.h"

namespace moescope {

class LessonsPage : public FullPage {
  Q_OBJECT

 public:
  explicit LessonsPage(QWidget* parent);
  void showProgress(const LessonProgress& progress);
  LessonList* list() const { return list_; }

 signals:
  void chosen(QString lesson);
  void startPageRequested();
  void planRequested();

 protected:
  void keyPressEvent(QKeyEvent* event) override;

 private:
  LessonList* list_;
  QPushButton* next_;
  QString next_lesson_, typed_;
  QElapsedTimer since_typed_;
};

}  // namespace moescope
