#include "widgets/plots/time_axis_plot.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <QWheelEvent>

#include "widgets/look/fitted_text.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

struct TokenUnit {
  double tokens;
  const char* name;
};
// Returns the largest unit of which `tokens` are at least one.
TokenUnit unitFor(double tokens) {
  for (const TokenUnit unit : {TokenUnit{1e12, "trillion tokens"}, {1e9, "billion tokens"}, {1e6, "million tokens"}})
    if (tokens >= unit.tokens) return unit;
  return {1e3, "thousand tokens"};
}

double tokensAfter(const History& run, std::int64_t step) {
  return static_cast<double>(run.info().tokens_per_step) * (step + 1);
}

constexpr int kDragThreshold = 4;
constexpr int kLowPlot = 96;              // below this height the curves need the room of legend and caption
constexpr std::int64_t kFewestSteps = 4;  // smallest range of zooming

}  // namespace

MarkTitle titleBeside(int x, int gap, int left_limit, int right_limit, const QString& title,
                      const QFontMetrics& metrics) {
  const int width = metrics.horizontalAdvance(title);
  if (x + gap + width > right_limit && x - gap - width >= left_limit) return {title, x - gap - width};
  const QString words = elidedWords(title, metrics, right_limit - x - gap);
  if (words == title) return {words, x + gap};
  const qsizetype cut = words.lastIndexOf(' ');  // a part ends with a whole word
  return {cut < 3 ? QString() : words.left(cut) + QChar(0x2026), x + gap};
}

TimeAxisPlot::TimeAxisPlot(Selection* selection, QWidget* parent) : PlotFrame(parent), selection_(selection) {
  connect(selection_, &Selection::dataChanged, this, &PlotFrame::markDirty);
  connect(selection_, &Selection::focusChanged, this, &PlotFrame::markDirty);
  connect(selection_, &Selection::hoverStepChanged, &hover_, &Throttle::change);
  connect(selection_, &Selection::timeChanged, this, [this] {
    if (std::exchange(seen_range_, range()) == range()) return update();
    markDirty();
  });
}

void TimeAxisPlot::setLogSteps(bool log) {
  log_steps_ = log;
  markDirty();
}

QMargins TimeAxisPlot::margins() const {
  const int rows = isLow() ? 0 : legend_rows_;
  const int top_label = fontMetrics().height() / 2;  // the part above the data of the highest value's label
  const int above = rows > 0 ? rows * legendRow() + kSpace8 : std::max(kSpace8, top_label);
  return {axisLabelWidth(), above, right_margin_, axisLabelHeight()};
}

bool TimeAxisPlot::isLow() const {
  return height() < withType(kLowPlot);
}

QPoint TimeAxisPlot::cursorPosition() const {
  return {to_int(std::lround(xOf(selection_->step()))), plotRect().center().y()};
}

void TimeAxisPlot::followPicture() {
  if (drag_ == Drag::none && plotRect().contains(mouse_) && !range().empty())
    selection_->setHoverStep(stepAt(mouse_.x()));
  PlotFrame::followPicture();
}

std::vector<Tick> TimeAxisPlot::stepTicks() const {
  const int max_ticks = std::max(3, plotRect().width() / withType(64));
  if (by_tokens_) {
    const double unit = unitFor(tokensAfter(*selection_->history(), range().last)).tokens;
    const double per_step = selection_->history()->info().tokens_per_step / unit;
    const double first = (range().first + 1) * per_step, last = (range().last + 1) * per_step;
    std::vector<Tick> ticks = log_steps_ ? logTicks(first, last, max_ticks) : linearTicks(first, last, max_ticks);
    for (Tick& tick : ticks) tick.value = tick.value / per_step - 1;
    return ticks;
  }
  if (!log_steps_) return integerTicks(range().first, range().last, max_ticks);
  return logTicks(std::max<double>(1, range().first), std::max<double>(1, range().last), max_ticks);
}

double TimeAxisPlot::xOf(double step) const {
  const QRect plot = plotRect();
  return plot.left() + (warp(step) - low()) / (high() - low()) * plot.width();
}

