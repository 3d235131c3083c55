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
#include <limits>
#include <utility>

#include "widgets/look/fitted_text.h"
#include "widgets/look/setting_labels.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/overview/findings_panel.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/time_axis_plot.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

namespace {

constexpr int kNoteColor = 1;     // index of a series colour for notes
constexpr int kHitDistance = 5;   // distance in pixels at which a mark is hit
constexpr qsizetype kListed = 6;  // most lines in a tool tip
constexpr int kLaneHeight = 4, kLaneGap = 4;
constexpr int kHandle = 3, kHandleHeight = 10;
constexpr int kOverAlpha = 110;  // opacity of a past finding
constexpr int kTitleParts = 6;   // the width of a title is at most this part of the timeline
constexpr int kFollowIcon = 14;

// Rank of a finding in the order of painting; the highest rank is painted last, on top.
int rankOf(const Finding& finding) {
  return (finding.ongoing ? 10 : 0) + static_cast<int>(finding.severity == Severity::severe);
}

// A button with words and, at their left, an arrow that points to a line; filled while following.
class FollowButton : public QToolButton {
 public:
  using QToolButton::QToolButton;

  QSize sizeHint() const override {
    const QFontMetrics metrics(semibold(font()));
    return {metrics.horizontalAdvance("Following") + kFollowIcon + 3 * kSpace8, withType(kFlatHeight, metrics)};
  }
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    const Colors& c = colors(palette());
    const bool on = isChecked();
    const QRgb ground = underMouse() ? c.sunken : c.surface;
    drawRounded(painter, rect(), kRadiusControl, QColor(on ? c.accent_soft : ground),
                on ? QColor(Qt::transparent) : QColor(c.field_border));
    if (showsFocus(*this))
      drawRounded(painter, rect(), kRadiusControl, Qt::transparent, QColor(on ? c.ink : c.accent), kFocusLine);
    const QColor ink(on ? c.accent : c.ink);
    const QFont type = on ? semibold(font()) : font();
    const int words = QFontMetrics(type).horizontalAdvance(text());
    const int left_x = (width() - words - kFollowIcon - kSpace8) / 2;
    drawArrow(painter, {1.0 * left_x, (height() - kFollowIcon) / 2.0}, ink);
    painter.setFont(type);
    painter.setPen(ink);
    painter.drawText(rect().adjusted(left_x + kFollowIcon + kSpace8, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter,
                     text());
  }

