// Tokens with the text around them, one on each line; the token is framed in the middle.
#pragma once

#include <vector>

#include "widgets/plots/plot_frame.h"

namespace moescope {

class TokenContexts : public PlotFrame {
  Q_OBJECT

 public:
  struct Line {
    QString before, token, after;  // printable text before, at and after the token
    double share = 0;              // share of the expert in the token's mix, 0..1: the opacity of the frame
  };

  explicit TokenContexts(QWidget* parent = nullptr);
  void setLines(std::vector<Line> lines);
  void setTitle(const QString& title) { title_ = title; }
  int linesThatFit() const;
  QSize sizeHint() const override { return {200, 7 * fontMetrics().height() + 6}; }
  QSize minimumSizeHint() const override { return {120, 3 * fontMetrics().height()}; }

 protected:
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;

 private:
  std::vector<Line> lines_;
  QString title_;
};

// Returns the bytes of a text for display: line feeds and tabs as visible signs, unprintable bytes as dots.
QString shownBytes(std::string_view bytes);

}  // namespace moescope
