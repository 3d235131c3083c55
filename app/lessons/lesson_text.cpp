#include "app/lessons/lesson_text.h"

#include "widgets/look/tokens.h"

namespace moescope {

QLabel* addLessonText(QBoxLayout* column) {
  auto* label = new QLabel;
  label->setWordWrap(true);
  label->setTextFormat(Qt::MarkdownText);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  column->addWidget(label);
  return label;
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
