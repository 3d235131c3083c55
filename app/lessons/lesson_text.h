// Text and cards of the page of a lesson. All sizes follow the application's font.
#pragma once

#include <QBoxLayout>
#include <QLabel>

#include "app/look/card_frame.h"
#include "widgets/look/tokens.h"

namespace moescope {

void setType(QWidget* widget, Type type, bool semibold = false);
void renewType(const QWidget* page);        // updates all fonts in the page after a change of the application's font
QLabel* addLessonText(QBoxLayout* column);  // adds a label for Markdown, with wrapped lines
void setMuted(QLabel* label);               // gives a label the secondary text colour of the theme
void clearAfter(QBoxLayout* column, int widgets);  // deletes all widgets but the first ones

// A card with a heading. The card of the next action has border and heading in the accent colour.
class LessonCard : public CardFrame {
 public:
  LessonCard(const QString& heading, QBoxLayout* column);
  QBoxLayout* inside() const { return inside_; }  // layout of the card; its first item is the heading
  QBoxLayout* headRow() const { return head_; }   // row of the heading, for a mark at its right
  void setActive(bool active);

 private:
  QLabel* heading_;
  QBoxLayout *inside_, *head_;
};

}  // namespace moescope
