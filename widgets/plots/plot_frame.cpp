#include "widgets/plots/plot_frame.h"

#include <QAccessible>
#include <QAccessibleWidget>
#include <QEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPaintEvent>
#include <QPainter>
#include <QTimer>
#include <algorithm>
#include <climits>
#include <cmath>
#include <utility>

#include "core/numerics/index.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr int kAnnounceMs = 1000;

// Accessible name of the widget, or of its nearest parent that has one, for example its panel.
QString nameOf(const QWidget* widget) {
  for (; widget; widget = widget->parentWidget())
    if (!widget->accessibleName().isEmpty()) return widget->accessibleName();
  return {};
}

// QAccessibleValueInterface is for a single number, but the value of a plot is a text. Platforms that ignore values
// which are texts get it as the description.
class AccessiblePlot : public QAccessibleWidget {
 public:
  explicit AccessiblePlot(PlotFrame* plot) : QAccessibleWidget(plot, QAccessible::Chart) {}

  QString text(QAccessible::Text which) const override {
    const auto* plot = static_cast<const PlotFrame*>(widget());
    if (which == QAccessible::Name) return nameOf(plot);
    if (which == QAccessible::Value || which == QAccessible::Description) return plot->valueText();
    return QAccessibleWidget::text(which);
  }
};

QAccessibleInterface* makeAccessible(const QString&, QObject* object) {
  auto* plot = qobject_cast<PlotFrame*>(object);
  return plot ? new AccessiblePlot(plot) : nullptr;
}

}  // namespace

void installAccessiblePlots() {
  QAccessible::installFactory(makeAccessible);  // Qt ignores a factory that is installed already
}

void announceValueOf(PlotFrame* plot) {
  if (!QAccessible::isActive()) return;
  auto* timer = plot->findChild<QTimer*>("announce", Qt::FindDirectChildrenOnly);
  if (!timer) {
    timer = new QTimer(plot);
    timer->setObjectName("announce");
    timer->setSingleShot(true);
    timer->setInterval(kAnnounceMs);
    QObject::connect(timer, &QTimer::timeout, plot, [plot] {
      QAccessibleEvent event(plot, QAccessible::DescriptionChanged);
      QAccessible::updateAccessibility(&event);
    });
  }
  if (!timer->isActive()) timer->start();
}

namespace {

constexpr int kWaitingLines = 4;  // lines of the grid behind a notice
constexpr int kPointerSize = 5;
constexpr int kHoverMs = 16;

// Returns the longest form of a caption that fits: "Cross-entropy loss, nats/token", or "nats/token".
QString fittingCaption(const QString& caption, const QFontMetrics& metrics, int width) {
  QStringList forms = captionForms(caption);
  forms << forms.back().section(QLatin1String(", "), -1);
  if (const QString shown = fittingText(forms, metrics, width); !shown.isEmpty()) return shown;
  return elidedWords(caption, metrics, width);
}

// Breaks lines that are too long at spaces.
QStringList brokenLines(const QStringList& lines, const QFontMetrics& metrics, int width) {
  QStringList broken;
  for (const QString& line : lines) {
    QString part;
    for (const QString& word : line.split(QLatin1Char(' '))) {
      const QString longer = part.isEmpty() ? word : part + QLatin1Char(' ') + word;
      if (!part.isEmpty() && metrics.horizontalAdvance(longer) > width)
        broken << std::exchange(part, word);
      else
        part = longer;
    }
    broken << part;
  }
  return broken;
}

int roundedUp(int pixels, int unit) {
  return (pixels + unit - 1) / unit * unit;
}

}  // namespace

PlotFrame::PlotFrame(QWidget* parent) : QWidget(parent), hover_(kHoverMs) {
  setAttribute(Qt::WA_OpaquePaintEvent);
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Expanding);
  takeType();
  installAccessiblePlots();
  connect(&hover_, &Throttle::passed, this, &PlotFrame::updateHover);
  connect(this, &PlotFrame::readoutChanged, this, [this](const QString& text) {
    if (std::exchange(read_out_, text) != text) announceValueOf(this);
  });
}

