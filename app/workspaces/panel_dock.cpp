#include "app/workspaces/panel_dock.h"

#include <QAbstractButton>
#include <QAbstractSpinBox>
#include <QAction>
#include <QApplication>
#include <QComboBox>
#include <QMouseEvent>
#include <QPainter>
#include <utility>

#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

// The empty title bar above the content. Qt drags a dock only by its title bar.
class DockGrip : public QWidget {
 public:
  using QWidget::QWidget;
  QSize sizeHint() const override { return {0, kSpace4}; }
  QSize minimumSizeHint() const override { return sizeHint(); }
};

}  // namespace

PanelDock::PanelDock(const QString& title, QWidget* content, QWidget* parent) : QDockWidget(title, parent) {
  auto* grip = new DockGrip(this);
  setTitleBarWidget(grip);
  setWidget(content);
}

void PanelDock::setAccented(bool accented) {
  accented_ = accented;
  update();
}

void PanelDock::setCover(const QString& text) {
  if (text.isEmpty() && !cover_) return;
  if (!cover_) {
    cover_ = new QLabel(this);
    cover_->setAlignment(Qt::AlignCenter);
    cover_->setMargin(kSpace8);
    cover_->setAutoFillBackground(true);
    cover_->setBackgroundRole(QPalette::Base);
    cover_->setForegroundRole(QPalette::PlaceholderText);
  }
  cover_->setText(text);
  cover_->setVisible(!text.isEmpty());
  cover_->raise();
  resizeEvent(nullptr);
}

void PanelDock::setLocked(bool locked) {
  for (const QPointer<QObject>& part : std::exchange(locked_, {}))
    if (part) part->setProperty("enabled", true);
  if (!locked) return;
  const auto lock = [this](QObject* part) {
    if (!part->property("enabled").toBool()) return;
    part->setProperty("enabled", false);
    locked_ << part;
  };
  for (const Panel* panel : findChildren<Panel*>()) {
    for (QWidget* part : panel->header()->findChildren<QWidget*>(QString(), Qt::FindDirectChildrenOnly))
      if (part->layout()) lock(part);  // the place of a control, which may enable itself
    for (QAction* action : panel->actions()) lock(action);
  }
  for (QWidget* part : widget()->findChildren<QWidget*>()) {
    const auto* button = qobject_cast<QAbstractButton*>(part);
    const bool is_control = button || qobject_cast<QComboBox*>(part) || qobject_cast<QAbstractSpinBox*>(part);
    if (is_control && !(button && button->text() == "?")) lock(part);
  }
}

void PanelDock::resizeEvent(QResizeEvent* event) {
  if (event) QDockWidget::resizeEvent(event);
  if (cover_) cover_->setGeometry(rect().adjusted(kFocusLine, kFocusLine, -kFocusLine, -kFocusLine));
}

void PanelDock::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  if (isFloating()) painter.fillRect(rect(), QColor(c.surface));
  drawRounded(painter, rect(), isFloating() ? 0 : kRadiusPanel, QColor(c.surface),
              QColor(accented_ ? c.accent : c.hairline), accented_ ? kFocusLine : 1);
}

// Passes mouse events on the header to the grip. Qt grabs the mouse from the first move on.
bool PanelDock::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::MouseButtonDblClick) {
    setFloating(!isFloating());
    return true;
  }
  if (event->type() != QEvent::MouseButtonPress && event->type() != QEvent::MouseMove &&
      event->type() != QEvent::MouseButtonRelease)
    return QDockWidget::eventFilter(watched, event);
  const auto* mouse = static_cast<const QMouseEvent*>(event);
  const auto* header = static_cast<const QWidget*>(watched);
  QPointF at = header->mapTo(this, mouse->position());
  if (event->type() == QEvent::MouseButtonPress) at.setY(1);
  QMouseEvent moved(event->type(), at, mouse->globalPosition(), mouse->button(), mouse->buttons(), mouse->modifiers());
  QApplication::sendEvent(this, &moved);
  return true;
}

}  // namespace moescope
