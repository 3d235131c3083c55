#include "app/bars/start_card.h"

#include <QEvent>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QToolButton>
#include <QVBoxLayout>

#include "app/bars/start_doors.h"
#include "app/look/keep_keys.h"
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
  last_ = new QPushButton("Open the last run", this);
  last_->setObjectName("door_last");
  keepKeys(last_);
  connect(last_, &QPushButton::clicked, this, [this] { emit lastRequested(last_files_); });
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
  row->addWidget(last_);
  row->addWidget(doors_);
  row->addWidget(close, 0, Qt::AlignTop);
  takeColors();
  hide();
}

void StartCard::showDoors(const QString& head, const QString& words, const QStringList& last) {
  last_files_ = last;
  last_->setVisible(!last.isEmpty());
  last_->setToolTip("What was open when the program ended:\n" + last.join('\n'));
  QStringList names;
  for (const QString& file : last) names << QFileInfo(file).fileName();
  head_->setText(head);
  words_->setText(last.isEmpty() ? words : words + " Open last: " + names.join(", ") + '.');
  head_->show();
  doors_->show();
  show();
}

void StartCard::showHint(const QString& words) {
  words_->setText(words);
  head_->hide();
  doors_->hide();
  last_->hide();
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