QString PlotFrame::readoutText(QPoint position) const {
  return notice_.isEmpty() ? readoutAt(position).join(QStringLiteral("   ")) : QString();
}

// Without a readout at the keyboard cursor, searches a grid of positions for the first readout.
QString PlotFrame::valueText() const {
  if (!notice_.isEmpty()) return notice_;
  if (!read_out_.isEmpty()) return read_out_;
  if (const QString text = readoutText(cursorPosition()); !text.isEmpty()) return text;
  constexpr int kParts = 24;
  for (int row = 1; row < kParts; ++row)
    for (int column = 1; column < kParts; ++column) {
      const QString text = readoutText({width() * column / kParts, height() * row / kParts});
      if (!text.isEmpty()) return text;
    }
  return {};
}

void PlotFrame::followPicture() {
  if (mouse_.x() < 0) return;
  if (const QString text = readoutText(mouse_); text != read_out_) emit readoutChanged(text);
}

void PlotFrame::markDirty() {
  dirty_ = true;
  update();
  emit dirtied();
}

QRect PlotFrame::plotRect() const {
  QRect plot = rect().marginsRemoved(margins()).adjusted(label_excess_, room_above_, 0, 0);
  plot.setSize(plot.size().expandedTo({1, 1}));
  return plot;
}

Axis PlotFrame::axisAcross(double low, double high, bool log) const {
  const QRect plot = plotRect();
  return {low, high, plot.left() + 0.0, plot.right() + 0.0, log};
}

Axis PlotFrame::axisUp(double low, double high, bool log) const {
  const QRect plot = plotRect();
  return {low, high, plot.bottom() + 0.0, plot.top() + 0.0, log};
}

bool PlotFrame::dark() const {
  return isDark(palette());
}

void PlotFrame::paintEvent(QPaintEvent* event) {
  if (printed_) return paintPrinted();
  if (std::exchange(dirty_, false) || picture_.size() != deviceSize()) {
    paintPicture();
    if (mouse_.x() >= 0) QMetaObject::invokeMethod(this, &PlotFrame::followPicture, Qt::QueuedConnection);
  }
  QPainter painter(this);
  for (const QRect& part : event->region()) {  // Qt copies slowly if the clip has several rectangles
    painter.setClipRect(part);
    painter.drawPixmap(0, 0, picture_);
  }
  painter.setClipping(false);
  if (notice_.isEmpty()) {
    if (event->region() == rect()) takeHover();
    paintOverlay(painter);
    hover_region_ = hoverRegion();
  }
  if (showsFocus(*this))
    drawRounded(painter, rect(), kRadiusControl, Qt::transparent, QColor(colors(palette()).accent));
}

// Returns the size in pixels, rounded up, so that no line of pixels is left unpainted at a scale of 1.25.
QSize PlotFrame::deviceSize() const {
  const double scale = devicePixelRatioF();
  return {static_cast<int>(std::ceil(width() * scale)), static_cast<int>(std::ceil(height() * scale))};
}

// Refills the data and paints them, a second time if labels or caption need another margin than assumed.
void PlotFrame::paintPicture() {
  if (picture_.size() != deviceSize()) picture_ = QPixmap(deviceSize());
  picture_.setDevicePixelRatio(devicePixelRatioF());
  const auto paint = [this] {
    if (refill) refill();
    picture_.fill(palette().base().color());
    QPainter painter(&picture_);
    paintContent(painter);
  };
  paint();
  const bool as_wide = std::exchange(label_excess_, wanted_excess_) == wanted_excess_;
  if (std::exchange(room_above_, wanted_room_above_) != wanted_room_above_ || !as_wide) paint();
}

void PlotFrame::paintContent(QPainter& painter) {
  painter.setFont(font());
  if (!notice_.isEmpty()) return paintNotice(painter);
  painter.save();
  paintStatic(painter);
  painter.restore();
  painter.save();
  painter.setClipRect(rect());
  paintData(painter);
  painter.setClipRect(rect());
  paintMarks(painter);
  painter.restore();
}

