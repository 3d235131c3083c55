// The dock of a panel: a rounded surface without Qt's title bar. The user drags it by the panel's header; a double
// click on the header floats or docks it.
#pragma once

#include <QDockWidget>
#include <QLabel>
#include <QPointer>

#include "widgets/panel/panel.h"

namespace moescope {

class PanelDock : public QDockWidget {
  Q_OBJECT

 public:
  PanelDock(const QString& title, QWidget* content, QWidget* parent);
  void dragBy(QWidget* header) { header->installEventFilter(this); }
  void setAccented(bool accented);  // draws the border in the accent color while a lesson points to this panel
  bool accented() const { return accented_; }
  void setCover(const QString& text);  // shows this text instead of the content; empty: the content
  bool covered() const { return cover_ && !cover_->isHidden(); }
  // Disables the controls of the content and the actions of its panels, except for explanations.
  void setLocked(bool locked);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  bool accented_ = false;
  QLabel* cover_ = nullptr;
  QList<QPointer<QObject>> locked_;  // disabled by setLocked()
};

}  // namespace moescope
