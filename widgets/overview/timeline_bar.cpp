#include "widgets/overview/timeline_bar.h"

#include <QApplication>
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

#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/overview/findings_panel.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

namespace {

constexpr int kNoteColor = 1;     // of the colours of curves
constexpr int kReach = 5;         // pixels beside a mark that belong to it
constexpr int kLeastTitle = 24;   // pixels; less of it says nothing
constexpr qsizetype kListed = 6;  // findings in a readout

int laneOf(const Finding& finding) {
  if (!finding.ongoing || finding.severity == Severity::note) return 2;
  return finding.severity == Severity::severe ? 0 : 1;
}

}  // namespace

TimelineTrack::TimelineTrack(Selection* selection, QWidget* parent) : PlotFrame(parent), selection_(selection) {
  setAccessibleName(tr("Timeline"));
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  refill = [this] { fill(); };
  connect(selection_, &Selection::dataChanged, this, &PlotFrame::markDirty);
  connect(selection_, &Selection::timeChanged, this, [this] { update(); });
  connect(selection_, &Selection::linkedStepChanged, this, &TimelineTrack::updateHover);
}

void TimelineTrack::fill() {
  const History* history = selection_->history();
  all_ = history ? history->steps() : StepRange{};
  loss_.clear();
  marks_.clear();
  if (!history) return setNotice(noRunNotice());
  if (all_.empty()) return setNotice(noDataYetNotice());
  setNotice({});
  const auto width = static_cast<std::int64_t>(plotRect().width() * devicePixelRatioF());
  loss_ = history->series(Metric::ce_loss, kWholeRun, all_,
                          static_cast<int>(std::clamp<std::int64_t>(width, 1, all_.size())));
  marks_ = marks_of(*history);
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

void TimelineTrack::setFindings(std::vector<Finding> findings) {
  findings_ = std::move(findings);
  markDirty();
}

// Below the handles.
QRect TimelineTrack::lane(int place) const {
  const QRect plot = plotRect();
  return {plot.left(), plot.bottom() + 8 + place * kLane, plot.width(), kLane - 1};
}

std::vector<const Finding*> TimelineTrack::findingsAt(QPoint position) const {
  std::vector<const Finding*> found;
  for (const Finding& finding : findings_) {
    const QRect strip = lane(laneOf(finding));
    const int left = xOf(static_cast<double>(finding.steps.first)),
              right = xOf(static_cast<double>(finding.steps.last));
    if (position.y() < strip.top() || position.y() > strip.bottom() + 1) continue;
    if (position.x() >= left - kReach && position.x() <= right + kReach) found.push_back(&finding);
  }
  // Those that began last lie on top.
  std::ranges::stable_sort(found, std::ranges::greater{}, [](const Finding* finding) { return finding->steps.first; });
  return found;
}

QStringList TimelineTrack::spansAt(QPoint position) const {
  QStringList titles;
  for (const Finding* finding : findingsAt(position))
    titles << tr("%1, %2%3")
                  .arg(QString::fromStdString(finding->title),
                       finding->ongoing ? tr("since step ") : tr("over, from step "),
                       formatCount(finding->steps.first));
  return titles;
}

void TimelineTrack::paintFindings(QPainter& painter) const {
  for (const Finding& finding : findings_) {
    const QRect strip = lane(laneOf(finding));
    const int left = xOf(static_cast<double>(finding.steps.first)),
              right = xOf(static_cast<double>(finding.steps.last));
    QColor color = severityColor(finding.ongoing ? finding.severity : Severity::note, dark());
    painter.fillRect(QRect(left, strip.top(), 2, strip.height()), color);  // where it begins
    color.setAlpha(120);
    painter.fillRect(QRect(left, strip.top(), std::max(2, right - left), strip.height()), color);
  }
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
  return integerTicks(all_.first, all_.last, std::max(2, plotRect().width() / withType(90)));
}

void TimelineTrack::paintStatic(QPainter& painter) {
  const QFontMetrics metrics(painter.font());
  const QFont small = typeFont(QApplication::font(), Type::caption);
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
  painter.fillRect(QRect(QPoint(left, lane.top()), QPoint(right, lane.bottom())),
                   QColor(colors(palette()).accent_soft));
  for (const int x : {left, right})
    painter.fillRect(QRect(x - 2, lane.top() - 2, 5, lane.height() + 4), palette().text());

  painter.setPen(Qt::NoPen);
  paintFindings(painter);
  paintMarks(painter);
  for (const std::int64_t step : checkpoints_) {
    if (all_.empty()) break;
    const int x = std::clamp(xOf(static_cast<double>(step)), plot.left(), plot.right());
    painter.fillRect(QRect(x - 1, plot.bottom() - 9, 3, 10), cursorColor(dark()));
  }
  const int cursor = xOf(selection_->step());
  painter.setBrush(cursorColor(dark()));
  painter.drawEllipse(QPoint(cursor, plot.top() - 5), 5, 5);
  painter.fillRect(QRect(cursor, plot.top() - 5, 1, plot.height() + 5), cursorColor(dark()));
  painter.setBrush(Qt::NoBrush);
  if (selection_->linkedStep() >= 0) {
    painter.setPen(QPen(palette().text().color(), 1, Qt::DotLine));
    painter.drawLine(xOf(selection_->linkedStep()), plot.top(), xOf(selection_->linkedStep()), plot.bottom());
  }
  if (mouse_.x() < 0 || all_.empty()) return;
  const std::int64_t step = stepAt(mouse_.x());
  QStringList lines = textAt(mouse_);
  if (lines.isEmpty()) {
    const float loss = selection_->history()->value_at(Metric::ce_loss, kWholeRun, step);
    lines << (is_missing(loss) ? tr("step %1").arg(formatCount(step))
                               : tr("step %1, loss %2").arg(formatCount(step), formatValue(loss)));
  }
  // The strip has room for one line; the tool tip has all.
  const QString more = lines.size() > 1 ? tr("  and %1 more").arg(lines.size() - 1) : QString();
  paintReadout(painter, readoutBeside({mouse_.x(), 0}, {lines.front() + more}));
}

// The line at the step hovered elsewhere.
QRegion TimelineTrack::hoverRegion() const {
  if (mouse_.x() >= 0 || !notice().isEmpty()) return rect();
  if (selection_->linkedStep() < 0) return {};
  const QRect plot = plotRect();
  return QRect(xOf(static_cast<double>(selection_->linkedStep())) - 1, plot.top(), 3, plot.height());
}

// A triangle, of notes a flag, and beside it what was done, where there is room before the next.
void TimelineTrack::paintMarks(QPainter& painter) const {
  const QRect plot = plotRect();
  const QFont small = typeFont(QApplication::font(), Type::caption);
  const QFontMetrics metrics(small);
  painter.save();
  painter.setFont(small);
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    const Mark& mark = marks_[i];
    const int x = xOf(static_cast<double>(mark.step));
    const bool note = mark.kind == kNoteKind;
    const QColor color = note ? seriesColor(kNoteColor, dark()) : mutedText(palette());
    painter.setPen(Qt::NoPen);
    painter.setBrush(color);
    painter.drawPolygon(note ? QPolygon({{x, 1}, {x + 9, 1}, {x + 6, 5}, {x + 9, 9}, {x, 9}})
                             : QPolygon({{x - 4, 2}, {x + 4, 2}, {x, 9}}));
    painter.fillRect(QRect(x, note ? 1 : 9, 1, plot.bottom() - (note ? 1 : 9)), color);
    const int from = x + (note ? 12 : 7);
    const int next = i + 1 < marks_.size() ? xOf(static_cast<double>(marks_[i + 1].step)) - 8 : width();
    if (next - from < kLeastTitle) continue;
    painter.setPen(palette().text().color());
    painter.drawText(QRect(from, 0, next - from, plot.top()), Qt::AlignLeft | Qt::AlignVCenter,
                     metrics.elidedText(QString::fromStdString(mark.title), Qt::ElideRight, next - from));
  }
  painter.restore();
}