void PlotFrame::paintPrinted() {
  dirty_ = true;   // the data are filled in for the printed picture only
  paintPicture();  // finds the width of the labels
  QPainter painter(this);
  painter.fillRect(rect(), palette().base());
  paintContent(painter);
  if (notice_.isEmpty()) paintPrintedOverlay(painter);
}

// Paints a notice on the grid, so that a panel keeps its look while it waits.
void PlotFrame::paintNotice(QPainter& painter) const {
  if (notice_.trimmed().isEmpty()) return;
  const QRect area = rect().adjusted(kSpace12, kSpace4, -kSpace12, -kSpace4);
  painter.setPen(gridColor(palette()));
  for (int i = 0; i <= kWaitingLines; ++i) {
    const int y = area.top() + (area.height() - 1) * i / kWaitingLines;
    painter.drawLine(area.left(), y, area.right(), y);
  }
  constexpr int kFlags = Qt::AlignHCenter | Qt::TextWordWrap;
  const QString link_text = printed_ ? QString() : link();
  const QString lines = link_text.isEmpty() ? notice_ : notice_ + QLatin1Char('\n') + link_text;
  const QRect text = painter.boundingRect(area, kFlags | Qt::AlignVCenter, lines);
  painter.fillRect(text.adjusted(-kSpace8, -kSpace4, kSpace8, kSpace4), palette().base());
  painter.setPen(mutedText(palette()));
  painter.drawText(text, kFlags | Qt::AlignTop, notice_);
  if (link_text.isEmpty()) return;
  QFont underlined = painter.font();
  underlined.setUnderline(true);
  painter.setFont(underlined);
  painter.setPen(QColor(colors(palette()).accent));
  painter.drawText(text, kFlags | Qt::AlignBottom, link_text);
}

void PlotFrame::paintOverlay(QPainter& painter) {
  if (mouse_.x() >= 0) paintReadout(painter, readoutBeside(mouse_, readoutAt(mouse_)));
}

// Repaints everything if there are new data or a notice, since the data that a readout needs may be gone.
void PlotFrame::updateHover() {
  if (dirty_ || !notice_.isEmpty()) return update();
  takeHover();
  update(hover_region_ | hoverRegion());
}

void PlotFrame::mouseMoveEvent(QMouseEvent* event) {
  mouse_ = event->pos();
  hover_.change();
  emit readoutChanged(readoutText(mouse_));
}

void PlotFrame::leaveEvent(QEvent*) {
  mouse_ = {-1, -1};
  emit readoutChanged({});
  update();
}

QPoint PlotFrame::arrowOf(const QKeyEvent* event) {
  const int key = event->key();
  return {(key == Qt::Key_Right) - (key == Qt::Key_Left), (key == Qt::Key_Down) - (key == Qt::Key_Up)};
}

void PlotFrame::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::StyleChange ||
      event->type() == QEvent::FontChange)
    markDirty();
  QWidget::changeEvent(event);
}

// Turns off shaping and kerning: the texts are numbers and short names, drawn at each move of the mouse, and shaping
// takes a third of the time.
void PlotFrame::takeType() {
  QFont type = typeFont(Type::caption);
  type.setStyleStrategy(QFont::PreferNoShaping);
  setFont(type);
}

bool PlotFrame::event(QEvent* event) {
  if (event->type() == QEvent::ApplicationFontChange) takeType();
  const auto* key = event->type() == QEvent::KeyPress ? static_cast<QKeyEvent*>(event) : nullptr;
  const bool is_enter = key && (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter);
  if ((is_enter || event->type() == QEvent::MouseButtonPress) && !link().isEmpty()) {
    emit linkFollowed();
    return true;
  }
  return QWidget::event(event);
}

int PlotFrame::withType(double pixels) const {
  return moescope::withType(pixels, fontMetrics());
}

int PlotFrame::axisLabelHeight() const {
  return fontMetrics().height() + kSpace4 + 2;
}

