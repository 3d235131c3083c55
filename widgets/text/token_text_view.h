// A text token by token, coloured by the expert that is the first choice: the letters for one layer, or a line under
// them for each of several layers. The readout describes a token; a click or the arrow keys choose a token, a click in
// the legend chooses an expert.
#pragma once

#include <QColor>
#include <memory>
#include <vector>

#include "core/frame/frame.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/plot_frame.h"
#include "widgets/selection/selection.h"

namespace moescope {

// A colour for each expert of a layer.
//
// Sixteen experts are distinguished by colour: the colours of Okabe and Ito, which are safe for colour-blind readers,
// and nine more. Further experts repeat them, so the number is always shown as well, in the legend, in the readout and
// on click. byId() keeps an expert's colour over time. inOrder() gives neighbours in an order (of co-activation)
// similar colours in three steps of lightness, so that experts chosen together share a hue.
class ExpertColors {
 public:
  ExpertColors() = default;
  static ExpertColors byId(int n_experts, bool dark);
  static ExpertColors inOrder(const std::vector<int>& order, bool dark);

  QColor colorOf(int expert) const;

 private:
  std::vector<QRgb> colors_;
};

// Returns the probe text at the step, as Tokens shows it, and sets `step` to that of its routing; nullptr: none.
std::shared_ptr<const TokenFrame> probeText(const History& run, std::int64_t& step);
// "of the earlier text, " if a routed text, or the prompt of a sample, is not from the probe text.
QString earlierText(const Selection& selection, const TokenFrame* text);

class TokenTextView : public PlotFrame {
  Q_OBJECT

 public:
  struct Row {
    const TokenLayer* layer;  // routing of the text in a layer
    ExpertColors colors;
  };

  using PlotFrame::PlotFrame;

  // Shows a text: coloured letters for one row, a line for each of several rows.
  void setText(std::shared_ptr<const TokenFrame> text, std::vector<Row> rows);
  // Tokens of this expert keep their colour, others lose it; -1: all tokens keep their colour.
  void setHighlight(int layer, int expert) {
    highlight_layer_ = layer;
    highlight_ = expert;
  }
  void setCurrent(int position) { current_ = position; }  // -1: none
  const TokenFrame* text() const { return text_.get(); }
  // Explains the colours of the letters while an expert is highlighted; else it is empty.
  LegendScale highlightLegend() const;
  std::function<QStringList(int position, int layer)> describe;  // of the token that begins at `position`
  // Returns the rectangle of the character with the byte `position`; null if it is scrolled out of sight.
  QRect cellOf(int position) const;
  QRgb colorOf(int position, int row) const { return blended(rows_[row], position).rgb(); }

 signals:
  void tokenChosen(int position, int layer);  // position: first byte of the token
  void expertChosen(int layer, int expert);   // -1: no expert is chosen any more

 protected:
  QMargins margins() const override { return {8, 4, 8, withType(26)}; }
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  struct Place {
    int line, column;
  };
  struct Chip {
    QRect box;
    int expert;
  };
  void layOut();
  void placeLetters();
  void foldLines();
  QFont letters() const { return scaledFont(formulaFont(font()), size_); }
  bool manyRows() const { return rows_.size() > 1; }
  int lineHeight() const { return letter_.height() + (manyRows() ? to_int(rows_.size()) * row_height_ : 0) + gap_; }
  int tokenAt(QPoint position, int* row) const;  // first byte of the token; -1: none
  void outline(QPainter& painter, int position, QMargins margins) const;
  void paintLetter(QPainter& painter, std::size_t byte, TokenSpan token) const;
  const Row* legendRow() const;
  QColor blended(const Row& row, int position) const;
  QColor highlightColor(const Row& row, bool is_chosen, bool is_first) const;
  void paintLines(QPainter& painter) const;
  void paintLetters(QPainter& painter) const;
  void paintLegend(QPainter& painter);
  void paintScrollMark(QPainter& painter) const;
  void scrollTo(int line);

  std::shared_ptr<const TokenFrame> text_;
  std::vector<Row> rows_;
  std::vector<TokenSpan> tokens_;
  std::vector<Place> places_;  // place of each byte
  std::vector<Chip> chips_;
  QSize letter_;     // size of a cell
  double size_ = 1;  // font scale of the letters
  int row_height_ = 0, gap_ = 3, margin_ = 0, lines_ = 0, first_line_ = 0, visible_lines_ = 1;
  int highlight_layer_ = -1, highlight_ = -1, current_ = -1;
};

}  // namespace moescope
