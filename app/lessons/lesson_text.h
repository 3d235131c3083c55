// How the page of a lesson is written, and its cards. All sizes follow the application's type.
#pragma once

#include <QBoxLayout>
#include <QLabel>

#include "app/look/card_frame.h"
#include "widgets/look/tokens.h"

namespace moescope {

void setType(QWidget* widget, Type type, bool semibold = false);
void renewType(const QWidget* page);               // of all in it, once the application's type has changed
QLabel* addLessonText(QBoxLayout* column);         // Markdown that wraps
void setMuted(QLabel* label);                      // secondary ink in either theme
void clearAfter(QBoxLayout* column, int widgets);  // deletes those that follow the first so many

// A card with a heading. The active one is what a person does now: its border and heading are in the accent colour.
class LessonCard : public CardFrame {
 public:
  LessonCard(const QString& heading, QBoxLayout* column);
  QBoxLayout* inside() const { return inside_; }  // the heading is its first item
  QBoxLayout* headRow() const { return head_; }   // for a mark at its right
  void setActive(bool active);

 private:
  QLabel* heading_;
  QBoxLayout *inside_, *head_;
};

}  // namespace moescope