std::int64_t TimeAxisPlot::stepAt(double x) const {
  const QRect plot = plotRect();
  const double share = (x - plot.left()) / std::max(1, plot.width());
  const auto step = std::llround(unwarp(low() + share * (high() - low())));
  return std::clamp<std::int64_t>(step, range().first, std::max(range().first, range().last));
}

QStringList TimeAxisPlot::stepCaptions() const {
  const QString word = by_tokens_ ? QString(unitFor(tokensAfter(*selection_->history(), range().last)).name)
                                  : selection_->stepWord(),
                axis = log_steps_ ? QString("%1, log").arg(word) : word;
  QStringList captions;
  for (const QString& note : step_notes_) captions << QString("%1 (%2)").arg(axis, note);
  return captions << axis;
}

void TimeAxisPlot::paintStepAxis(QPainter& painter) const {
  std::vector<Tick> ticks = stepTicks();
  for (Tick& tick : ticks) tick.value = xOf(tick.value);  // the axis is in pixels
  paintBottomAxis(painter, kPixels, ticks, stepCaptions());
}

QString TimeAxisPlot::stepText(std::int64_t step) const {
  const QString text = QString("%1 %2").arg(selection_->stepWord(), formatCount(step));
  if (!by_tokens_) return text;
  const double tokens = tokensAfter(*selection_->history(), step);
  const TokenUnit unit = unitFor(tokens);
  return QString("%1, %2 %3").arg(text, formatValue(tokens / unit.tokens, 3), unit.name);
}

const std::vector<Mark>& TimeAxisPlot::marks() const {
  const History* history = selection_->history();
  const std::uint64_t sequence = history ? history->sequence() : 0;
  const bool is_same_run = std::exchange(marked_, history) == history;
  if (std::exchange(marks_sequence_, sequence) != sequence || !is_same_run) {
    marks_ = history ? marks_of(*history) : std::vector<Mark>{};
    // What a run logs changes no curve.
    std::erase_if(marks_, [](const Mark& mark) { return mark.text.starts_with("telemetry."); });
  }
  return marks_;
}

// Paints a triangle, a dotted line below it, and the title of the mark as far as there is room between its neighbours.
void TimeAxisPlot::paintMarks(QPainter& painter) {
  const QRect plot = plotRect();
  const int top = marks_inside_ ? plot.top() : plot.top() - 8, line = fontMetrics().height();
  QRect room = marks_inside_ ? plot : freeInCaptionRow();
  room.setRight(std::min(room.right(), plot.right()));  // what is beside the plot has its own caption there
  std::vector<std::pair<int, const Mark*>> shown;
  for (const Mark& mark : marks())
    if (mark.step >= range().first && mark.step <= range().last)
      shown.emplace_back(to_int(std::lround(xOf(mark.step))), &mark);
  const QColor color = mutedText(palette());
  int free_from = room.left();
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const int x = shown[i].first, next = i + 1 < shown.size() ? shown[i + 1].first : room.right() + kSpace8;
    painter.setPen(Qt::NoPen);
    painter.setBrush(color);
    painter.drawPolygon(QPolygon({{x - 4, top}, {x + 4, top}, {x, top + 6}}));
    painter.setPen(color);
    for (int y = plot.top(); y < plot.bottom(); y += 4) painter.drawLine(x, y, x, y + 1);
    const MarkTitle title = titleBeside(x, 7, free_from, std::min(next - kSpace12, room.right()),
                                        QString::fromStdString(shown[i].second->title), fontMetrics());
    free_from = std::max(free_from, x + kSpace12);
    const QRect place(title.left_x, marks_inside_ ? plot.top() - 2 : room.top(),
                      fontMetrics().horizontalAdvance(title.text) + 1, line);
    if (title.text.isEmpty() || place.left() < room.left() || place.right() > room.right() + 1) continue;
    free_from = std::max(free_from, place.right() + kSpace12);
    if (marks_inside_) painter.fillRect(place, palette().base());
    painter.drawText(place, Qt::AlignLeft | Qt::AlignVCenter, title.text);
  }
  painter.setBrush(Qt::NoBrush);
}

