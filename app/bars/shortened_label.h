// A line of words that gives way where its bar is short, so that long names do not make the window wider: dots stand in
// place of its end or of its middle. The tool tip has all of it.
#pragma once

#include <QLabel>
#include <QPainter>
#include <QStyle>

namespace moescope {

class ShortenedLabel : public QLabel {
 public:
  explicit ShortenedLabel(Qt::TextElideMode mode, QWidget* parent = nullptr) : QLabel(parent), mode_(mode) {}
  QSize minimumSizeHint() const override { return {minimumWidth(), QLabel::minimumSizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    style()->drawItemText(&painter, contentsRect(), Qt::AlignLeft | Qt::AlignVCenter, palette(), isEnabled(),
                          fontMetrics().elidedText(text(), mode_, contentsRect().width()), foregroundRole());
  }

 private:
  Qt::TextElideMode mode_;
};

}  // namespace moescope
