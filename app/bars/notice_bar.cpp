#include "app/bars/notice_bar.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QToolButton>

#include "app/look/theme.h"

namespace moescope {

NoticeBar::NoticeBar(QWidget* parent) : QFrame(parent), text_(new QLabel(this)) {
  setObjectName("notice_bar");
  setFrameShape(QFrame::StyledPanel);
  text_->setWordWrap(true);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  text_->setAccessibleName("Notice");
  auto* close = new QToolButton(this);
  close->setText("Close");
  close->setAutoRaise(true);
  connect(close, &QToolButton::clicked, this, &QWidget::hide);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(8, 2, 4, 2);
  row->addWidget(text_, 1);
  row->addWidget(close);
  takeColors();
  hide();
}

void NoticeBar::showNotice(const QString& text) {
  text_->setText(text);
  setVisible(!text.isEmpty());
}

void NoticeBar::takeColors() {
  QPalette colors = palette();
  colors.setColor(QPalette::WindowText, warningColor(palette()));
  text_->setPalette(colors);
}

void NoticeBar::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) takeColors();
  QFrame::changeEvent(event);
}

}  // namespace moescope
