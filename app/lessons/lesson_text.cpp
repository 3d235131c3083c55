#include "app/lessons/lesson_text.h"

#include <QApplication>
#include <QVariant>

namespace moescope {

namespace {

constexpr char kTypeProperty[] = "lesson_type", kSemiboldProperty[] = "lesson_semibold";

}  // namespace

void setType(QWidget* widget, Type type, bool semibold) {
  widget->setFont(typeFont(QApplication::font(), type, semibold));
  widget->setProperty(kTypeProperty, static_cast<int>(type));
  widget->setProperty(kSemiboldProperty, semibold);
}

void renewType(const QWidget* page) {
  for (QWidget* widget : page->findChildren<QWidget*>())
    if (const QVariant type = widget->property(kTypeProperty); type.isValid())
      setType(widget, static_cast<Type>(type.toInt()), widget->property(kSemiboldProperty).toBool());
}

QLabel* addLessonText(QBoxLayout* column) {
  auto* label = new QLabel;
  label->setWordWrap(true);
  label->setTextFormat(Qt::MarkdownText);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  column->addWidget(label);
  return label;
}

void setMuted(QLabel* label) {
  label->setForegroundRole(QPalette::PlaceholderText);
}

void clearAfter(QBoxLayout* column, int widgets) {
  while (column->count() > widgets) {
    QLayoutItem* item = column->takeAt(widgets);
    delete item->widget();
    delete item;
  }
}

LessonCard::LessonCard(const QString& heading, QBoxLayout* column)
    : heading_(new QLabel(heading)), inside_(new QVBoxLayout(this)), head_(new QHBoxLayout) {
  setObjectName("lesson_card");
  setAccessibleName(heading);
  inside_->setContentsMargins(kSpace12, kSpace8, kSpace12, kSpace12);
  inside_->setSpacing(kSpace8);
  setType(heading_, Type::body, true);
  head_->addWidget(heading_, 1);
  inside_->addLayout(head_);
  column->addWidget(this);
}

void LessonCard::setActive(bool active) {
  setAccented(active);
  heading_->setForegroundRole(active ? QPalette::Link : QPalette::WindowText);
}

}  // namespace moescope
