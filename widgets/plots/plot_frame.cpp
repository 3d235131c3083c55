#include "widgets/plots/plot_frame.h"

#include <QApplication>
#include <QElapsedTimer>
#include <QEvent>
#include <QMouseEvent>
#include <QPaintEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <utility>

#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/plots/accessible_plot.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

// "Cross-en…, nats/token": of a caption that is too long its words give way, not the unit behind the last comma.
QString withItsUnit(const QString& caption, const QFontMetrics& metrics, int width) {
  const int comma = static_cast<int>(caption.lastIndexOf(QLatin1String(", ")));
  const QString unit = comma < 0 ? QString() : caption.mid(comma);
  const int room = width - metrics.horizontalAdvance(unit);
  if (room < metrics.averageCharWidth() * 4) return metrics.elidedText(caption, Qt::ElideRight, width);
  return metrics.elidedText(caption.left(caption.size() - unit.size()), Qt::ElideRight, room) + unit;
}

}  // namespace

PlotFrame::PlotFrame(QWidget* parent) : QWidget(parent) {
  setAttribute(Qt::WA_OpaquePaintEvent);
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Expanding);
  takeType();
  installAccessiblePlots();
  connect(this, &PlotFrame::readoutChanged, this, [this](const QString& text) {
    if (std::exchange(read_out_, text) != text) announceValueOf(this);
  });
}

QString PlotFrame::readoutText(QPoint position) const {
  return notice_.isEmpty() ? readoutAt(position).join(QStringLiteral("   ")) : QString();
}

// Between bars and beside curves there is no figure: then the first that is met.
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
}

void PlotFrame::setNotice(const QString& notice) {
  notice_ = notice;
}

QRect PlotFrame::plotRect() const {
  return rect().marginsRemoved(margins()).adjusted(label_excess_, room_above_, 0, 0);
}

bool PlotFrame::dark() const {
  return isDark(palette());
}

// New data go straight to the screen, which saves a copy of all pixels. Where only the overlay moved since, a picture
// of the data is kept to be painted over; one that was wanted between the last two changes is likely wanted again.
void PlotFrame::paintEvent(QPaintEvent* event) {
  if (printed_) return paintPrinted();
  QElapsedTimer timer;
  timer.start();
  painted_ = event->region();
  const bool news = std::exchange(dirty_, false) || static_layer_.size() != size() * devicePixelRatioF();
  if (news) {
    prepare();
    content_valid_ = false;
    mouse_readout_.reset();
    if (mouse_.x() >= 0) QMetaObject::invokeMethod(this, &PlotFrame::followPicture, Qt::QueuedConnection);
  }
  QPainter painter(this);
  if (news && !overlay_moved_) {
    painter.save();
    paintContent(painter);
    painter.restore();
  } else {
    if (!std::exchange(content_valid_, true)) renderContent();
    for (const QRect& part : painted_) {  // Qt copies quickly under a clip of one rectangle only
      painter.setClipRect(part);
      painter.drawPixmap(0, 0, content_);
    }
    painter.setClipping(false);
  }
  overlay_moved_ = !news;
  if (notice_.isEmpty()) paintOverlay(painter);
  hovered_ = hoverRegion();
  mouse_readout_.reset();
  if (hasFocus()) drawRounded(painter, rect(), kRadiusControl, Qt::transparent, QColor(colors(palette()).accent));
  last_paint_ms_ = timer.nsecsElapsed() * 1e-6;
}

// Refills the data and paints the static layer, twice if its labels turn out wider than their margin.
void PlotFrame::prepare() {
  if (refill) refill();
  renderStatic();
  const bool as_wide = std::exchange(label_excess_, wanted_excess_) == wanted_excess_;
  if (std::exchange(room_above_, wanted_room_above_) == wanted_room_above_ && as_wide) return;
  static_layer_ = {};
  if (refill) refill();
  renderStatic();
}

void PlotFrame::paintPrinted() {
  dirty_ = true;  // what is filled in now is for this picture
  prepare();      // finds the width of the labels
  QPainter painter(this);
  painter.setFont(font());
  painter.fillRect(rect(), palette().base());
  if (!notice_.isEmpty()) {
    painter.setPen(mutedText(palette()));
    painter.drawText(rect().adjusted(12, 4, -12, -4), Qt::AlignCenter | Qt::TextWordWrap, notice_);
    return;
  }
  painter.save();
  paintStatic(painter);
  paintColorLegend(painter);
  painter.restore();
  painter.save();
  painter.setClipRect(rect());
  paintData(painter);
  painter.restore();
  paintPrintedOverlay(painter);
}

