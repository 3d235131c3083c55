// Labels, and texts with a long and a short form. A text with digits is never cut: the longest form that fits is shown,
// or nothing.
#pragma once

#include <QFocusEvent>
#include <QFontMetrics>
#include <QLabel>
#include <QStringList>

namespace moescope {

// Returns the longest of `texts` (long to short) that fits into `width`; empty if even the last does not.
QString fittingText(const QStringList& texts, const QFontMetrics& metrics, int width);

// For a text without forms: returns it elided if this cuts only words; empty if it would cut digits.
QString elidedWords(const QString& text, const QFontMetrics& metrics, int width);

// Shows the longest form that fits into the label; the longest of all forms is the tool tip.
class FittedLabel : public QWidget {
  Q_OBJECT

 public:
  explicit FittedLabel(QWidget* parent = nullptr);
  void setTexts(const QStringList& texts);  // long to short
  void setRole(QPalette::ColorRole role);   // colour role of the text; Text by default
  void setAlignment(Qt::Alignment alignment);
  QString shownText() const { return fittingText(texts_, fontMetrics(), width()); }
  QString text() const { return texts_.value(0); }
  QSize sizeHint() const override { return {fontMetrics().horizontalAdvance(texts_.value(0)), fontMetrics().height()}; }
  QSize minimumSizeHint() const override { return {0, fontMetrics().height()}; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QStringList texts_;
  QPalette::ColorRole role_ = QPalette::Text;
  Qt::Alignment alignment_ = Qt::AlignLeft | Qt::AlignVCenter;
};

// A label that is one link. Tab gives the focus to the link at once, so that it is seen and Enter follows it; in a
// QLabel this takes a second Tab.
class LinkLabel : public QLabel {
 public:
  explicit LinkLabel(const QString& text = {}, QWidget* parent = nullptr) : QLabel(text, parent) {
    setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
  }

 protected:
  void focusInEvent(QFocusEvent* event) override {
    QLabel::focusInEvent(event);
    if (event->reason() == Qt::TabFocusReason || event->reason() == Qt::BacktabFocusReason)
      focusNextPrevChild(event->reason() == Qt::TabFocusReason);
  }
};

}  // namespace moescope
