#include "widgets/overview/timeline_bar.h"

#include <QContextMenuEvent>
#include <QHBoxLayout>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QSignalBlocker>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/telemetry/logs/import.h"
#include "core/telemetry/recording/notes.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

namespace {

constexpr int kNoteColor = 1;  // of the colours of curves

}  // namespace

TimelineTrack::TimelineTrack(Selection* selection, QWidget* parent) : PlotFrame(parent), selection_(selection) {
  setAccessibleName(tr("Timeline"));
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  refill = [this] { fill(); };
  connect(selection_, &Selection::dataChanged, this, &PlotFrame::markDirty);
  connect(selection_, &Selection::timeChanged, this, [this] { update(); });
  connect(selection_, &Selection::hoverChanged, this, [this] { update(); });
}

void TimelineTrack::fill() {
  const History* history = selection_->history();
  all_ = history ? history->steps() : StepRange{};
  loss_.clear();
  markers_.clear();
  if (!history) return setNotice(noRunNotice());
  if (all_.empty()) return setNotice(noDataYetNotice());
  setNotice({});
  const auto width = static_cast<std::int64_t>(plotRect().width() * devicePixelRatioF());
  loss_ = history->series(Metric::ce_loss, kWholeRun, all_,
                          static_cast<int>(std::clamp<std::int64_t>(width, 1, all_.size())));
  markers_ = history->markers();
  std::erase_if(markers_, [](const Marker& marker) { return marker.kind == kSettingsMarker; });
}

int TimelineTrack::xOf(double step) const {
  const QRect plot = plotRect();
  if (all_.size() <= 1) return plot.right();
  return plot.left() +
         static_cast<int>(std::lround((step - all_.first) / (all_.last - all_.first) * (plot.width() - 1)));
}

std::int64_t TimelineTrack::stepAt(double x) const {
  const QRect plot = plotRect();
  const double share = std::clamp((x - plot.left()) / std::max(1, plot.width() - 1), 0.0, 1.0);
  return all_.empty() ? 0 : all_.first + std::llround(share * (all_.last - all_.first));
}

void TimelineTrack::setCheckpoints(const std::vector<std::int64_t>& steps) {
  if (steps == checkpoints_) return;
  checkpoints_ = steps;
  update();
}

QRect TimelineTrack::rangeLane() const {
  const QRect plot = plotRect();
  return {plot.left(), plot.bottom() + 1, plot.width(), 5};
}

QString TimelineTrack::staticKey() const {
  QString key;
  for (const Tick& tick : ticks()) key += QStringLiteral("%1@%2 ").arg(tick.label).arg(xOf(tick.value));
  return key;
}

std::vector<Tick> TimelineTrack::ticks() const {
  return integerTicks(all_.first, all_.last, std::max(2, plotRect().width() / 90));
}

void TimelineTrack::paintStatic(QPainter& painter) {
  const QFontMetrics metrics(painter.font());
  QFont small = painter.font();
  small.setPointSizeF(small.pointSizeF() * 0.85);
  painter.setFont(small);
  painter.setPen(mutedText(palette()));
  int last_right = -1000;
  for (const Tick& tick : ticks()) {
    const int half = metrics.horizontalAdvance(tick.label) / 2 + 1;
    const int x = std::clamp(xOf(tick.value), half, width() - half);
    if (x - half < last_right) continue;
    last_right = x + half + 6;
    painter.drawText(QRect(x - half, height() - metrics.height() + 1, 2 * half, metrics.height() - 1), Qt::AlignCenter,
                     tick.label);
  }
}

void TimelineTrack::paintData(QPainter& painter) {
  const QRect plot = plotRect();
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const PyramidBin& bin : loss_)
    if (bin.finite > 0) low = std::min<double>(low, bin.min), high = std::max<double>(high, bin.max);
  if (low > high) return;
  // Logarithmic where it can be: the steep start would flatten the rest. Taken once a value: there are thousands.
  const bool log = low > 0;
  const auto scaled = [log](double value) { return log ? std::log(value) : value; };
  const Axis axis{.low = scaled(low),
                  .high = scaled(std::max(high, low + 1e-9)),
                  .at_low = plot.bottom() - 1.0,
                  .at_high = plot.top() + 1.0};
  std::vector<QPointF> points;
  std::vector<QLineF> spans;
  for (std::size_t i = 0; i < loss_.size(); ++i) {
    if (loss_[i].finite == 0) continue;
    const double x = plot.left() + (i + 0.5) / loss_.size() * plot.width();
    points.emplace_back(x, axis.toPixel(scaled(loss_[i].mean())));
    if (loss_[i].finite == 1) continue;
    spans.emplace_back(x, axis.toPixel(scaled(loss_[i].max)), x, axis.toPixel(scaled(loss_[i].min)));
  }
  QColor faint = seriesColor(0, dark());
  faint.setAlpha(110);
  painter.setPen(QPen(faint, 0));
  painter.drawLines(spans.data(), static_cast<int>(spans.size()));
  painter.setPen(QPen(seriesColor(0, dark()), 0));
  painter.drawPolyline(points.data(), static_cast<int>(points.size()));
}