// Draws single lines, because Qt's raster engine draws wide polylines some fifty times slower.
void PlotFrame::drawCurve(QPainter& painter, const std::vector<QPointF>& points, bool bold) const {
  const QColor color = painter.pen().color();
  const Qt::PenStyle style = painter.pen().style();
  const double width = (bold ? kCurveWidth : kRawCurveWidth) * typeScale(fontMetrics());
  painter.setRenderHint(QPainter::Antialiasing);
  if (style != Qt::SolidLine) {  // the pattern of dashes continues from one segment to the next
    painter.setPen(QPen(color, kRawCurveWidth * typeScale(fontMetrics()), style));
    painter.drawPolyline(points.data(), to_int(points.size()));
  } else if (width * devicePixelRatioF() < kCurveWidth - 0.01) {
    painter.setPen(QPen(color, 0));
    painter.drawPolyline(points.data(), to_int(points.size()));
  } else {
    std::vector<QLineF> lines;
    lines.reserve(points.size());
    for (std::size_t i = 1; i < points.size(); ++i) lines.emplace_back(points[i - 1], points[i]);
    painter.setPen(QPen(color, width, Qt::SolidLine, color.alpha() < 255 ? Qt::FlatCap : Qt::SquareCap));
    painter.drawLines(lines.data(), to_int(lines.size()));
  }
  painter.setRenderHint(QPainter::Antialiasing, false);
}

QColor PlotFrame::rawColor(QColor color) const {
  color.setAlphaF(static_cast<float>(kRawCurveAlpha));
  return color;
}

void PlotFrame::paintLeftAxis(QPainter& painter, const Axis& axis, const std::vector<Tick>& ticks,
                              const QString& caption) const {
  const QRect plot = plotRect();
  const QFontMetrics metrics(painter.font());
  int widest = 0, last = INT_MIN / 2;
  for (const Tick& tick : ticks) {
    const int y = to_int(std::lround(axis.toPixel(tick.value)));
    if (y < plot.top() || y > plot.bottom() + 1 || std::abs(y - last) < metrics.ascent()) continue;
    last = y;
    widest = std::max(widest, metrics.horizontalAdvance(tick.label));
    painter.setPen(gridColor(palette()));
    painter.drawLine(plot.left(), y, plot.right(), y);
    painter.setPen(mutedText(palette()));
    const QRect place(0, y - metrics.height() / 2, plot.left() - kSpace8, metrics.height());
    painter.drawText(place, Qt::AlignRight | Qt::AlignVCenter, tick.label);
  }
  paintLeftCaption(painter, widest, caption);
}

// Widens the margin in steps, so that plots above one another have margins of the same width.
void PlotFrame::paintLeftCaption(QPainter& painter, int widest_label, const QString& caption) const {
  const QFontMetrics metrics(painter.font());
  wanted_excess_ = roundedUp(widest_label + kSpace8, kSpace8) - margins().left();
  wanted_room_above_ = caption.isEmpty() ? 0 : std::max(0, metrics.height() + kSpace8 - margins().top());
  caption_end_ = 0;
  legend_start_ = width();
  if (caption.isEmpty()) return;
  painter.setPen(mutedText(palette()));
  const QRect row = captionRow();
  const QString shown = fittingCaption(caption, metrics, row.width());
  caption_end_ = metrics.horizontalAdvance(shown);
  painter.drawText(row, Qt::AlignLeft | Qt::AlignVCenter, shown);
}

QRect PlotFrame::captionRow() const {
  const int line = fontMetrics().height();
  return {0, std::max(0, plotRect().top() - line - kSpace8), width(), line};
}

QRect PlotFrame::freeInCaptionRow() const {
  const QRect row = captionRow();
  const int from = caption_end_ + (caption_end_ > 0 ? kSpace12 : 0);
  return {from, row.top(), legend_start_ - kSpace8 - from, row.height()};
}

