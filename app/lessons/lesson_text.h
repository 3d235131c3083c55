// Text and cards of the page of a lesson.
#pragma once

#include <QBoxLayout>
#include <QLabel>
#include <QWidget>

#include "app/look/dialog_parts.h"
#include "app/look/theme.h"
#include "widgets/look/tokens.h"

class QPainter;
class QToolButton;

namespace moescope {

// Marks of the lesson page for done, running and waiting tasks. They differ in shape as well as in color.
enum class LessonMark { waiting, running, done, fault };

void paintLessonMark(QPainter& painter, const QRectF& place, LessonMark mark, const QPalette& palette);

// The progress of a lesson: a segment for each of its steps.
class LessonSegments : public QWidget {
 public:
  explicit LessonSegments(QWidget* parent = nullptr);
  void show(int step, int steps);  // `step` from 0
  QSize sizeHint() const override { return {withType(kSpace24, fontMetrics()), withType(kSpace4, fontMetrics())}; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  int step_ = 0, steps_ = 1;
};

QToolButton* flatButton(const QString& text, const QString& tip, const QString& name = {});  // which Tab reaches
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
