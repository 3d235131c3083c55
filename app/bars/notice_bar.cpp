#include "app/bars/notice_bar.h"

#include <QPainter>
#include <QToolButton>

#include "app/look/icons.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

NoticeBar::NoticeBar(QWidget* parent) : QFrame(parent), text_(new QLabel(this)), buttons_(plainRow(kSpace8)) {
  setObjectName("notice_bar");
  text_->setWordWrap(true);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  text_->setAccessibleName("Notice");
  auto* close = new QToolButton(this);
  close->setAccessibleName("Close the notice");
  close->setToolTip("Close");
  close->setAutoRaise(true);
  close->setFocusPolicy(Qt::TabFocus);
  connect(close, &QToolButton::clicked, this, &QWidget::hide);
  auto* row = plainRow(this, kSpace8);
  row->setContentsMargins(kSpace16, kSpace8 + kSpace4, kSpace12 + kSpace4, kSpace4);
  row->addWidget(text_, 1);
  row->addLayout(buttons_);
  row->addWidget(close);
  followPalette(this, [this, close] { close->setIcon(picture(Picture::close, palette())); });
  hide();
}

void NoticeBar::showNotice(const QString& text) {
  offer(text, {});
}

void NoticeBar::offer(const QString& text, const QList<Offer>& offers) {
  text_->setText(text);
  while (QLayoutItem* item = buttons_->takeAt(0)) {
    item->widget()->deleteLater();  // it may be the button that was clicked
    delete item;
  }
  for (const Offer& offered : offers) {
    auto* button = new QToolButton(this);
    button->setObjectName("notice_action");
    button->setFocusPolicy(Qt::TabFocus);
    button->setText(offered.button);
    connect(button, &QToolButton::clicked, this, [this, action = offered.action] {
      hide();
      action();  // may show another notice
    });
    buttons_->addWidget(button);
  }
  update();
  setVisible(!text.isEmpty());
}

// Paints warnings in the attention color and offers in the accent color.
void NoticeBar::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  const bool has_offers = buttons_->count() > 0;
  drawRounded(painter, rect().adjusted(kSpace8, kSpace8, -kSpace8, 0), kRadiusPanel,
              QColor(has_offers ? c.accent_soft : c.attention_soft), QColor(has_offers ? c.accent : c.attention));
}

}  // namespace moescope
