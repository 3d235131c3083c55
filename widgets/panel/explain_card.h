// An explain card: what a figure is, with the present values filled in, what good and bad values look like, which
// setting affects it, and its source. It lies over the window beside the figure; Esc or a click elsewhere closes it
// unless pinned.
#pragma once

#include <QFrame>
#include <QLabel>
#include <QPoint>
#include <QScrollArea>
#include <QToolButton>
#include <functional>

#include "core/telemetry/explain/explain.h"

namespace moescope {

// Rich text as in print: as inPrint() does it, and raised by the text's own means what has no superscripts: b^(2j/d).
QString cardInPrint(const QString& html);

class ExplainCard : public QFrame {
  Q_OBJECT

 public:
  // `html` gives the text of the card, again for each refresh(). The card appears near `at` (global) inside `window`;
  // an unpinned card replaces the previous unpinned one.
  static ExplainCard* open(QWidget* window, QPoint at, const QString& title, std::function<QString()> html);

  void refresh();        // with the present values
  QString text() const;  // plain
  bool isPinned() const { return pin_->isChecked(); }

 signals:
  void knobRequested(const QString& key);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  ExplainCard(QWidget* window, const QString& title, std::function<QString()> html);
  void place(QPoint at);
  void copy();

  std::function<QString()> html_;
  QLabel* body_;
  QScrollArea* scroll_;
  QToolButton* pin_;
  QPoint grip_;
};

// A figure as rich text; config keys are links "knob:KEY".
QString figureCard(const Explanation& figure);

}  // namespace moescope
