#include "app/lessons/lesson_text.h"

#include <QApplication>
#include <QVariant>

#include "widgets/look/tokens.h"

namespace moescope {

namespace {

constexpr char kTypeFactor[] = "type_factor";

}  // namespace

void setType(QWidget* widget, double factor, bool bold) {
  QFont font = scaledFont(QApplication::font(widget), factor);
  font.setBold(bold);
  widget->setFont(font);
  widget->setProperty(kTypeFactor, factor);
}

void renewType(const QWidget* page) {
  for (QWidget* widget : page->findChildren<QWidget*>())
    if (const QVariant factor = widget->property(kTypeFactor); factor.isValid())
      setType(widget, factor.toDouble(), widget->font().bold());
}

QLabel* addLessonText(QBoxLayout* column) {
  auto* label = new QLabel;
  label->setWordWrap(true);
  label->setTextFormat(Qt::MarkdownText);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  setType(label, kLessonTextSize);
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
