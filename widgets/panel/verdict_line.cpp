#include "widgets/panel/verdict_line.h"

#include <QApplication>
#include <QHBoxLayout>
#include <QPainter>

#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

VerdictLine::VerdictLine(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(kSpace12, 0, kSpace12, kSpace8);
  row->setSpacing(kSpace16);
  sentence_ = new FittedLabel(this);
  about_ = new FittedLabel(this);
  about_->setRole(QPalette::PlaceholderText);
  about_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  followFont(this, [this] {
    sentence_->setFont(typeFont(QApplication::font(), Type::body, true));
    about_->setFont(typeFont(QApplication::font(), Type::secondary));
  });
  row->addWidget(sentence_);
  row->addWidget(about_, 1);
  hide();
}

void VerdictLine::setVerdict(const QStringList& sentence, const QStringList& about) {
  sentence_->setTexts(sentence);
  about_->setTexts(about);
  setAccessibleName(sentence.value(0));
  setVisible(!sentence.isEmpty());
}

QSize VerdictLine::sizeHint() const {
  return {0, withType(kVerdictHeight, fontMetrics()) + kSpace8};
}

void VerdictLine::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  drawRounded(painter, rect().adjusted(0, 0, 0, -kSpace8), kRadiusPanel, QColor(c.surface), QColor(c.hairline));
}

}  // namespace moescope
