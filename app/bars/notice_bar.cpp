#include "app/bars/notice_bar.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QToolButton>
#include <utility>

#include "app/look/theme.h"

namespace moescope {

NoticeBar::NoticeBar(QWidget* parent) : QFrame(parent), text_(new QLabel(this)), button_(new QToolButton(this)) {
  setObjectName("notice_bar");
  setFrameShape(QFrame::StyledPanel);
  text_->setWordWrap(true);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  text_->setAccessibleName("Notice");
  button_->setObjectName("notice_action");
  connect(button_, &QToolButton::clicked, this, [this] {
    hide();
    if (const auto action = action_) action();  // which may show another notice
  });
  auto* close = new QToolButton(this);
  close->setText("Close");
  close->setAutoRaise(true);
  connect(close, &QToolButton::clicked, this, &QWidget::hide);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(8, 2, 4, 2);
  row->addWidget(text_, 1);
  row->addWidget(button_);
  row->addWidget(close);
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
  takeColors();
}

void NoticeBar::takeColors() {
  QPalette colors = palette();
  if (!action_) colors.setColor(QPalette::WindowText, warningColor(palette()));
  text_->setPalette(colors);
}

void NoticeBar::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) takeColors();
  QFrame::changeEvent(event);
}

}  // namespace moescope