 private:
  static void drawArrow(QPainter& painter, QPointF at, const QColor& ink) {
    painter.save();
    painter.setRenderHint(QPainter::Antialiasing);
    painter.translate(at);
    painter.setPen(QPen(ink, 1.6, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
    painter.drawLine(QPointF(1, 7), QPointF(9.5, 7));
    painter.drawPolyline(QPolygonF({{6, 3.5}, {9.5, 7}, {6, 10.5}}));
    painter.drawLine(QPointF(13, 2), QPointF(13, 12));
    painter.restore();
  }
};

}  // namespace

TimelineTrack::TimelineTrack(Selection* selection, QWidget* parent) : PlotFrame(parent), selection_(selection) {
  setAccessibleName("Timeline");
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  refill = [this] { fill(); };
  connect(selection_, &Selection::dataChanged, this, &PlotFrame::markDirty);
  connect(selection_, &Selection::timeChanged, this, [this] { update(); });
  connect(selection_, &Selection::hoverStepChanged, &hover_, &Throttle::change);
}

void TimelineTrack::fill() {
  const History* history = selection_->history();
  all_ = history ? history->steps() : StepRange{};
  loss_.clear();
  marks_.clear();
  if (all_.empty()) return;
  const auto width = static_cast<std::int64_t>(plotRect().width() * devicePixelRatioF());
  loss_ = history->series(Metric::ce_loss, kWholeRun, all_, to_int(std::clamp<std::int64_t>(width, 1, all_.size())));
  marks_ = marks_of(*history);
}

double TimelineTrack::exactX(double step) const {
  const QRect plot = plotRect();
  if (all_.size() <= 1) return plot.right();
  return plot.left() + (step - all_.first) / (all_.last - all_.first) * (plot.width() - 1);
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
  std::erase_if(findings_, [](const Finding& finding) { return finding.severity == Severity::note; });
  std::ranges::stable_sort(findings_, {}, rankOf);
  markDirty();
}

QRect TimelineTrack::lane() const {
  const QRect plot = plotRect();
  return {plot.left(), plot.bottom() + 1 + kLaneGap, plot.width(), kLaneHeight};
}

// Returns the findings at a position, the uppermost first; of equal rank, the newest first.
std::vector<const Finding*> TimelineTrack::findingsAt(QPoint position) const {
  std::vector<const Finding*> found;
  const QRect bar = lane().adjusted(0, -3, 0, 3);
  if (position.y() < bar.top() || position.y() > bar.bottom()) return found;
  for (const Finding& finding : findings_) {
    const int left_x = xOf(finding.steps.first), right = xOf(finding.steps.last);
    if (position.x() >= left_x - kHitDistance && position.x() <= right + kHitDistance) found.push_back(&finding);
  }
  std::ranges::stable_sort(found, std::ranges::greater{},
                           [](const Finding* finding) { return std::pair(rankOf(*finding), finding->steps.first); });
  return found;
}

QStringList TimelineTrack::spansAt(QPoint position) const {
  QStringList titles;
  for (const Finding* finding : findingsAt(position))
    titles << QString("%1, %2%3")
                  .arg(QString::fromStdString(finding->title),
                       finding->ongoing ? QString("since step ") : QString("over, from step "),
                       formatCount(finding->steps.first));
  return titles;
}

void TimelineTrack::paintLane(QPainter& painter) const {
  const QRect bar = lane();
  const Colors& c = colors(palette());
  const int left_x = xOf(selection_->range().first), right = xOf(selection_->range().last);
  drawRounded(painter, bar, kLaneHeight / 2, QColor(c.neutral_soft), Qt::transparent);
  drawRounded(painter, QRect(QPoint(left_x, bar.top()), QPoint(right, bar.bottom())), kLaneHeight / 2,
              QColor(c.plain_bar), Qt::transparent);
  paintFindings(painter);
  if (showsAll() && mouse_.x() < 0) return;
  for (const int x : {left_x, right})
    drawRounded(painter, {x - kHandle / 2, bar.center().y() - kHandleHeight / 2 + 1, kHandle, kHandleHeight},
                kHandle / 2, QColor(c.ink2), Qt::transparent);
}

void TimelineTrack::paintFindings(QPainter& painter) const {
  const QRect bar = lane();
  for (const Finding& finding : findings_) {
    const int left_x = xOf(finding.steps.first), right = xOf(finding.steps.last);
    QColor color = severityColor(finding.severity, dark());
    if (!finding.ongoing) color.setAlpha(kOverAlpha);
    painter.fillRect(QRect(left_x, bar.top(), std::max(2, right - left_x + 1), bar.height()), color);
  }
}

std::vector<Tick> TimelineTrack::ticks() const {
  return integerTicks(all_.first, all_.last, std::max(2, plotRect().width() / withType(90)));
}

void TimelineTrack::paintStatic(QPainter& painter) {
  if (all_.empty()) return;
  const QFontMetrics metrics(painter.font());
  const QFont small = typeFont(Type::caption);
  painter.setFont(small);
  painter.setPen(mutedText(palette()));
  int last_right = -1000;
  for (const Tick& tick : ticks()) {
    const int half_width = metrics.horizontalAdvance(tick.label) / 2 + 1;
    const int x = std::clamp(xOf(tick.value), half_width, width() - half_width);
    if (x - half_width < last_right) continue;
    last_right = x + half_width + 6;
    painter.drawText(QRect(x - half_width, height() - metrics.height() + 1, 2 * half_width, metrics.height() - 1),
                     Qt::AlignCenter, tick.label);
  }
}

void TimelineTrack::paintData(QPainter& painter) {
  const QRect plot = plotRect();
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const PyramidBin& bin : loss_)
    if (bin.finite > 0) {
      low = std::min<double>(low, bin.min);
      high = std::max<double>(high, bin.max);
    }
  if (low > high) return;
  // Logarithmic if all values are positive, since the steep start would flatten the rest. Takes each logarithm once,
  // for there are thousands of values.
  const bool log = low > 0;
  const auto scaled = [log](double value) { return log ? std::log(value) : value; };
  const Axis axis{.low = scaled(low),
                  .high = scaled(std::max(high, low + 1e-9)),
                  .at_low = plot.bottom() - 1.0,
                  .at_high = plot.top() + 1.0};
  const double steps_of_bin = all_.size() / static_cast<double>(loss_.size());
  std::vector<QPointF> points;
  std::vector<QLineF> spans;
  for (std::size_t i = 0; i < loss_.size(); ++i) {
    if (loss_[i].finite == 0) continue;
    // The bin's point is in the middle of its steps.
    const double x = exactX(all_.first + (i + 0.5) * steps_of_bin - 0.5);
    points.emplace_back(x, axis.toPixel(scaled(loss_[i].mean())));
    if (loss_[i].finite == 1) continue;
    spans.emplace_back(x, axis.toPixel(scaled(loss_[i].max)), x, axis.toPixel(scaled(loss_[i].min)));
  }
  const QColor color = seriesColor(runColor(*selection_, selection_->run()), dark());
  QColor faint = color;
  faint.setAlpha(110);
  painter.setPen(QPen(faint, 0));
  painter.drawLines(spans.data(), to_int(spans.size()));
  painter.setPen(QPen(color, 0));
  painter.drawPolyline(points.data(), to_int(points.size()));
}

void TimelineTrack::paintOverlay(QPainter& painter) {
  if (all_.empty()) return;
  const QRect plot = plotRect(), bar = lane();
  paintLane(painter);
  for (const std::int64_t step : checkpoints_) {
    const int x = std::clamp(xOf(step), plot.left(), plot.right());
    painter.fillRect(QRect(x - 1, bar.top() - 3, 2, bar.height() + 6), QColor(colors(palette()).ink2));
  }
  paintFlags(painter);
  if (selection_->hoverStep() >= 0) {
    painter.setPen(QPen(palette().text().color(), 1, Qt::DotLine));
    const int x = xOf(selection_->hoverStep());
    painter.drawLine(x, plot.top(), x, plot.bottom());
  }
  paintCursor(painter);
  if (mouse_.x() < 0) return;
  const std::int64_t step = stepAt(mouse_.x());
  QStringList lines = textAt(mouse_);
  if (lines.isEmpty()) {
    const float loss = selection_->history()->value_at(Metric::ce_loss, kWholeRun, step);
    const QString at = QString("%1 %2").arg(selection_->stepWord(), formatCount(step));
    lines << (is_missing(loss) ? at : QString("%1, loss %2").arg(at, formatValue(loss)));
  }
  // Shows one line; the tool tip shows more.
  const QString more = lines.size() > 1 ? QString("  and %1 more").arg(lines.size() - 1) : QString();
  paintReadout(painter, readoutBeside({mouse_.x(), 0}, {lines.front() + more}));
}

// Paints the cursor: a line with a knob, in ink with a halo that is visible on every ground.
void TimelineTrack::paintCursor(QPainter& painter) const {
  const int x = xOf(selection_->step()), top = plotRect().top(), knob = 4;
  const QColor ink = cursorColor(dark());
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.fillRect(QRect(x - 2, top, 4, lane().bottom() + 3 - top), palette().base());
  painter.fillRect(QRect(x - 1, top, 2, lane().bottom() + 3 - top), ink);
  painter.setPen(QPen(palette().base().color(), 1));
  painter.setBrush(ink);
  painter.drawEllipse(QPointF(x, top + knob - 1), knob + 0.5, knob + 0.5);
  painter.restore();
}

// Paints each mark as a triangle, or as a flag for notes, with the beginning of its title beside it if there is room
// before the next mark. A longer title would hide the curve.
void TimelineTrack::paintFlags(QPainter& painter) const {
  const QRect plot = plotRect();
  const QFont small = typeFont(Type::caption);
  const QFontMetrics metrics(small);
  const int line = metrics.height();
  painter.save();
  painter.setFont(small);
  const int cursor = xOf(selection_->step());
  int free_from = 0;
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    const Mark& mark = marks_[i];
    const int x = xOf(mark.step);
    const bool note = mark.kind == kNoteKind;
    const QColor color = note ? seriesColor(kNoteColor, dark()) : mutedText(palette());
    painter.setPen(Qt::NoPen);
    painter.setBrush(color);
    painter.drawPolygon(note ? QPolygon({{x, 2}, {x + 9, 2}, {x + 6, 6}, {x + 9, 10}, {x, 10}})
                             : QPolygon({{x - 4, 3}, {x + 4, 3}, {x, 10}}));
    painter.setPen(QPen(color, 1, note ? Qt::SolidLine : Qt::DotLine));
    painter.drawLine(x, note ? 2 : 10, x, lane().bottom());
    const int next = i + 1 < marks_.size() ? xOf(marks_[i + 1].step) - 8 : width();
    // Up to the knob of the cursor, or from it on.
    const int from = x > cursor ? std::max(free_from, cursor + kSpace8) : free_from,
              to = x < cursor ? std::min(next, cursor - kSpace8) : next;
    const QString words = elidedWords(QString::fromStdString(mark.title), metrics, width() / kTitleParts);
    const MarkTitle title = titleBeside(x, note ? 12 : 7, from, to, words, metrics);
    const QRect place(title.left_x, plot.top() - 3, metrics.horizontalAdvance(title.text), line);
    free_from = std::max(x, place.right()) + kSpace8;
    painter.fillRect(place, palette().base());
    painter.setPen(mutedText(palette()));
    painter.drawText(place, Qt::AlignLeft | Qt::AlignVCenter, title.text);
  }
  painter.restore();
}

