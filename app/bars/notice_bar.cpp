#include "app/bars/notice_bar.h"

#include <QPainter>
#include <QToolButton>
#include <utility>

#include "app/look/icons.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

NoticeBar::NoticeBar(QWidget* parent) : QFrame(parent), text_(new QLabel(this)), button_(new QToolButton(this)) {
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
  auto* close = new QToolButton(this);
  close->setAccessibleName("Close the notice");
  close->setToolTip("Close");
  close->setAutoRaise(true);
  close->setFocusPolicy(Qt::TabFocus);
  connect(close, &QToolButton::clicked, this, &QWidget::hide);
  auto* row = plainRow(this, kSpace8);
  row->setContentsMargins(kSpace16, kSpace8 + kSpace4, kSpace12 + kSpace4, kSpace4);
  row->addWidget(text_, 1);
  row->addWidget(button_);
  row->addWidget(close);
  followPalette(this, [this, close] { close->setIcon(picture(Picture::close, palette())); });
  hide();
}

void NoticeBar::showNotice(const QString& text) {
  action_ = {};
  text_->setText(text);
  button_->hide();
  update();
  setVisible(!text.isEmpty());
}

void NoticeBar::offer(const QString& text, const QString& button, std::function<void()> action) {
  showNotice(text);
  action_ = std::move(action);
  button_->setText(button);
  button_->show();
}

// Paints warnings in the attention color and offers in the accent color.
void NoticeBar::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  drawRounded(painter, rect().adjusted(kSpace8, kSpace8, -kSpace8, 0), kRadiusPanel,
              QColor(action_ ? c.accent_soft : c.attention_soft), QColor(action_ ? c.accent : c.attention));
}

}  // namespace moescope