void TimelineTrack::paintOverlay(QPainter& painter) {
  const QRect plot = plotRect(), lane = rangeLane();
  const StepRange range = selection_->range();
  const int left = xOf(range.first), right = xOf(range.last);
  QColor veil = palette().window().color();
  veil.setAlpha(170);
  painter.fillRect(QRect(QPoint(plot.left(), plot.top()), QPoint(left - 1, plot.bottom())), veil);
  painter.fillRect(QRect(QPoint(right + 1, plot.top()), QPoint(plot.right(), plot.bottom())), veil);
  painter.fillRect(lane, gridColor(palette()));
  painter.fillRect(QRect(QPoint(left, lane.top()), QPoint(right, lane.bottom())), palette().highlight());
  for (const int x : {left, right})
    painter.fillRect(QRect(x - 2, lane.top() - 2, 5, lane.height() + 4), palette().text());

  painter.setPen(Qt::NoPen);
  for (const Marker& marker : markers_) {
    const int x = xOf(marker.step);
    const bool note = marker.kind == kNoteKind;  // a flag; what happened to the run is a triangle
    const QColor color = note ? seriesColor(kNoteColor, dark()) : mutedText(palette());
    painter.setBrush(color);
    painter.drawPolygon(note ? QPolygon({{x, 1}, {x + 9, 1}, {x + 6, 5}, {x + 9, 9}, {x, 9}})
                             : QPolygon({{x - 4, 2}, {x + 4, 2}, {x, 9}}));
    painter.fillRect(QRect(x, note ? 1 : 9, 1, plot.bottom() - (note ? 1 : 9)), color);
  }
  for (const std::int64_t step : checkpoints_) {
    if (all_.empty()) break;
    const int x = std::clamp(xOf(static_cast<double>(step)), plot.left(), plot.right());
    painter.fillRect(QRect(x - 1, plot.bottom() - 9, 3, 10), accentColor(dark()));
  }
  const int cursor = xOf(selection_->step());
  painter.setBrush(accentColor(dark()));
  painter.drawEllipse(QPoint(cursor, plot.top() - 5), 5, 5);
  painter.fillRect(QRect(cursor, plot.top() - 5, 1, plot.height() + 5), accentColor(dark()));
  painter.setBrush(Qt::NoBrush);
  if (selection_->hoverStep() >= 0) {
    painter.setPen(QPen(palette().text().color(), 1, Qt::DotLine));
    painter.drawLine(xOf(selection_->hoverStep()), plot.top(), xOf(selection_->hoverStep()), plot.bottom());
  }
  if (mouse_x_ >= 0) {
    const std::int64_t step = stepAt(mouse_x_);
    QString text =
        tr("step %1, loss %2")
            .arg(formatCount(step), formatValue(selection_->history()->value_at(Metric::ce_loss, kWholeRun, step)));
    if (const QString marker = markerTextAt(mouse_x_); !marker.isEmpty()) text = marker;
    paintReadout(painter, {mouse_x_, 0}, {text});
  }
}

QString TimelineTrack::markerTextAt(int x) const {
  for (const Marker& marker : markers_)
    if (std::abs(xOf(marker.step) - x) <= 5)
      return tr("step %1: %2").arg(formatCount(marker.step), QString::fromStdString(marker.text));
  for (const std::int64_t step : checkpoints_)
    if (std::abs(xOf(static_cast<double>(step)) - x) <= 4)
      return tr("checkpoint before step %1: right click to rewind or branch off").arg(formatCount(step));
  return {};
}

std::int64_t TimelineTrack::noteOrStepAt(int x) const {
  for (const Marker& marker : markers_)
    if (marker.kind == kNoteKind && std::abs(xOf(static_cast<double>(marker.step)) - x) <= 5) return marker.step;
  return stepAt(x);
}