void PlotFrame::paintLegendInRow(QPainter& painter, const LegendScale& scale) const {
  QRect row = captionRow().adjusted(caption_end_ + kSpace12, 0, 0, 0);
  row.setRight(plotRect().right());  // what is beside the plot has its own caption there
  legend_start_ = row.right() + 1 - paintFlatLegend(painter, row, scale, palette());
}

void PlotFrame::paintVerticalGrid(QPainter& painter, const Axis& axis, const std::vector<Tick>& ticks) const {
  const QRect plot = plotRect();
  painter.setPen(gridColor(palette()));
  for (const Tick& tick : ticks) {
    const int x = to_int(std::lround(axis.toPixel(tick.value)));
    if (x >= plot.left() && x <= plot.right() + 1) painter.drawLine(x, plot.top(), x, plot.bottom());
  }
}

namespace {

struct PlacedLabel {
  int begin, width;
  QString text;
  int end() const { return begin + width; }
};

// Chooses the labels that are painted: the last one, and from the left those that touch no other.
std::vector<PlacedLabel> separateLabels(std::vector<PlacedLabel> labels) {
  if (labels.empty()) return labels;
  const PlacedLabel last = labels.back();
  std::vector<PlacedLabel> separate;
  for (const PlacedLabel& label : labels)
    if ((separate.empty() || label.begin >= separate.back().end() + kSpace8) && label.end() + kSpace8 <= last.begin)
      separate.push_back(label);
  separate.push_back(last);
  return separate;
}

// Returns the place of a caption: before the first label, else after the last one, else between two labels as far to
// the right as possible; -1: nowhere. `end`: the end of the caption if it is after the last label.
int captionPlace(const std::vector<PlacedLabel>& labels, int width, int end) {
  constexpr int kGap = kSpace8;
  if (labels.empty()) return end - width;
  const PlacedLabel &first = labels.front(), &last = labels.back();
  if (width + kGap <= first.begin) return first.begin - kGap - width;
  if (last.end() + kGap + width <= end) return end - width;
  for (std::size_t i = labels.size() - 1; i > 0; --i)
    if (labels[i].begin - labels[i - 1].end() >= width + 2 * kGap) return labels[i].begin - kGap - width;
  return -1;
}

}  // namespace

void PlotFrame::paintBottomAxis(QPainter& painter, const Axis& axis, const std::vector<Tick>& ticks,
                                const QStringList& captions, int below) const {
  const QRect plot = plotRect();
  const QFontMetrics metrics(painter.font());
  const int top = plot.bottom() + 1 + below, right = std::min(width(), plot.right() + 1 + kSpace8);
  const auto paintText = [&, row = top + kSpace4](int x, int wide, const QString& text) {
    painter.drawText(QRect(x, row, wide + 1, metrics.height()), Qt::AlignCenter, text);
  };
  std::vector<PlacedLabel> labels;
  painter.setPen(axisColor(palette()));
  for (const Tick& tick : ticks) {
    const int x = to_int(std::lround(axis.toPixel(tick.value)));
    if (x < plot.left() - 1 || x > plot.right() + 1) continue;
    painter.drawLine(x, top, x, top + 3);
    const int wide = metrics.horizontalAdvance(tick.label);
    labels.push_back({std::clamp(x - wide / 2, 0, std::max(0, right - wide)), wide, tick.label});
  }
  labels = separateLabels(std::move(labels));
  painter.setPen(mutedText(palette()));
  for (const QString& form : captions) {
    const int wide = metrics.horizontalAdvance(form);
    int caption_x = captionPlace(labels, wide, plot.right() + 1);
    while (caption_x < 0 && form == captions.back() && labels.size() > 2) {  // every second label leaves
      for (auto i = std::ssize(labels) - 2; i >= 0; i -= 2) labels.erase(labels.begin() + i);
      caption_x = captionPlace(labels, wide, plot.right() + 1);
    }
    if (caption_x < 0) continue;
    paintText(caption_x, wide, form);
    break;
  }
  for (const PlacedLabel& label : labels) paintText(label.begin, label.width, label.text);
}

namespace {

QColor haloOf(const QPalette& palette) {
  QColor halo = palette.base().color();
  halo.setAlphaF(0.7F);
  return halo;
}

}  // namespace