void TimeAxisPlot::paintOverlay(QPainter& painter) {
  const QRect plot = plotRect();
  const auto x_of = [&](std::int64_t step) { return to_int(std::lround(xOf(step))); };
  const auto shown = [&](std::int64_t step) { return step >= range().first && step <= range().last; };
  if (shown(selection_->step())) paintCursorLine(painter, x_of(selection_->step()));
  if (const std::int64_t step = hovered_.step; shown(step)) {
    painter.setPen(QPen(palette().text().color(), 1, Qt::DotLine));
    painter.drawLine(x_of(step), plot.top(), x_of(step), plot.bottom());
  }
  if (drag_ == Drag::box) {
    QColor veil = QColor(colors(palette()).accent);
    painter.setPen(veil);
    veil.setAlpha(60);
    const int left_x = std::clamp(std::min(press_.x(), mouse_.x()), plot.left(), plot.right());
    const int right = std::clamp(std::max(press_.x(), mouse_.x()), plot.left(), plot.right());
    painter.fillRect(QRect(QPoint(left_x, plot.top()), QPoint(right, plot.bottom())), veil);
    painter.drawRect(QRect(QPoint(left_x, plot.top()), QPoint(right, plot.bottom())));
  } else {
    paintReadout(painter, readoutAtMouse());
  }
}

PlotFrame::Readout TimeAxisPlot::readoutAtMouse() const {
  const QPoint mouse = hovered_.mouse;
  if (!plotRect().contains(mouse)) return {};
  QStringList lines = readoutAt(mouse);
  if (const QString marker = markerTextAt(mouse.x()); !marker.isEmpty()) lines << marker.split(QLatin1Char('\n'));
  return readoutBeside(mouse, lines);
}

QRegion TimeAxisPlot::hoverRegion() const {
  if (drag_ != Drag::none) return rect();
  const QRect plot = plotRect();
  const int x = to_int(std::lround(xOf(hovered_.step)));
  return QRegion(x - 1, plot.top(), 3, plot.height() + 1) | readoutAtMouse().box.adjusted(-1, -1, 1, 1);
}

// Returns the titles of all marks near a pixel, one on each line.
QString TimeAxisPlot::markerTextAt(int x) const {
  QStringList lines;
  for (const Mark& mark : marks()) {
    if (std::abs(xOf(mark.step) - x) <= 4)
      lines << QString("%1 %2: %3")
                   .arg(selection_->stepWord(), formatCount(mark.step), QString::fromStdString(mark.title));
  }
  return lines.join(QLatin1Char('\n'));
}

bool TimeAxisPlot::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    if (const QString text = markerTextAt(help->x()); !text.isEmpty()) {
      QToolTip::showText(help->globalPos(), text, this);
      return true;
    }
  }
  // Space is the key for run and pause, but during a drag it starts to pan.
  if (event->type() == QEvent::ShortcutOverride && drag_ != Drag::none &&
      static_cast<QKeyEvent*>(event)->key() == Qt::Key_Space) {
    event->accept();
    return true;
  }
  return PlotFrame::event(event);
}

void TimeAxisPlot::zoomAbout(double x, double factor) {
  if (range().empty()) return;
  const QRect plot = plotRect();
  // A zoom near the right edge keeps the newest step in place, so that following continues.
  const bool at_end = selection_->following() && x > plot.right() - plot.width() / 12.0;
  const double anchor =
      at_end ? high() : low() + std::clamp((x - plot.left()) / plot.width(), 0.0, 1.0) * (high() - low());
  const double first = unwarp(anchor - (anchor - low()) * factor), last = unwarp(anchor + (high() - anchor) * factor);
  StepRange next{std::llround(first + 0.5), std::llround(last - 0.5)};
  if (factor > 1) {  // zooming out always widens the range
    next.first = std::min(next.first, range().first - (at_end ? 1 : 0));
    next.last = std::max(next.last, range().last + 1);
  } else if (next.size() < kFewestSteps) {
    return;
  }
  selection_->setRange(next);
}

