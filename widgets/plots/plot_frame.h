// The base of every painted plot: margins, a cached picture, a notice in place of missing data.
//
// A plot paints in three steps: refill() copies what it needs out of the History, only when something changed and the
// plot is really on screen; axes, grid and labels and then the data are painted into a picture, which is kept; the
// overlay (crosshair, cursor, hover, focus) is painted over that picture, sixty times a second at most. While the mouse
// moves, only the parts of the overlay that follow it are repainted.
//
// All plots look alike: the title of the value axis lies above it, the title of the other axis at the right end of its
// labels; the selected item has a frame in ink with a halo, which shows on every map.
#pragma once

#include <QMargins>
#include <QPixmap>
#include <QRegion>
#include <QStringList>
#include <QWidget>
#include <functional>
#include <optional>
#include <vector>

#include "core/explain/explain.h"
#include "widgets/plots/axis.h"
#include "widgets/selection/throttle.h"

namespace moescope {

struct LegendScale;

class PlotFrame : public QWidget {
  Q_OBJECT

 public:
  explicit PlotFrame(QWidget* parent = nullptr);

  // Called in paintEvent, once per change. The owner sets data, ranges and notice there.
  std::function<void()> refill;
  void markDirty();
  // Why there is nothing to show; empty: there is something.
  void setNotice(const QString& notice) { notice_ = notice; }
  const QString& notice() const { return notice_; }

  // For exported pictures: paints at the painter's resolution, without what depends on the mouse.
  void setPrinted(bool printed) { printed_ = printed; }

  // The figure drawn at a position, for its explain card; nullopt: none. Plots of a single figure ask their owner.
  std::function<std::optional<FigureTarget>(QPoint)> figureOf;
  virtual std::optional<FigureTarget> figureAt(QPoint position) const {
    return figureOf && notice_.isEmpty() ? figureOf(position) : std::nullopt;
  }
  // The text for screen readers: the notice, the last readout, or the readout at the keyboard cursor.
  QString valueText() const;
  QSize minimumSizeHint() const override { return {160, 80}; }
  QSize sizeHint() const override { return {420, 240}; }

 signals:
  void readoutChanged(const QString& text);  // readout at the mouse or the keyboard cursor, in one line

 protected:
  virtual QMargins margins() const { return {axisLabelWidth(), 8, 10, axisLabelHeight()}; }
  virtual void paintStatic(QPainter&) {}  // paints what is behind the data: axes, grid, labels
  virtual void paintData(QPainter& painter) = 0;
  // The readout for a position under the mouse, shown beside it by the default overlay, and in the status bar.
  virtual QStringList readoutAt(QPoint) const { return {}; }
  // The position of the keyboard cursor, whose readout stands for the plot while the mouse is elsewhere.
  virtual QPoint cursorPosition() const { return plotRect().center(); }
  QString readoutText(QPoint position) const;  // readout in one line
  // Called when the picture under a resting mouse has changed.
  virtual void followPicture();
  virtual void paintOverlay(QPainter& painter);
  // Takes the position of the mouse for the overlay to show. The mouse may move on before that is painted: what is
  // painted must lie in the region that was asked for.
  virtual void takeHover() {}
  // The parts of the overlay that follow the mouse, in this plot or a linked one, where takeHover() found it.
  virtual QRegion hoverRegion() const { return rect(); }
  virtual void paintPrintedOverlay(QPainter&) {}  // paints what exported pictures have of the overlay
  virtual void paintMarks(QPainter&) {}           // paints over the data, without their clip

