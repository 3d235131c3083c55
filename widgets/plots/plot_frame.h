// The base of every painted plot: margins, a cached picture, a notice in place of missing data.
//
// A plot paints in three steps: refill() copies what it needs out of the History, only when something changed and the
// plot is really on screen; the data are painted over a cached static layer (axes, grid, labels) into a picture; the
// overlay (crosshair, cursor, hover, focus) is painted over that picture, sixty times a second at most.
//
// All plots look alike: the title of the value axis lies flat above it, the title of the other axis at the right end of
// its row of labels; what is chosen has a frame of ink in a halo of the ground, which shows on every map.
#pragma once

#include <QMargins>
#include <QPixmap>
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
  void setNotice(const QString& notice);
  const QString& notice() const { return notice_; }

  // For exported pictures: painted again at the painter's resolution, without what depends on the mouse.
  void setPrinted(bool printed) { printed_ = printed; }

  // The figure drawn at a position, for its explain card; nullopt: none. Plots of a single figure ask their owner.
  std::function<std::optional<FigureTarget>(QPoint)> figureOf;
  virtual std::optional<FigureTarget> figureAt(QPoint position) const {
    return figureOf && notice_.isEmpty() ? figureOf(position) : std::nullopt;
  }
  // What a screen reader says: the notice, what was read out last, or the figure at the keyboard cursor.
  QString valueText() const;
  QSize minimumSizeHint() const override { return {160, 80}; }
  QSize sizeHint() const override { return {420, 240}; }

 signals:
  void readoutChanged(const QString& text);  // what is under the mouse or the keyboard cursor, one line

 protected:
  virtual QMargins margins() const { return {axisLabelWidth(), 8, 10, axisLabelHeight()}; }
  virtual void paintStatic(QPainter& painter) = 0;
  virtual void paintData(QPainter& painter) = 0;
  // The readout for a position under the mouse, shown beside it by the default overlay, and in the status bar.
  virtual QStringList readoutAt(QPoint) const { return {}; }
  // Where the keyboard cursor is, whose readout stands for the plot while no mouse is over it.
  virtual QPoint cursorPosition() const { return plotRect().center(); }
  QString readoutText(QPoint position) const;  // in one line
  // The picture under a resting mouse has changed.
  virtual void followPicture();
  virtual void paintOverlay(QPainter& painter);
  virtual void paintPrintedOverlay(QPainter&) {}  // the parts of the overlay for exported pictures: legends, marks
  virtual void paintMarks(QPainter&) {}           // over the data, without its clip
  // What the static layer depends on besides size, resolution, font and palette.
  virtual QString staticKey() const { return {}; }
  // A part of the static layer that changes more often: a scale of colours. Painted again alone, over its own area.
  virtual QRect legendRect() const { return {}; }
  virtual QString legendKey() const { return {}; }
  virtual void paintColorLegend(QPainter&) {}

  QRect plotRect() const;
  bool dark() const;
  // Labels right-aligned in the margin, which grows with them, and grid lines; the caption above, its unit alone where
  // there is little room.
  void paintLeftAxis(QPainter& painter, const Axis& axis, const std::vector<Tick>& ticks, const QString& caption) const;
  // For plots that paint labels of rows themselves: how wide the widest is.
  void paintLeftCaption(QPainter& painter, int widest_label, const QString& caption) const;
  // One row under the plot: labels, and at its right end the longest of the captions (long to short) that has room.
  // Labels keep off the caption and each other.
  void paintBottomAxis(QPainter& painter, const Axis& axis, const std::vector<Tick>& ticks, const QStringList& captions,
                       int below = 0) const;
  void paintVerticalGrid(QPainter& painter, const Axis& axis, const std::vector<Tick>& ticks) const;
  virtual QRect captionRow() const;  // above the plot, as wide as the widget
  // A colour scale on one line at the right of the caption's row; printed or where no answer line has it.
  void paintLegendInRow(QPainter& painter, const LegendScale& scale) const;
  // Room that caption and legend leave for other text in their row.
  QRect freeInCaptionRow() const;

  void paintCursorLine(QPainter& painter, int x) const;              // through the plot
  void paintFrame(QPainter& painter, const QRectF& cell) const;      // around a chosen cell or row
  void paintPointer(QPainter& painter, QPointF tip, int way) const;  // a triangle; way +1 points right, -1 left
  void paintPointerUp(QPainter& painter, QPointF tip) const;
  // Labels of rows, as many as have room; ticks are in pixels. Returns the width of the widest.
  int paintRowLabels(QPainter& painter, const std::vector<Tick>& ticks, int right) const;
  // The label of the chosen row in place of those that it covers, bold, with a triangle.
  void paintRowLabel(QPainter& painter, double y, const QString& label) const;
  // What names the marks of a plot: at the right of the caption where both fit on one line, else above it in as many
  // lines as needed.
  struct KeyEntry {
    QRect swatch, text;
  };
  struct Key {
    std::vector<KeyEntry> entries;  // for each label where its swatch and its text stand
    int height = 0;                 // of key and caption, and the space below them
  };
  Key keyBeside(const QString& caption, const QStringList& labels, int swatch) const;
  // A small box of lines beside `near`, always inside the widget; without lines there is none.
  void paintReadout(QPainter& painter, QPoint near, const QStringList& lines) const;

  // Where an arrow key points: x -1 left, 1 right; y -1 up, 1 down. Null for any other key.
  static QPoint arrowOf(const QKeyEvent* event);

  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent*) override;
  bool event(QEvent* event) override;

  QPoint mouse_{-1, -1};  // negative: elsewhere
  Throttle hover_;        // paces repaints of the overlay under a moving mouse

  int axisLabelWidth() const { return withType(58); }
  int axisLabelHeight() const;        // one row of labels
  int withType(double pixels) const;  // as many beside the usual type
  // Antialiased, in the pen's colour: as thick as curves are, or as raw values are that lie behind one.
  void drawCurve(QPainter& painter, const std::vector<QPointF>& points, bool bold) const;
  QColor rawColor(QColor color) const;  // of values behind a smoothed curve
  bool printed() const { return printed_; }

 private:
  void takeType();
  void prepare();
  void renderStatic();
  void renderContent();
  void paintPrinted();
  void paintNotice(QPainter& painter) const;

  bool dirty_ = true, printed_ = false;
  QString notice_, read_out_;
  QPixmap static_layer_, content_;
  QString static_key_, legend_key_;
  // Width by which the labels of the left axis differ from its margin, and height that its caption needs above; the
  // second ones as found while painting.
  int label_excess_ = 0, room_above_ = 0;
  mutable int wanted_excess_ = 0, wanted_room_above_ = 0;
  mutable std::vector<int> row_labels_;             // where labels of rows stand
  mutable int caption_end_ = 0, legend_start_ = 0;  // in the row of the caption
};

// A caption with parts, "layer; line: least to most, bar: 10 % to 90 %": itself and what stands before each semicolon.
QStringList captionForms(const QString& caption);

}  // namespace moescope
