#include "app/bars/popover.h"

#include <QAction>
#include <QGridLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QPainter>
#include <QPainterPath>
#include <QScreen>
#include <QVBoxLayout>
#include <algorithm>

#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

Popover::Popover(const QString& title, QWidget* parent)
    : QFrame(parent, Qt::Popup), column_(new QVBoxLayout(this)), rows_(new QGridLayout), note_(new QLabel) {
  setAccessibleName(title);
  auto* head = plainRow(kSpace8);
  auto* name = new QLabel(title);
  name->setFont(semibold(name->font()));
  head->addWidget(name);
  note_->setForegroundRole(QPalette::PlaceholderText);
  head->addWidget(note_, 1);
  column_->setContentsMargins(kSpace16, kSpace12, kSpace16, kSpace12);
  column_->setSpacing(kSpace8);
  column_->addLayout(head);
  rows_->setHorizontalSpacing(kSpace8);
  rows_->setVerticalSpacing(kSpace8);
  rows_->setColumnStretch(1, 1);
  column_->addLayout(rows_);
  followFont(this, [this] {
    setFixedWidth(withType(kPopoverWidth, fontMetrics()));
    rows_->setColumnMinimumWidth(0, withType(kLabelColumn, fontMetrics()) - kSpace8);
  });
}

QLabel* Popover::addRow(const QString& name, QWidget* field) {
  auto* label = new QLabel(name);
  label->setBuddy(field);
  const int row = rows_->rowCount();
  rows_->addWidget(label, row, 0);
  rows_->addWidget(field, row, 1);
  return label;
}

void Popover::setNote(const QString& text) {
  note_->setText(text);
}

void Popover::openUnder(QWidget* anchor) {
  adjustSize();
  const QRect screen = anchor->screen()->availableGeometry();
  QPoint at = anchor->mapToGlobal(QPoint(anchor->width() - width(), anchor->height() + kSpace4));
  at.setX(std::clamp(at.x(), screen.left(), std::max(screen.left(), screen.right() - width())));
  at.setY(std::clamp(at.y(), screen.top(), std::max(screen.top(), screen.bottom() - height())));
  move(at);
  show();
}

// The window receives no shortcuts while a popup is open, so the popover closes and triggers the action of the key.
// Single letters and Space are left out, since they belong to the fields.
void Popover::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Escape) return hide();
  const bool is_shortcut = event->modifiers() & (Qt::ControlModifier | Qt::AltModifier) ||
                           (event->key() >= Qt::Key_F1 && event->key() <= Qt::Key_F35);
  const QKeySequence key(event->keyCombination());
  for (QAction* action : is_shortcut ? parentWidget()->window()->findChildren<QAction*>() : QList<QAction*>()) {
    if (!action->isEnabled() || action->shortcutContext() != Qt::WindowShortcut || !action->shortcuts().contains(key))
      continue;
    hide();
    return action->trigger();
  }
  QFrame::keyPressEvent(event);
}

void Popover::resizeEvent(QResizeEvent* event) {
  QFrame::resizeEvent(event);
  QPainterPath shape;
  shape.addRoundedRect(rect(), kRadiusPanel, kRadiusPanel);
  setMask(QRegion(shape.toFillPolygon().toPolygon()));
}

void Popover::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  drawRounded(painter, rect(), kRadiusPanel, QColor(c.popup), QColor(c.field_border));
}

}  // namespace moescope
