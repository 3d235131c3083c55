#include "app/lessons/lesson_text.h"

namespace moescope {

QFont scaled(const QFont& font, double factor, bool bold) {
  QFont larger = font;
  larger.setPointSizeF(font.pointSizeF() * factor);
  larger.setBold(bold);
  return larger;
}

QLabel* addLessonText(QBoxLayout* column) {
  auto* label = new QLabel;
  label->setWordWrap(true);
  label->setTextFormat(Qt::MarkdownText);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  label->setFont(scaled(label->font(), kLessonTextSize));
  column->addWidget(label);
  return label;
}

void clearAfter(QBoxLayout* column, int widgets) {
  while (column->count() > widgets) {
    QLayoutItem* item = column->takeAt(widgets);
    delete item->widget();
    delete item;
  }
}

}  // namespace moescope
