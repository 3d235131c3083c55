#include "app/window/projector_view.h"

#include <QMainWindow>

#include "app/look/messages.h"
#include "app/look/theme.h"
#include "app/workspaces/window_layout.h"

namespace moescope {

namespace {

constexpr double kLarger = 1.45;

}  // namespace

ProjectorView::ProjectorView(WindowLayout* layout, Messages* messages, QMainWindow* window)
    : QObject(window), layout_(layout), messages_(messages), window_(window) {
  action_ = new QAction("Pro&jector view", this);
  action_->setCheckable(true);
  action_->setShortcut(Qt::Key_F5);
  action_->setWhatsThis("Projector view: larger type, fewer panels; the same key restores the layout");
  action_->setToolTip(action_->whatsThis());
  connect(action_, &QAction::toggled, this, &ProjectorView::show);
}

// Stores the layout before the type grows and restores it after the type has shrunk, since larger type pushes docks
// apart.
void ProjectorView::show(bool projected) {
  const QSize size = window_->size();
  if (projected) {
    layout_->setProjected(true);
    setTypeFactor(kLarger);
    messages_->say("Projector view: larger type, fewer panels. F5 restores the layout.");
  } else {
    setTypeFactor(1);
    layout_->setProjected(false);
  }
  if (window_->size() != size && !window_->isMaximized() && !window_->isFullScreen()) window_->resize(size);
}

}  // namespace moescope