// Returns the texts of all marks near x, one on each line.
QStringList TimelineTrack::marksAt(int x) const {
  QStringList lines;
  for (const Mark& mark : marks_) {
    if (std::abs(xOf(mark.step) - x) > kHitDistance) continue;
    const QString title = QString::fromStdString(mark.title), text = withSettingLabels(printedText(mark.text));
    lines << QString("%1 %2: %3")
                 .arg(selection_->stepWord(), formatCount(mark.step),
                      title == text ? text : QString("%1 (%2)").arg(title, text));
  }
  return lines;
}

QStringList TimelineTrack::textAt(QPoint position) const {
  if (const QStringList spans = spansAt(position); !spans.isEmpty()) return spans;
  if (const QStringList marks = marksAt(position.x()); !marks.isEmpty()) return marks;
  for (const std::int64_t step : checkpoints_)
    if (std::abs(xOf(step) - position.x()) <= 4)
      return {QString("checkpoint before step %1: right click to rewind or branch off").arg(formatCount(step))};
  return {};
}

std::int64_t TimelineTrack::noteOrStepAt(int x) const {
  for (const Mark& mark : marks_)
    if (mark.kind == kNoteKind && std::abs(xOf(mark.step) - x) <= kHitDistance) return mark.step;
  return stepAt(x);
}

