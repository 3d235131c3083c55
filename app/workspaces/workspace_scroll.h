// The place of a workspace in the window: where the window is too low for its panels, it scrolls. It asks for the
// workspace's least width, so that nothing has to be scrolled sideways.
#pragma once

#include <QScrollArea>

namespace moescope {

class Workspace;

class WorkspaceScroll : public QScrollArea {
 public:
  explicit WorkspaceScroll(Workspace* workspace);

  QSize minimumSizeHint() const override;
  QSize sizeHint() const override;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;  // on the workspace

 private:
  Workspace* workspace_;
};

}  // namespace moescope