void TimeAxisPlot::wheelEvent(QWheelEvent* event) {
  const QPoint turn = event->angleDelta();
  if (turn.y() != 0 && !(event->modifiers() & Qt::ShiftModifier)) {
    zoomAbout(event->position().x(), std::pow(0.8, turn.y() / 120.0));
  } else {
    const double notches = (turn.x() != 0 ? turn.x() : turn.y()) / 120.0;
    press_ = {plotRect().center()};
    press_range_ = range();
    panFromPress(press_.x() + notches * plotRect().width() / 10);
  }
  event->accept();
}

void TimeAxisPlot::panFromPress(double x) {
  const StepRange all = selection_->history() ? selection_->history()->steps() : StepRange{};
  if (press_range_.empty() || all.empty()) return;
  const double per_pixel = static_cast<double>(press_range_.size()) / std::max(1, plotRect().width());
  std::int64_t shift = std::llround((press_.x() - x) * per_pixel);
  shift = std::clamp(shift, all.first - press_range_.first, all.last - press_range_.last);
  selection_->setRange({press_range_.first + shift, press_range_.last + shift});
}

void TimeAxisPlot::mousePressEvent(QMouseEvent* event) {
  press_ = mouse_ = event->pos();
  press_range_ = range();
  const bool pan = event->button() == Qt::MiddleButton || event->modifiers() & Qt::ShiftModifier;
  if (event->button() == Qt::LeftButton || event->button() == Qt::MiddleButton) drag_ = pan ? Drag::pan : Drag::pressed;
}

void TimeAxisPlot::mouseMoveEvent(QMouseEvent* event) {
  mouse_ = event->pos();
  if (drag_ == Drag::pressed && std::abs(mouse_.x() - press_.x()) > kDragThreshold) drag_ = Drag::box;
  if (drag_ == Drag::pan) panFromPress(mouse_.x());
  const bool inside = plotRect().contains(mouse_) && !range().empty();
  selection_->setHoverStep(inside ? stepAt(mouse_.x()) : -1);
  hover_.change();
  if (inside) emit readoutChanged(readoutText(mouse_));
}

void TimeAxisPlot::mouseReleaseEvent(QMouseEvent* event) {
  const Drag drag = std::exchange(drag_, Drag::none);
  if (drag == Drag::box) {
    const std::int64_t a = stepAt(press_.x()), b = stepAt(event->pos().x());
    if (a != b) selection_->setRange({std::min(a, b), std::max(a, b)});
  } else if (drag == Drag::pressed && plotRect().contains(event->pos()) && !range().empty()) {
    clickedAt(event->pos());
  }
  update();
}

void TimeAxisPlot::mouseDoubleClickEvent(QMouseEvent*) {
  drag_ = Drag::none;
  selection_->fitRange();
}

void TimeAxisPlot::leaveEvent(QEvent* event) {
  selection_->setHoverStep(-1);
  PlotFrame::leaveEvent(event);
}

void TimeAxisPlot::keyPressEvent(QKeyEvent* event) {
  const std::int64_t stride = std::max<std::int64_t>(1, range().size() / 200);
  switch (event->key()) {
    case Qt::Key_Left:
    case Qt::Key_Right:
      selection_->moveStep(event->key() == Qt::Key_Left ? -stride : stride);
      emit readoutChanged(readoutText(cursorPosition()));
      return;
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      return zoomAbout(xOf(selection_->step()), 0.8);
    case Qt::Key_Minus:
      return zoomAbout(xOf(selection_->step()), 1.25);
    case Qt::Key_Home:
      return selection_->fitRange();
    case Qt::Key_Space:
      if (drag_ == Drag::none) break;
      drag_ = Drag::pan;
      return;
    case Qt::Key_Escape:
      if (drag_ == Drag::none) break;
      drag_ = Drag::none;
      return update();
    default:
      break;
  }
  QWidget::keyPressEvent(event);
}

}  // namespace moescope
