#include "app/window/projector_view.h"

#include <QApplication>
#include <QMainWindow>

#include "app/look/messages.h"
#include "app/workspaces/window_layout.h"

namespace moescope {

namespace {

constexpr double kLarger = 1.45;

// Desktops may give these a font of their own.
constexpr const char* kClasses[] = {"QAbstractItemView", "QDockWidgetTitle", "QHeaderView", "QLabel",  "QMenu",
                                    "QMenuBar",          "QPushButton",      "QStatusBar",  "QTabBar", "QTipLabel",
                                    "QToolButton"};

QFont larger(QFont font) {
  if (font.pointSizeF() > 0)
    font.setPointSizeF(font.pointSizeF() * kLarger);
  else
    font.setPixelSize(static_cast<int>(font.pixelSize() * kLarger));
  return font;
}

}  // namespace

ProjectorView::ProjectorView(WindowLayout* layout, Messages* messages, QMainWindow* window)
    : QObject(window), layout_(layout), messages_(messages), window_(window) {
  action_ = new QAction("Pro&jector view", this);
  action_->setCheckable(true);
  action_->setShortcut(Qt::Key_F5);
  action_->setWhatsThis("Projector view: larger type, fewer panels, until the same key brings all back");
  action_->setToolTip(action_->whatsThis());
  connect(action_, &QAction::toggled, this, &ProjectorView::show);
}

// The arrangement is taken before the type grows, and comes back after it has shrunk: larger type pushes docks apart.
void ProjectorView::show(bool projected) {
  const QSize size = window_->size();
  if (projected) {
    layout_->setProjected(true);
    enlargeType();
    messages_->say("Projector view: larger type, fewer panels. F5 brings all back.");
  } else {
    bringTypeBack();
    layout_->setProjected(false);
  }
  if (window_->size() != size && !window_->isMaximized() && !window_->isFullScreen()) window_->resize(size);
}

void ProjectorView::enlargeType() {
  usual_ = QApplication::font();
  usual_of_class_.clear();
  for (const char* name : kClasses)
    if (const QFont own = QApplication::font(name); own != usual_) usual_of_class_[name] = own;
  QApplication::setFont(larger(usual_));
  for (auto own = usual_of_class_.begin(); own != usual_of_class_.end(); ++own)
    QApplication::setFont(larger(own.value()), own.key());
}

void ProjectorView::bringTypeBack() {
  QApplication::setFont(usual_);
  for (auto own = usual_of_class_.begin(); own != usual_of_class_.end(); ++own)
    QApplication::setFont(own.value(), own.key());
}

}  // namespace moescope
