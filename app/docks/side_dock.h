// A dock beside the workspaces: a rounded surface with its title and a button that closes it. It is dragged by the
// title.
#pragma once

#include <QDockWidget>

namespace moescope {

class SideDock : public QDockWidget {
  Q_OBJECT

 public:
  SideDock(const QString& title, QWidget* parent);

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  void keepOffEdges(Qt::DockWidgetArea area);
  QRect surface() const { return contentsRect().adjusted(-1, -1, 1, 1); }
};

}  // namespace moescope
