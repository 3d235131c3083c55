#include "app/workspaces/workspace_scroll.h"

#include <QEvent>

#include "app/workspaces/workspace.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

constexpr int kLeastHeight = 200;  // that is looked through

}  // namespace

WorkspaceScroll::WorkspaceScroll(Workspace* workspace) : workspace_(workspace) {
  setFrameShape(QFrame::NoFrame);
  setFocusPolicy(Qt::NoFocus);
  setWidgetResizable(true);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setWidget(workspace);
  workspace->installEventFilter(this);
}

QSize WorkspaceScroll::minimumSizeHint() const {
  const QSize least = workspace_->minimumSizeHint();
  return {least.width(), std::min(least.height(), withType(kLeastHeight, fontMetrics()))};
}

QSize WorkspaceScroll::sizeHint() const {
  return workspace_->sizeHint();
}

bool WorkspaceScroll::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::LayoutRequest) updateGeometry();
  return QScrollArea::eventFilter(watched, event);
}

}  // namespace moescope