// Each of the marks there, which may share a pixel.
QStringList TimelineTrack::marksAt(int x) const {
  QStringList lines;
  for (const Mark& mark : marks_) {
    if (std::abs(xOf(static_cast<double>(mark.step)) - x) > kReach) continue;
    const QString title = QString::fromStdString(mark.title), text = QString::fromStdString(mark.text);
    lines << tr("step %1: %2").arg(formatCount(mark.step), title == text ? text : tr("%1 (%2)").arg(title, text));
  }
  return lines;
}

QStringList TimelineTrack::textAt(QPoint position) const {
  if (const QStringList spans = spansAt(position); !spans.isEmpty()) return spans;
  if (const QStringList marks = marksAt(position.x()); !marks.isEmpty()) return marks;
  for (const std::int64_t step : checkpoints_)
    if (std::abs(xOf(static_cast<double>(step)) - position.x()) <= 4)
      return {tr("checkpoint before step %1: right click to rewind or branch off").arg(formatCount(step))};
  return {};
}

std::int64_t TimelineTrack::noteOrStepAt(int x) const {
  for (const Mark& mark : marks_)
    if (mark.kind == kNoteKind && std::abs(xOf(static_cast<double>(mark.step)) - x) <= kReach) return mark.step;
  return stepAt(x);
}

