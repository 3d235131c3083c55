// The base of every painted plot: margins, a cached picture, a notice in place of missing data.
//
// A plot paints in three steps. refill() copies what the plot needs out of the History, only if something changed and
// the plot is visible. Axes, grid and labels, and then the data, are painted into a picture, which is kept. The overlay
// (crosshair, cursor, hover, focus) is painted over that picture, at most sixty times a second. While the mouse moves,
// only the parts of the overlay that follow it are repainted.
//
// All plots look alike. The title of the value axis is above that axis, the title of the other axis before the
// first of its labels. The selected item has a frame in ink with a halo, which is visible on every map.
#pragma once

#include <QMargins>
#include <QPixmap>
#include <QRegion>
#include <QStringList>
#include <QWidget>
#include <functional>
#include <optional>
#include <vector>

#include "core/findings/explain/explain.h"
#include "widgets/look/setting_labels.h"
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
  // Sets the reason why there is nothing to show; empty if there is something.
  void setNotice(const QString& notice) { notice_ = withSettingLabels(notice); }
  // Sets the notice. Returns false if it is empty, so that there are data to show.
  bool showsNotice(const QString& notice) {
    setNotice(notice);
    return !notice.isEmpty();
  }
  const QString& notice() const { return notice_; }
  // Text of a link under a notice; empty: none. A click, and the key Enter, emit linkFollowed().
  std::function<QString(const QString& notice)> linkUnder;

  // For exported pictures: paints at the painter's resolution, without the parts that depend on the mouse.
  void setPrinted(bool printed) { printed_ = printed; }

  // The figure drawn at a position, for its explain card; nullopt if there is none. Plots of a single figure ask their
  // owner.
  std::function<std::optional<FigureTarget>(QPoint)> figureOf;
  virtual std::optional<FigureTarget> figureAt(QPoint position) const {
    return figureOf && notice_.isEmpty() ? figureOf(position) : std::nullopt;
  }
  // The text for screen readers: the notice, the last readout, or the readout at the keyboard cursor.
  QString valueText() const;
  QSize minimumSizeHint() const override { return {160, 80}; }
  QSize sizeHint() const override { return {420, 240}; }

 signals:
  void dirtied();                            // the data have changed and will be painted
  void readoutChanged(const QString& text);  // readout at the mouse or the keyboard cursor, in one line
  void linkFollowed();

 protected:
  virtual QMargins margins() const { return {axisLabelWidth(), 8, 10, axisLabelHeight()}; }
  virtual void paintStatic(QPainter&) {}  // paints axes, grid and labels, which are behind the data
  virtual void paintData(QPainter& painter) = 0;
  // The readout for a position under the mouse, shown beside it by the default overlay, and in the status bar.
  virtual QStringList readoutAt(QPoint) const { return {}; }
  // The position of the keyboard cursor, whose readout represents the plot while the mouse is elsewhere.
  virtual QPoint cursorPosition() const { return plotRect().center(); }
  QString readoutText(QPoint position) const;  // readout in one line
  // Called when the picture under a resting mouse has changed.
  virtual void followPicture();
  virtual void paintOverlay(QPainter& painter);
  // Stores the position of the mouse for the overlay. The mouse may move on before the overlay is painted, but the
  // overlay must stay within the region whose repaint was requested.
  virtual void takeHover() {}
  // The region of the overlay that follows the mouse, here or in a linked plot, for the position that takeHover()
  // stored.
  virtual QRegion hoverRegion() const { return rect(); }
  virtual void paintPrintedOverlay(QPainter&) {}  // paints the part of the overlay that exported pictures show
  virtual void paintMarks(QPainter&) {}           // paints over the data, without the clip of paintData()

  // The area of the data. It has at least one pixel, also where the margins leave no room.
  QRect plotRect() const;
  // Axes from the left edge of the plot to its right edge, and from its lower edge to its upper edge.
  Axis axisAcross(double low, double high, bool log = false) const;
  Axis axisUp(double low, double high, bool log = false) const;
  bool dark() const;
  // Paints grid lines, and right-aligned labels in the margin, which grows with them. Above them is the caption, or its
  // unit alone if the caption does not fit.
  void paintLeftAxis(QPainter& painter, const Axis& axis, const std::vector<Tick>& ticks, const QString& caption) const;
  // Paints the caption of a plot that paints the labels of its rows itself; `widest_label`: their greatest width.
  void paintLeftCaption(QPainter& painter, int widest_label, const QString& caption) const;
  // Paints a row under the plot: labels, always with the last one, and the longest of the captions (long to short) that
  // has room before the labels, behind them or before the last one.
  void paintBottomAxis(QPainter& painter, const Axis& axis, const std::vector<Tick>& ticks, const QStringList& captions,
                       int below = 0) const;
  void paintVerticalGrid(QPainter& painter, const Axis& axis, const std::vector<Tick>& ticks) const;
  virtual QRect captionRow() const;  // row above the plot, as wide as the widget
  // Paints a colour scale at the right of the caption's row, for pictures and for plots without a legend on an answer
  // line.
  void paintLegendInRow(QPainter& painter, const LegendScale& scale) const;
  // The area that caption and legend leave free in their row.
  QRect freeInCaptionRow() const;

  void paintCursorLine(QPainter& painter, int x) const;              // vertical line through the plot
  void paintFrame(QPainter& painter, const QRectF& cell) const;      // frame around a selected cell or row
  void paintPointer(QPainter& painter, QPointF tip, bool up) const;  // a triangle that points up, or right
  // Paints as many labels of rows as fit; ticks are in pixels. Returns the width of the widest label.
  int paintRowLabels(QPainter& painter, const std::vector<Tick>& ticks, int right) const;
  // Paints the label of the selected row, bold and with a triangle, in place of the labels that it covers.
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
  // `paint_swatch` paints the swatch of an entry, given its index.
  void paintKey(QPainter& painter, const QString& caption, const QStringList& labels, int swatch,
                const std::function<void(std::size_t entry, const QRect& place)>& paint_swatch) const;
  template <class Item>
  static QStringList labelsOf(const std::vector<Item>& items, QString Item::*label) {
    QStringList labels;
    for (const Item& item : items) labels << item.*label;
    return labels;
  }
  // A box with lines beside `near`, inside the widget; empty if there are no lines.
  struct Readout {
    QStringList lines;
    QRect box;
  };
  Readout readoutBeside(QPoint near, const QStringList& lines) const;
  void paintReadout(QPainter& painter, const Readout& readout) const;

  // The direction of an arrow key: x is -1 for left, 1 for right; y is -1 for up, 1 for down. Null for other keys.
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
  // Draws an antialiased curve in the pen's colour: bold, or thin for raw values behind a bold curve.
  void drawCurve(QPainter& painter, const std::vector<QPointF>& points, bool bold) const;
  QColor rawColor(QColor color) const;  // colour of raw values behind a smoothed curve
  bool printed() const { return printed_; }

 private:
  void takeType();
  void updateHover();
  QSize deviceSize() const;
  void paintPicture();
  void paintContent(QPainter& painter);
  void paintPrinted();
  void paintNotice(QPainter& painter) const;
  QString link() const { return linkUnder && !notice_.isEmpty() ? linkUnder(notice_) : QString(); }

  bool dirty_ = true, printed_ = false;
  QString notice_, read_out_;
  QPixmap picture_;
  QRegion hover_region_;  // region of the overlay that is on the screen
  // Width by which the labels of the left axis exceed the margin, and height that the caption needs above the plot.
  // Painting finds the wanted values.
  int label_excess_ = 0, room_above_ = 0;
  mutable int wanted_excess_ = 0, wanted_room_above_ = 0;
  mutable std::vector<int> row_labels_;             // y of the painted labels of rows
  mutable int caption_end_ = 0, legend_start_ = 0;  // end of the caption and start of the legend in their row
};

// Forms of a caption with parts, "layer; line: least to most, bar: 10 % to 90 %": the whole, and the text before each
// semicolon.
QStringList captionForms(const QString& caption);

// Plots for screen readers: role, name, and the readout under the mouse or the keyboard cursor as their value and
// description.
void installAccessiblePlots();  // call at least once; later calls do nothing

// Announces a change of a plot's value text at most once a second for each plot, so that a live run does not talk
// without end.
void announceValueOf(PlotFrame* plot);

}  // namespace moescope