bool TimelineTrack::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    QStringList lines = textAt(help->pos());
    if (lines.size() > kListed) lines = lines.first(kListed) << QString("and %1 more").arg(lines.size() - kListed);
    const QString text = lines.join(QLatin1Char('\n'));
    QToolTip::showText(help->globalPos(),
                       text.isEmpty()
                           ? QString("Drag to move the cursor, drag the ends of the bar to zoom, double-click "
                                     "for all steps; colours are findings")
                           : text,
                       this);
    return true;
  }
  return PlotFrame::event(event);
}

TimelineTrack::Drag TimelineTrack::grabbedAt(QPoint position) const {
  if (position.y() < lane().top() - 3) return Drag::cursor;
  const int left_x = xOf(selection_->range().first), right = xOf(selection_->range().last);
  const int to_left = std::abs(position.x() - left_x), to_right = std::abs(position.x() - right);
  if (std::min(to_left, to_right) <= 7) return to_left < to_right ? Drag::first : Drag::last;
  return !showsAll() && position.x() > left_x && position.x() < right ? Drag::range : Drag::cursor;
}

// A press on a finding takes effect at the release, since it may begin a drag.
void TimelineTrack::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton || all_.empty()) return;
  pressed_ = event->pos();
  drag_ = grabbedAt(event->pos());
  press_step_ = stepAt(event->pos().x());
  press_range_ = selection_->range();
  if (drag_ == Drag::cursor && findingsAt(pressed_).empty()) selection_->setStep(press_step_);
}