bool TimelineTrack::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    QStringList lines = textAt(help->pos());
    if (lines.size() > kListed) lines = lines.first(kListed) << tr("and %1 more").arg(lines.size() - kListed);
    const QString text = lines.join(QLatin1Char('\n'));
    QToolTip::showText(
        help->globalPos(),
        text.isEmpty() ? tr("Drag to scrub, drag the handles to zoom, double click for all; bars are findings") : text,
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
  if (const auto found = findingsAt(event->pos()); !found.empty()) return showStart(*found.front());
  drag_ = grabbedAt(event->pos());
  press_step_ = stepAt(event->pos().x());
  press_range_ = selection_->range();
  if (drag_ == Drag::cursor) selection_->setStep(press_step_);
}

void TimelineTrack::showStart(const Finding& finding) {
  const Finding shown = finding;  // the list may be set anew meanwhile
  if (!shown.layers.empty()) selection_->setLayer(shown.layers.front());
  if (!shown.experts.empty()) selection_->setExpert(shown.experts.front());
  selection_->setStep(shown.steps.first);
}

void TimelineTrack::mouseMoveEvent(QMouseEvent* event) {
  mouse_ = event->pos();
  const std::int64_t step = stepAt(event->pos().x());
  StepRange range = press_range_;
  switch (drag_) {
    case Drag::none:
      setCursor(!findingsAt(mouse_).empty()         ? Qt::PointingHandCursor
                : grabbedAt(mouse_) == Drag::cursor ? Qt::ArrowCursor
                                                    : Qt::SizeHorCursor);
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
  mouse_ = {-1, -1};
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
  row->addWidget(follow_);
  connect(follow_, &QToolButton::clicked, selection, &Selection::setFollowing);
  followFont(follow_,
             [this] { follow_->setFixedWidth(follow_->fontMetrics().horizontalAdvance(tr("Following")) + 16); });
  const auto synchronise = [this, selection] {
    const QSignalBlocker quiet(follow_);
    follow_->setChecked(selection->following());
    follow_->setText(!selection->growing() ? tr("Last step") : selection->following() ? tr("Following") : tr("Follow"));
    follow_->setToolTip(selection->growing() ? tr("Keep the cursor on the newest step")
                                             : tr("Put the cursor on the last step; no new ones arrive"));
  };
  connect(selection, &Selection::timeChanged, follow_, synchronise);
  synchronise();
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

}  // namespace moescope