bool TimelineTrack::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    const QString text = markerTextAt(help->x());
    QToolTip::showText(help->globalPos(),
                       text.isEmpty() ? tr("Drag to scrub, drag the handles to zoom, double click for all") : text,
                       this);
    return true;
  }
  return PlotFrame::event(event);
}

TimelineTrack::Drag TimelineTrack::grabbedAt(QPoint position) const {
  if (position.y() < rangeLane().top() - 2) return Drag::cursor;
  const int left = xOf(selection_->range().first), right = xOf(selection_->range().last);
  const int to_left = std::abs(position.x() - left), to_right = std::abs(position.x() - right);
  if (std::min(to_left, to_right) <= 7) return to_left < to_right ? Drag::first : Drag::last;
  return position.x() > left && position.x() < right ? Drag::range : Drag::cursor;
}

void TimelineTrack::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton || all_.empty()) return;
  drag_ = grabbedAt(event->pos());
  press_step_ = stepAt(event->pos().x());
  press_range_ = selection_->range();
  if (drag_ == Drag::cursor) selection_->setStep(press_step_);
}

void TimelineTrack::mouseMoveEvent(QMouseEvent* event) {
  mouse_x_ = all_.empty() ? -1 : event->pos().x();
  const std::int64_t step = stepAt(event->pos().x());
  StepRange range = press_range_;
  switch (drag_) {
    case Drag::none:
      setCursor(grabbedAt(event->pos()) == Drag::cursor ? Qt::ArrowCursor : Qt::SizeHorCursor);
      break;
    case Drag::cursor:
      selection_->setStep(step);
      break;
    case Drag::first:
      selection_->setRange({std::min(step, range.last), range.last});
      break;
    case Drag::last:
      selection_->setRange({range.first, std::max(step, range.first)});
      break;
    case Drag::range: {
      const std::int64_t shift = std::clamp(step - press_step_, all_.first - range.first, all_.last - range.last);
      selection_->setRange({range.first + shift, range.last + shift});
      break;
    }
  }
  update();
}

void TimelineTrack::mouseReleaseEvent(QMouseEvent*) {
  drag_ = Drag::none;
}

void TimelineTrack::mouseDoubleClickEvent(QMouseEvent*) {
  selection_->fitRange();
}

void TimelineTrack::leaveEvent(QEvent*) {
  mouse_x_ = -1;
  update();
}

void TimelineTrack::contextMenuEvent(QContextMenuEvent* event) {
  const bool by_key = event->reason() == QContextMenuEvent::Keyboard;
  const qint64 step = by_key ? selection_->step() : noteOrStepAt(event->x());
  emit menuRequested(by_key ? mapToGlobal(QPoint(xOf(static_cast<double>(step)), height() / 2)) : event->globalPos(),
                     step);
}

void TimelineTrack::keyPressEvent(QKeyEvent* event) {
  const std::int64_t page = std::max<std::int64_t>(1, all_.size() / 20);
  switch (event->key()) {
    case Qt::Key_Left:
      return selection_->setStep(selection_->step() - 1);
    case Qt::Key_Right:
      return selection_->setStep(selection_->step() + 1);
    case Qt::Key_PageUp:
      return selection_->setStep(selection_->step() - page);
    case Qt::Key_PageDown:
      return selection_->setStep(selection_->step() + page);
    case Qt::Key_Home:
      return selection_->setStep(all_.first);
    case Qt::Key_End:
      return selection_->setFollowing(true);
    default:
      QWidget::keyPressEvent(event);
  }
}

TimelineBar::TimelineBar(Selection* selection, QWidget* parent) : QWidget(parent) {
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(4, 0, 4, 0);
  track_ = new TimelineTrack(selection, this);
  row->addWidget(track_, 1);
  follow_ = new QToolButton(this);
  follow_->setCheckable(true);
  follow_->setToolTip(tr("Keep the cursor on the newest step"));
  row->addWidget(follow_);
  connect(follow_, &QToolButton::clicked, selection, &Selection::setFollowing);
  follow_->setFixedWidth(follow_->fontMetrics().horizontalAdvance(tr("Following")) + 16);
  const auto synchronise = [this, selection] {
    const QSignalBlocker quiet(follow_);
    follow_->setChecked(selection->following());
    follow_->setText(selection->following() ? tr("Following") : tr("Follow"));
  };
  connect(selection, &Selection::timeChanged, follow_, synchronise);
  synchronise();
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

}  // namespace moescope