void PlotFrame::paintCursorLine(QPainter& painter, int x) const {
  const QRect plot = plotRect();
  painter.fillRect(QRect(x - 1, plot.top(), 3, plot.height()), haloOf(palette()));
  painter.fillRect(QRect(x, plot.top(), 1, plot.height() + 1), cursorColor(dark()));
}

void PlotFrame::paintFrame(QPainter& painter, const QRectF& cell) const {
  const QRectF around(std::round(cell.left()) - 0.5, std::round(cell.top()) - 0.5, std::round(cell.width()) + 1,
                      std::round(cell.height()) + 1);
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(haloOf(palette()), 3.5, Qt::SolidLine, Qt::SquareCap, Qt::MiterJoin));
  painter.drawRect(around);
  painter.setPen(QPen(cursorColor(dark()), 1.5, Qt::SolidLine, Qt::SquareCap, Qt::MiterJoin));
  painter.drawRect(around);
}

void PlotFrame::paintPointer(QPainter& painter, QPointF tip, bool up) const {
  const QPointF back = up ? QPointF(0, kPointerSize) : QPointF(-kPointerSize, 0),
                side = up ? QPointF(4, 0) : QPointF(0, 4);
  painter.setPen(Qt::NoPen);
  painter.setBrush(cursorColor(dark()));
  painter.drawPolygon(QPolygonF({tip, tip + back - side, tip + back + side}));
  painter.setBrush(Qt::NoBrush);
}

int PlotFrame::paintRowLabels(QPainter& painter, const std::vector<Tick>& ticks, int right) const {
  const QFontMetrics metrics(painter.font());
  const QRect plot = plotRect();
  const int least_distance = metrics.ascent();
  int widest = 0;
  row_labels_.clear();
  painter.setPen(mutedText(palette()));
  const auto paintLabel = [&](const Tick& tick) {
    const int y = to_int(std::lround(tick.value));
    const bool covers = std::ranges::any_of(row_labels_, [&](int row) { return std::abs(y - row) < least_distance; });
    if (y < plot.top() || y > plot.bottom() || covers) return;
    row_labels_.push_back(y);
    widest = std::max(widest, metrics.horizontalAdvance(tick.label));
    painter.drawText(QRect(0, y - metrics.height() / 2, right, metrics.height()), Qt::AlignRight | Qt::AlignVCenter,
                     tick.label);
  };
  if (ticks.empty()) return 0;
  paintLabel(ticks.back());
  const int stride = labelStride(
      least_distance, std::abs(ticks.back().value - ticks.front().value) / std::max<std::size_t>(1, ticks.size() - 1),
      static_cast<int>(ticks.size()));
  for (std::size_t i = 0; i < ticks.size(); i += stride) paintLabel(ticks[i]);
  return widest;
}

void PlotFrame::paintRowLabel(QPainter& painter, double y, const QString& label) const {
  const QRect plot = plotRect();
  const QFont usual = painter.font();
  painter.setFont(semibold(usual));
  const QFontMetrics metrics(painter.font());
  const int wide = metrics.horizontalAdvance(label), line = metrics.height(), ink = metrics.capHeight() + 2;
  const int right = plot.left() - kSpace8, middle = to_int(std::lround(y));
  const QRect place(std::max(0, right - wide), middle - line / 2, std::min(wide, right), line);
  if (!label.isEmpty() && wide <= right) {
    const int left_x = std::max(0, place.left() - kSpace16);  // does not cover names farther left
    const QRect label_room(left_x, middle - ink / 2, plot.left() - 3 - left_x, ink);
    painter.fillRect(label_room, palette().base());
    for (const int other : row_labels_)
      if (std::abs(other - y) < ink)
        painter.fillRect(QRect(left_x, other - line / 2, label_room.width(), line), palette().base());
    painter.setPen(palette().text().color());
    painter.drawText(place, Qt::AlignRight | Qt::AlignVCenter, label);
  }
  const bool fits = wide + kPointerSize + 2 <= right;
  paintPointer(painter, QPointF(fits ? place.left() - 3 : plot.left() - 2, y), false);
  painter.setFont(usual);
}

