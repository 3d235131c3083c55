// The rounded surface of a panel that lies in no dock of its own.
#pragma once

#include <QWidget>

namespace moescope {

class PanelFrame : public QWidget {
  Q_OBJECT

 public:
  explicit PanelFrame(QWidget* content, QWidget* parent = nullptr);

 protected:
  void paintEvent(QPaintEvent* event) override;
};

}  // namespace moescope
