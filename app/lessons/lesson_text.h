// Text and cards of the page of a lesson.
#pragma once

#include <QBoxLayout>
#include <QLabel>

#include "app/look/card_frame.h"
#include "app/look/theme.h"

namespace moescope {

QLabel* addLessonText(QBoxLayout* column);  // adds a label for Markdown, with wrapped lines
// Adds room between paragraphs of Markdown, which QLabel omits, and keeps a number and its unit on one line.
QString spacedText(const QString& markdown);
// Replaces the contents of `column` by Markdown. Blocks of code, between lines of ```, have a button that copies them.
void showTextAndCode(QBoxLayout* column, const QString& markdown);

// A card with a heading. The card of the next action has its border and heading in the accent color.
class LessonCard : public CardFrame {
 public:
  LessonCard(const QString& heading, QBoxLayout* column);
  QBoxLayout* inside() const { return inside_; }  // layout of the card; its first item is the heading
  void setActive(bool active);

 private:
  QLabel* heading_;
  QBoxLayout* inside_;
};

}  // namespace moescope
