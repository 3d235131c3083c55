// A page in place of the workspaces: a centred column with a heading, which scrolls if the window is too low.
#pragma once

#include <QBoxLayout>
#include <QElapsedTimer>
#include <QLabel>
#include <QPushButton>
#include <QScrollArea>
#include <QToolButton>

#include "app/start/lesson_list.h"
#include "widgets/look/tokens.h"

namespace moescope {

class FullPage : public QScrollArea {
  Q_OBJECT

 public:
  FullPage(const char* name, const QString& title, QWidget* parent);
  // Offers the way to the panels of a workspace; an empty text: there is nothing to show in it.
  virtual void setBack(const QString& text);

 signals:
  void backRequested();  // the way back, or Escape
  void shown();

 protected:
  QBoxLayout* column() const { return column_; }
  QBoxLayout* headRow() const { return head_; }  // row of the heading, for what stands at its right
  void setHeading(const QString& heading, const QString& about);

  void keyPressEvent(QKeyEvent* event) override;
  void showEvent(QShowEvent* event) override;

  static QLabel* pageText(const QString& text, Type type = Type::body, bool muted = false);
  static QPushButton* pageButton(const QString& text, const char* name, bool primary = false);

 private:
  QLabel *heading_, *about_;
  QToolButton* back_;
  QHBoxLayout* head_;
  QVBoxLayout* column_;
};

// The page of all lessons. Typing the number of a lesson gives its row the focus.
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