void PlotFrame::renderStatic() {
  const QString key = staticKey() + notice_, legend_key = notice_.isEmpty() ? legendKey() : QString();
  const QSize device_size = size() * devicePixelRatioF();
  const bool same_axes = static_layer_.size() == device_size && static_key_ == key;
  if (same_axes && legend_key_ == legend_key) return;
  static_key_ = key;
  legend_key_ = legend_key;
  if (static_layer_.size() != device_size) static_layer_ = QPixmap(device_size);
  static_layer_.setDevicePixelRatio(devicePixelRatioF());
  if (!same_axes) static_layer_.fill(palette().base().color());
  QPainter painter(&static_layer_);
  painter.setFont(font());
  if (notice_.isEmpty()) {
    same_axes ? painter.fillRect(legendRect(), palette().base()) : paintStatic(painter);
    return paintColorLegend(painter);
  }
  painter.setPen(mutedText(palette()));
  painter.drawText(rect().adjusted(12, 4, -12, -4), Qt::AlignCenter | Qt::TextWordWrap, notice_);
}

void PlotFrame::renderContent() {
  // Into the old picture's memory: fresh pages cost more than the copy.
  if (content_.size() != static_layer_.size()) content_ = QPixmap(static_layer_.size());
  content_.setDevicePixelRatio(devicePixelRatioF());
  QPainter painter(&content_);
  painter.setFont(font());
  paintContent(painter);
}

void PlotFrame::paintContent(QPainter& painter) {
  painter.setCompositionMode(QPainter::CompositionMode_Source);
  painter.drawPixmap(0, 0, static_layer_);
  painter.setCompositionMode(QPainter::CompositionMode_SourceOver);
  if (!notice_.isEmpty()) return;
  painter.setClipRect(rect());
  paintData(painter);
}

void PlotFrame::paintOverlay(QPainter& painter) {
  if (mouse_.x() >= 0) paintReadout(painter, mouseReadout());
}

// A hand moves what follows it sixty times a second.
void PlotFrame::updateHover() {
  if (isVisible()) update(hovered_ + hoverRegion());
}

void PlotFrame::mouseMoveEvent(QMouseEvent* event) {
  mouse_ = event->pos();
  updateHover();  // first: the status bar paints its text at once, and what else waits for paint with it
  emit readoutChanged(readoutText(mouse_));
}

void PlotFrame::leaveEvent(QEvent*) {
  mouse_ = {-1, -1};
  emit readoutChanged({});
  updateHover();
}

void PlotFrame::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::StyleChange ||
      event->type() == QEvent::FontChange) {
    static_layer_ = {};
    markDirty();
  }
  QWidget::changeEvent(event);
}

// Numbers and short names, drawn anew with each move of the mouse: shaping is a third of their cost.
void PlotFrame::takeType() {
  QFont type = typeFont(QApplication::font(), Type::caption);
  type.setStyleStrategy(QFont::PreferNoShaping);
  setFont(type);
}

bool PlotFrame::event(QEvent* event) {
  if (event->type() == QEvent::ApplicationFontChange) takeType();
  return QWidget::event(event);
}

void PlotFrame::resizeEvent(QResizeEvent*) {
  dirty_ = true;
}

int PlotFrame::withType(double pixels) const {
  return moescope::withType(pixels, fontMetrics());
}

// Strokes beside each other read as a thick one: Qt's raster engine draws wider polylines some fifty times slower.
void PlotFrame::drawCurve(QPainter& painter, const std::vector<QPointF>& points, bool bold) const {
  const double scale = typeScale(fontMetrics());
  const int strokes = bold ? static_cast<int>(std::lround(2 * scale * scale)) : static_cast<int>(std::lround(scale));
  painter.setRenderHint(QPainter::Antialiasing);
  painter.save();
  for (int stroke = 0; stroke < strokes; ++stroke) {
    painter.drawPolyline(points.data(), static_cast<int>(points.size()));
    painter.translate(0, 0.7 / devicePixelRatioF());
  }
  painter.restore();
  painter.setRenderHint(QPainter::Antialiasing, false);
}

