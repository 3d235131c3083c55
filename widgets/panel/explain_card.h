// An explain card: what a figure is, with the present values filled in, what good and bad values look like, which
// settings affect it, the lesson that teaches it, and its source. The card covers part of the window beside the figure;
// Esc or a click elsewhere closes it unless it is pinned.
#pragma once

#include <QFrame>
#include <QHBoxLayout>
#include <QLabel>
#include <QPoint>
#include <QScrollArea>
#include <QString>
#include <QToolButton>
#include <functional>
#include <optional>
#include <string_view>

#include "core/findings/explain/explain.h"

namespace moescope {

// The guided lesson that teaches a figure, for the explain cards.
struct TaughtIn {
  int number = 0;  // number of the lesson, in teaching order
  QString title;
};

// Returns the first lesson that asks for the figure or checks it; nullopt if there is none. Reads the lessons once.
std::optional<TaughtIn> taughtIn(std::string_view figure);

// Returns rich text with the signs of inPrint(). Exponents that have no superscripts in Unicode are raised: b^(2j/d).
QString cardInPrint(const QString& html);

class ExplainCard : public QFrame {
  Q_OBJECT

 public:
  // `html` returns the text of the card and is called again by refresh(). The card appears near `at` (global) inside
  // `window`; an unpinned card replaces the previous unpinned card.
  static ExplainCard* open(QWidget* window, QPoint at, const QString& title, std::function<QString()> html);

  void refresh();        // updates the card to the present values
  QString text() const;  // the card as plain text
  bool isPinned() const { return pin_->isChecked(); }

 signals:
  void knobRequested(const QString& key);
  void lessonRequested(const QString& number);
  void manualRequested(const QString& page);

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  ExplainCard(QWidget* window, const QString& title, std::function<QString()> html);
  void addHeader(const QString& title);
  void addBody();
  QToolButton* addButton(QHBoxLayout* header, const QString& name, const QString& tip);
  QString styled(QString html) const;
  void follow(const QString& link);
  void place(QPoint at);
  void copy();

  std::function<QString()> html_;
  QLabel* body_;
  QScrollArea* scroll_;
  QToolButton* pin_;
  QPoint grip_;
};

// Returns a figure as rich text with links "knob:KEY" to settings and "lesson:NUMBER" to lessons. Classes mark special
// parts: formula, good, bad, more.
QString figureCard(const Explanation& figure);
QString metricCard(const MetricInfo& info);  // without a value, with all settings that affect the figure

}  // namespace moescope