PlotFrame::Key PlotFrame::keyBeside(const QString& caption, const QStringList& labels, int swatch) const {
  constexpr int kGap = 14, kBesideSwatch = 5;
  const QFontMetrics metrics = fontMetrics();
  const int line = metrics.height(), above = caption.isEmpty() && labels.isEmpty() ? 0 : line + kSpace8;
  Key key{{}, above};
  int x = 0, y = 0;
  for (const QString& label : labels) {
    const int text = metrics.horizontalAdvance(label) + 1, wide = swatch + kBesideSwatch + text;
    if (x > 0 && x + wide > width()) {
      x = 0;
      y += line;
    }
    key.entries.push_back({QRect(x, y + 3, swatch, line - 6), QRect(x + swatch + kBesideSwatch, y, text, line)});
    x += wide + kGap;
  }
  const int wide = x - kGap, named = caption.isEmpty() ? 0 : metrics.horizontalAdvance(caption) + kSpace16;
  if (y == 0 && named + wide <= width()) {
    for (KeyEntry& entry : key.entries) {
      entry.swatch.translate(width() - 1 - wide, 0);
      entry.text.translate(width() - 1 - wide, 0);
    }
  } else if (!caption.isEmpty()) {
    key.height += y + line;
  } else {
    key.height += y;
  }
  return key;
}

void PlotFrame::paintKey(QPainter& painter, const QString& caption, const QStringList& labels, int swatch,
                         const std::function<void(std::size_t entry, const QRect& place)>& paint_swatch) const {
  const std::vector<KeyEntry> entries = keyBeside(caption, labels, swatch).entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    paint_swatch(i, entries[i].swatch);
    painter.setPen(palette().text().color());
    painter.drawText(entries[i].text, Qt::AlignLeft | Qt::AlignVCenter, labels[to_int(i)]);
  }
}

PlotFrame::Readout PlotFrame::readoutBeside(QPoint near, const QStringList& all) const {
  if (all.isEmpty()) return {};
  const QFontMetrics metrics = fontMetrics();
  const int fit = std::max(1, (height() - 2 * kSpace4) / metrics.height());  // the status line shows all lines
  const QStringList lines = brokenLines(all, metrics, this->width() - 2 * kSpace8).mid(0, fit);
  int width = 0;
  for (const QString& line : lines) width = std::max(width, metrics.horizontalAdvance(line));
  QRect box(0, 0, std::min(width + 2 * kSpace8 + 4, this->width()),
            metrics.height() * to_int(lines.size()) + 2 * kSpace4);
  box.moveTopLeft(near + QPoint(14, 12));
  if (box.right() >= this->width()) box.moveRight(near.x() - 10);
  if (box.bottom() >= height()) box.moveBottom(near.y() - 8);
  box.moveLeft(std::max(0, box.left()));
  box.moveTop(std::max(0, box.top()));
  return {lines, box};
}

void PlotFrame::paintReadout(QPainter& painter, const Readout& readout) const {
  if (readout.lines.isEmpty()) return;
  const QRect& box = readout.box;
  const QFontMetrics metrics = fontMetrics();
  const Colors& c = colors(palette());
  drawRounded(painter, box, kRadiusControl, QColor(c.popup), QColor(c.hairline));
  painter.setPen(palette().text().color());
  int y = box.top() + kSpace4;
  for (const QString& line : readout.lines) {
    painter.drawText(box.left() + kSpace8, y + metrics.ascent(), elidedWords(line, metrics, box.width() - 2 * kSpace8));
    y += metrics.height();
  }
}

QStringList captionForms(const QString& caption) {
  QStringList forms{caption};
  for (auto at = caption.lastIndexOf(QLatin1Char(';')); at > 0; at = caption.lastIndexOf(QLatin1Char(';'), at - 1))
    forms << caption.left(at).trimmed();
  return forms;
}

}  // namespace moescope