void PlotFrame::paintLeftAxis(QPainter& painter, const Axis& axis, const std::vector<Tick>& ticks,
                              const QString& caption) const {
  const QRect plot = plotRect();
  const QFontMetrics metrics(painter.font());
  int widest = 0;
  for (const Tick& tick : ticks) {
    const int y = static_cast<int>(std::lround(axis.toPixel(tick.value)));
    if (y < plot.top() || y > plot.bottom() + 1) continue;
    widest = std::max(widest, metrics.horizontalAdvance(tick.label));
    painter.setPen(gridColor(palette()));
    painter.drawLine(plot.left() - 3, y, plot.right(), y);
    painter.setPen(palette().text().color());
    const QRect place(0, y - metrics.height() / 2, plot.left() - 6, metrics.height());
    painter.drawText(place, Qt::AlignRight | Qt::AlignVCenter, tick.label);
  }
  wanted_excess_ = widest + 6 - margins().left();
  wanted_room_above_ = caption.isEmpty() ? 0 : std::max(0, metrics.height() + kSpace4 - margins().top());
  if (caption.isEmpty()) return;
  painter.setPen(mutedText(palette()));
  const QRect place(0, plot.top() - metrics.height() - kSpace4, width(), metrics.height());
  painter.drawText(place, Qt::AlignLeft | Qt::AlignVCenter, withItsUnit(caption, metrics, place.width()));
}

std::vector<PlotFrame::KeyEntry> PlotFrame::keyEntries(const QStringList& labels, int swatch) const {
  constexpr int kLeft = 6, kGap = 14;
  const QFontMetrics metrics = fontMetrics();
  std::vector<KeyEntry> entries;
  int x = kLeft, y = 1;
  for (const QString& label : labels) {
    const int text = metrics.horizontalAdvance(label), wide = swatch + 5 + text;
    if (x > kLeft && x + wide > width()) {
      x = kLeft;
      y += metrics.height();
    }
    entries.push_back(
        {QRect(x, y + 3, swatch, metrics.height() - 6), QRect(x + swatch + 5, y, text + kGap, metrics.height())});
    x += wide + kGap;
  }
  return entries;
}

int PlotFrame::keyHeight(const QStringList& labels, int swatch) const {
  return labels.isEmpty() ? 0 : keyEntries(labels, swatch).back().text.bottom();
}

PlotFrame::Readout PlotFrame::readoutBeside(QPoint near, const QStringList& lines) const {
  if (lines.isEmpty()) return {near, lines};
  const QFontMetrics metrics = fontMetrics();
  int width = 0;
  for (const QString& line : lines) width = std::max(width, metrics.horizontalAdvance(line));
  QRect box(0, 0, std::min(width + 20, this->width()), metrics.height() * static_cast<int>(lines.size()) + 6);
  box.moveTopLeft(near + QPoint(14, 12));
  if (box.right() >= this->width()) box.moveRight(near.x() - 10);
  if (box.bottom() >= height()) box.moveBottom(near.y() - 8);
  box.moveLeft(std::max(0, box.left()));
  box.moveTop(std::max(0, box.top()));
  return {near, lines, box};
}

const PlotFrame::Readout& PlotFrame::mouseReadout() const {
  if (!mouse_readout_ || mouse_readout_->near != mouse_) mouse_readout_ = readoutBeside(mouse_, linesAtMouse());
  return *mouse_readout_;
}

void PlotFrame::paintReadout(QPainter& painter, const Readout& readout) const {
  if (readout.lines.isEmpty()) return;
  const QRect& box = readout.box;
  const QFontMetrics metrics = fontMetrics();
  QColor ground = QColor(colors(palette()).popup);
  ground.setAlpha(235);
  painter.setPen(QColor(colors(palette()).field_border));
  painter.setBrush(ground);
  painter.drawRect(box);
  painter.setBrush(Qt::NoBrush);
  painter.setPen(palette().text().color());
  const bool all_fit = box.width() < width();
  int y = box.top() + 3;
  for (const QString& line : readout.lines) {
    painter.drawText(box.left() + 6, y + metrics.ascent(),
                     all_fit ? line : metrics.elidedText(line, Qt::ElideRight, box.width() - 12));
    y += metrics.height();
  }
}

QString firstThatFits(const QStringList& texts, const QFontMetrics& metrics, int width) {
  for (const QString& text : texts)
    if (metrics.horizontalAdvance(text) <= width) return text;
  return texts.back();
}

}  // namespace moescope