void TimelineTrack::showStart(const Finding& finding) {
  const Finding shown = finding;  // copied, since the list may be replaced
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
      setCursor(grabbedAt(mouse_) == Drag::cursor ? Qt::ArrowCursor : Qt::SizeHorCursor);
      if (!findingsAt(mouse_).empty()) setCursor(Qt::PointingHandCursor);
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

void TimelineTrack::mouseReleaseEvent(QMouseEvent* event) {
  const Drag drag = std::exchange(drag_, Drag::none);
  emit dragEnded();
  if (drag == Drag::none || (event->pos() - pressed_).manhattanLength() >= kHitDistance) return;
  if (const auto found = findingsAt(pressed_); !found.empty()) return showStart(*found.front());
  if (drag == Drag::range) selection_->setStep(press_step_);  // a click that has moved nothing
}

void TimelineTrack::contextMenuEvent(QContextMenuEvent* event) {
  const bool by_key = event->reason() == QContextMenuEvent::Keyboard;
  const qint64 step = by_key ? selection_->step() : noteOrStepAt(event->x());
  emit menuRequested(by_key ? mapToGlobal(QPoint(xOf(step), height() / 2)) : event->globalPos(), step);
}

void TimelineTrack::keyPressEvent(QKeyEvent* event) {
  const std::int64_t page = std::max<std::int64_t>(1, all_.size() / 20);
  switch (event->key()) {
    case Qt::Key_Left:
      return selection_->moveStep(-1);
    case Qt::Key_Right:
      return selection_->moveStep(1);
    case Qt::Key_PageUp:
      return selection_->moveStep(-page);
    case Qt::Key_PageDown:
      return selection_->moveStep(page);
    case Qt::Key_Home:
      return selection_->setStep(all_.first);
    case Qt::Key_End:
      return selection_->setFollowing(true);
    default:
      QWidget::keyPressEvent(event);
  }
}

TimelineBar::TimelineBar(Selection* selection, QWidget* parent)
    : QWidget(parent),
      selection_(selection),
      track_(new TimelineTrack(selection, this)),
      zoom_(new LinkLabel({}, this)),
      follow_(new FollowButton(this)) {
  setObjectName("timeline");
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(1, 1, kSpace8, 1);
  row->setSpacing(kSpace4);
  row->addWidget(track_, 1);
  row->addWidget(zoom_);
  row->addWidget(follow_);
  zoom_->setObjectName("timeline_zoom");
  zoom_->setMargin(kSpace4);
  connect(zoom_, &QLabel::linkActivated, selection,
          [selection] { selection->setRange(selection->history()->steps()); });
  connect(selection, &Selection::timeChanged, this, &TimelineBar::takeZoom);
  connect(track_, &TimelineTrack::dragEnded, this, &TimelineBar::takeZoom);
  follow_->setCheckable(true);
  follow_->setFocusPolicy(Qt::TabFocus);
  connect(follow_, &QToolButton::clicked, selection, &Selection::setFollowing);
  connect(selection, &Selection::timeChanged, this, &TimelineBar::takeFollowing);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  followFont(this, [this] {
    zoom_->setFont(typeFont(Type::secondary));
    setFixedHeight(withType(kTimelineHeight, fontMetrics()));
  });
  takeFollowing();
  takeZoom();
}

// Says that the time axes show a part of the run. The words change the width of the track, so not while it is dragged.
void TimelineBar::takeZoom() {
  if (track_->isDragged()) return;
  const StepRange shown = selection_->range(), all = selection_->history() ? selection_->history()->steps() : shown;
  const bool is_zoomed = shown.first > all.first || (shown.last < all.last && !selection_->following());
  zoom_->setVisible(is_zoomed);
  if (!is_zoomed) return;
  QString words = selection_->rangeText(shown);
  words[0] = words[0].toUpper();
  const QString text = QString("%1 <a href='all'>All %2</a>")
                           .arg(words, selection_->stepWord() == "batch" ? QString("batches") : QString("steps"));
  if (zoom_->text() != text) zoom_->setText(text);
}

void TimelineBar::takeFollowing() {
  const QSignalBlocker quiet(follow_);
  const bool growing = selection_->growing();
  follow_->setChecked(growing && selection_->following());
  const QString verb = selection_->following() ? QString("Following") : QString("Follow");
  follow_->setText(growing ? verb : QString("Last %1").arg(selection_->stepWord()));
  follow_->setToolTip(
      growing ? QString("Keep the cursor on the newest step")
              : QString("Moves the cursor to the last %1; no new steps arrive").arg(selection_->stepWord()));
  follow_->setAccessibleName(follow_->text());
  follow_->update();
}

void TimelineBar::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  drawRounded(painter, rect(), kRadiusPanel, palette().base().color(), QColor(colors(palette()).hairline));
}

}  // namespace moescope
