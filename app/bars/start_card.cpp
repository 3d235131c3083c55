#include "app/bars/start_card.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QToolButton>
#include <QVBoxLayout>

#include "app/bars/start_doors.h"
#include "app/look/theme.h"

namespace moescope {

StartCard::StartCard(QWidget* parent) : QFrame(parent), doors_(new StartDoors(this)) {
  setObjectName("start_card");
  setAccessibleName("Where to begin");
  setFrameShape(QFrame::StyledPanel);
  head_ = new QLabel(this);
  QFont bold = head_->font();
  bold.setBold(true);
  head_->setFont(bold);
  words_ = new QLabel(this);
  words_->setObjectName("start_words");
  words_->setWordWrap(true);
  auto* close = new QToolButton(this);
  close->setObjectName("close_start_card");
  close->setText("Close");
  close->setAutoRaise(true);
  connect(close, &QToolButton::clicked, this, [this] {
    hide();
    emit closed();
  });
  auto* texts = new QVBoxLayout;
  texts->setSpacing(1);
  texts->addWidget(head_);
  texts->addWidget(words_);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(10, 4, 4, 4);
  row->setSpacing(10);
  row->addLayout(texts, 1);
  row->addWidget(doors_);
  row->addWidget(close, 0, Qt::AlignTop);
  takeColors();
  hide();
}

void StartCard::showDoors(const QString& head, const QString& words) {
  head_->setText(head);
  words_->setText(words);
  head_->show();
  doors_->show();
  show();
}

void StartCard::showHint(const QString& words) {
  words_->setText(words);
  head_->hide();
  doors_->hide();
  show();
}

void StartCard::takeColors() {
  QPalette colors = palette();
  colors.setColor(QPalette::WindowText, mutedColor(palette()));
  words_->setPalette(colors);
}

void StartCard::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) takeColors();
  QFrame::changeEvent(event);
}

}  // namespace moescope
