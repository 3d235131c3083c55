#include "app/bars/notice_bar.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QPainter>
#include <QToolButton>
#include <utility>

#include "app/look/icons.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

NoticeBar::NoticeBar(QWidget* parent)
    : QFrame(parent), text_(new QLabel(this)), button_(new QToolButton(this)), close_(new QToolButton(this)) {
  setObjectName("notice_bar");
  text_->setWordWrap(true);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  text_->setAccessibleName("Notice");
  button_->setObjectName("notice_action");
  button_->setFocusPolicy(Qt::TabFocus);
  connect(button_, &QToolButton::clicked, this, [this] {
    hide();
    if (const auto action = action_) action();  // the action may show another notice
  });
  close_->setAccessibleName("Close the notice");
  close_->setToolTip("Close");
  close_->setAutoRaise(true);
  close_->setFocusPolicy(Qt::TabFocus);
  connect(close_, &QToolButton::clicked, this, &QWidget::hide);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(kSpace16, kSpace8 + kSpace4, kSpace12 + kSpace4, kSpace4);
  row->setSpacing(kSpace8);
  row->addWidget(text_, 1);
  row->addWidget(button_);
  row->addWidget(close_);
  takeColors();
  hide();
}

void NoticeBar::showNotice(const QString& text) {
  action_ = {};
  text_->setText(text);
  button_->hide();
  takeColors();
  setVisible(!text.isEmpty());
}

void NoticeBar::offer(const QString& text, const QString& button, std::function<void()> action) {
  showNotice(text);
  action_ = std::move(action);
  button_->setText(button);
  button_->show();
}

void NoticeBar::takeColors() {
  close_->setIcon(picture(Picture::close, palette()));
  update();
}

// Paints warnings in the attention colour and offers in the accent colour.
void NoticeBar::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  drawRounded(painter, rect().adjusted(kSpace8, kSpace8, -kSpace8, 0), kRadiusPanel,
              QColor(action_ ? c.accent_soft : c.attention_soft), QColor(action_ ? c.accent : c.attention));
}

void NoticeBar::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) takeColors();
  QFrame::changeEvent(event);
}

}  // namespace moescope