  QRect plotRect() const { return rect().marginsRemoved(margins()).adjusted(label_excess_, room_above_, 0, 0); }
  // Axes over the plot, from its left edge to its right one, and from its lower edge to its upper one.
  Axis axisAcross(double low, double high, bool log = false) const;
  Axis axisUp(double low, double high, bool log = false) const;
  bool dark() const;
  // Paints labels right-aligned in the margin, which grows with them, and grid lines; above them the caption, or its
  // unit alone if it does not fit.
  void paintLeftAxis(QPainter& painter, const Axis& axis, const std::vector<Tick>& ticks, const QString& caption) const;
  // Paints the caption for plots that paint labels of rows themselves. `widest_label`: their greatest width.
  void paintLeftCaption(QPainter& painter, int widest_label, const QString& caption) const;
  // Paints a row under the plot: labels, and at its right end the longest of the captions (long to short) that fits.
  // Labels overlap neither the caption nor each other.
  void paintBottomAxis(QPainter& painter, const Axis& axis, const std::vector<Tick>& ticks, const QStringList& captions,
                       int below = 0) const;
  void paintVerticalGrid(QPainter& painter, const Axis& axis, const std::vector<Tick>& ticks) const;
  virtual QRect captionRow() const;  // row above the plot, as wide as the widget
  // Paints a colour scale at the right of the caption's row; for pictures, or if no answer line has it.
  void paintLegendInRow(QPainter& painter, const LegendScale& scale) const;
  // Room that caption and legend leave for other text in their row.
  QRect freeInCaptionRow() const;

  void paintCursorLine(QPainter& painter, int x) const;              // vertical line through the plot
  void paintFrame(QPainter& painter, const QRectF& cell) const;      // frame around a selected cell or row
  void paintPointer(QPainter& painter, QPointF tip, bool up) const;  // a triangle that points up, or right
  // Paints as many labels of rows as fit; ticks are in pixels. Returns the width of the widest.
  int paintRowLabels(QPainter& painter, const std::vector<Tick>& ticks, int right) const;
  // Paints the label of the selected row, bold, with a triangle, in place of those that it covers.
  void paintRowLabel(QPainter& painter, double y, const QString& label) const;
  // The key of a plot: at the right of the caption if both fit on one line, else above it in as many lines as needed.
  struct KeyEntry {
    QRect swatch, text;
  };
  struct Key {
    std::vector<KeyEntry> entries;  // position of swatch and text for each label
    int height = 0;                 // height of key and caption with the space below them
  };
  Key keyBeside(const QString& caption, const QStringList& labels, int swatch) const;
  template <class Item>
  static QStringList labelsOf(const std::vector<Item>& items, QString Item::*label) {
    QStringList labels;
    for (const Item& item : items) labels << item.*label;
    return labels;
  }
  // A box of lines beside `near`, inside the widget; without lines there is none.
  struct Readout {
    QStringList lines;
    QRect box;
  };
  Readout readoutBeside(QPoint near, const QStringList& lines) const;
  void paintReadout(QPainter& painter, const Readout& readout) const;

  // The direction of an arrow key: x -1 left, 1 right; y -1 up, 1 down. Null for other keys.
  static QPoint arrowOf(const QKeyEvent* event);

  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent*) override { dirty_ = true; }
  bool event(QEvent* event) override;

  QPoint mouse_{-1, -1};  // position of the mouse; negative: outside
  Throttle hover_;        // paces repaints of the overlay under a moving mouse

  int axisLabelWidth() const { return withType(58); }
  int axisLabelHeight() const;        // one row of labels
  int withType(double pixels) const;  // pixels scaled by the font size
  // Draws a curve antialiased in the pen's colour, bold, or thin as raw values behind a bold one.
  void drawCurve(QPainter& painter, const std::vector<QPointF>& points, bool bold) const;
  QColor rawColor(QColor color) const;  // colour of raw values behind a smoothed curve
  bool printed() const { return printed_; }

 private:
  void takeType();
  void updateHover();
  void paintPicture();
  void paintContent(QPainter& painter);
  void paintPrinted();
  void paintNotice(QPainter& painter) const;

  bool dirty_ = true, printed_ = false;
  QString notice_, read_out_;
  QPixmap picture_;
  QRegion hover_region_;  // of the overlay on the screen
  // Width by which the labels of the left axis exceed its margin, and height that its caption needs above the plot; the
  // second pair is found while painting.
  int label_excess_ = 0, room_above_ = 0;
  mutable int wanted_excess_ = 0, wanted_room_above_ = 0;
  mutable std::vector<int> row_labels_;             // y of the painted labels of rows
  mutable int caption_end_ = 0, legend_start_ = 0;  // end of the caption and start of the legend in their row
};

// Forms of a caption with parts, "layer; line: least to most, bar: 10 % to 90 %": the whole, and the text before each
// semicolon.
QStringList captionForms(const QString& caption);

}  // namespace moescope
