#include "widgets/routing_stability_panel.h"

#include <QMouseEvent>
#include <QPainter>
#include <algorithm>

#include "core/telemetry/specialisation.h"
#include "widgets/color_scale.h"
#include "widgets/metric_text.h"

namespace moescope {

namespace {

enum Reference { kShortBefore, kHalfway, kFirst, kPinned };
constexpr std::int64_t kShortBeforeSteps = 100;

}  // namespace

void StabilityBars::setBars(std::vector<Bar> bars, float baseline, int current_layer) {
  bars_ = std::move(bars);
  baseline_ = baseline;
  current_ = current_layer;
}

QString StabilityBars::staticKey() const {
  QString key;
  for (const Bar& bar : bars_) key += QString::number(bar.layer) + QLatin1Char(' ');
  return key;
}

QRectF StabilityBars::slot(std::size_t bar) const {
  const QRectF room = plotRect();
  const double width = room.width() / static_cast<double>(std::max<std::size_t>(1, bars_.size()));
  return {room.left() + static_cast<double>(bar) * width, room.top(), width, room.height()};
}

int StabilityBars::barAt(QPoint position) const {
  for (std::size_t i = 0; i < bars_.size(); ++i)
    if (slot(i).contains(position)) return static_cast<int>(i);
  return -1;
}

void StabilityBars::paintStatic(QPainter& painter) {
  const QRect room = plotRect();
  const Axis axis{0, 1, static_cast<double>(room.bottom()), static_cast<double>(room.top())};
  paintLeftAxis(painter, axis,
                {{0, QStringLiteral("0 %")},
                 {0.25, QStringLiteral("25 %")},
                 {0.5, QStringLiteral("50 %")},
                 {0.75, QStringLiteral("75 %")},
                 {1, QStringLiteral("100 %")}},
                tr("same experts"));
  const QFontMetrics metrics(painter.font());
  painter.setPen(mutedText(palette()));
  int last = -1000;
  for (std::size_t i = 0; i < bars_.size(); ++i) {
    const QString label = tr("L%1").arg(bars_[i].layer);
    const int x = static_cast<int>(slot(i).center().x()), half = metrics.horizontalAdvance(label) / 2 + 2;
    if (x - half < last) continue;
    last = x + half;
    painter.drawText(QRect(x - half, room.bottom() + 3, 2 * half, metrics.height()), Qt::AlignCenter, label);
  }
}

void StabilityBars::paintData(QPainter& painter) {
  const QFontMetrics metrics(painter.font());
  for (std::size_t i = 0; i < bars_.size(); ++i) {
    if (is_missing(bars_[i].stability)) continue;
    const QRectF place = slot(i);
    const double gap = std::min(6.0, place.width() * 0.15),
                 height = place.height() * static_cast<double>(bars_[i].stability);
    const QRectF bar(place.left() + gap, place.bottom() - height, place.width() - 2 * gap, height);
    painter.fillRect(bar, seriesColor(0, dark()));
    const QString label = QString::number(100 * static_cast<double>(bars_[i].stability), 'f', 0) + QStringLiteral(" %");
    if (metrics.horizontalAdvance(label) + 2 > place.width()) continue;
    painter.setPen(palette().text().color());
    painter.drawText(QRectF(place.left(), bar.top() - metrics.height() - 1, place.width(), metrics.height()),
                     Qt::AlignCenter, label);
  }
  if (is_missing(baseline_)) return;
  const QRect room = plotRect();
  const double y = room.bottom() - static_cast<double>(baseline_) * room.height();
  painter.setPen(QPen(palette().text().color(), 1, Qt::DashLine));
  painter.drawLine(QPointF(room.left(), y), QPointF(room.right(), y));
  painter.setPen(palette().text().color());
  const QString label = tr("chance %1").arg(formatPercent(baseline_));
  const int width = metrics.horizontalAdvance(label) + 8;
  const QRect box(room.right() - width, static_cast<int>(y) - metrics.height() - 1, width, metrics.height());
  QColor ground = palette().base().color();
  ground.setAlpha(215);
  painter.fillRect(box, ground);
  painter.drawText(box, Qt::AlignCenter, label);
}

void StabilityBars::paintOverlay(QPainter& painter) {
  for (std::size_t i = 0; i < bars_.size(); ++i) {
    if (bars_[i].layer != current_) continue;
    const QRectF place = slot(i);
    painter.setPen(Qt::NoPen);
    painter.setBrush(accentColor(dark()));
    painter.drawRect(QRectF(place.left() + 2, place.bottom() + 1, place.width() - 4, 2));
    painter.setBrush(Qt::NoBrush);
  }
  const int bar = barAt(mouse_);
  if (bar >= 0 && describe) paintReadout(painter, mouse_, describe(bar));
}

void StabilityBars::mouseMoveEvent(QMouseEvent* event) {
  mouse_ = event->pos();
  const int bar = notice().isEmpty() ? barAt(mouse_) : -1;
  emit readoutChanged(bar >= 0 && describe ? describe(bar).join(QStringLiteral("   ")) : QString());
  update();
}

void StabilityBars::mousePressEvent(QMouseEvent* event) {
  const int bar = notice().isEmpty() ? barAt(event->pos()) : -1;
  if (bar >= 0) emit layerChosen(bars_[static_cast<std::size_t>(bar)].layer);
}

void StabilityBars::leaveEvent(QEvent*) {
  mouse_ = {-1, -1};
  emit readoutChanged({});
  update();
}

RoutingStabilityPanel::RoutingStabilityPanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("Routing stability"), Provenance::measured, parent) {
  bars_ = new StabilityBars(this);
  bars_->refill = [this] { refill(); };
  bars_->describe = [this](int bar) { return describe(bar); };
  connect(bars_, &StabilityBars::layerChosen, selection_, &Selection::setLayer);
  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged, &Selection::focusChanged})
    connect(selection_, signal, bars_, &PlotFrame::markDirty);
  against_ = new QComboBox(this);
  against_->addItems({tr("100 steps before"), tr("half way"), tr("first"), tr("pinned")});
  against_->setAccessibleName(tr("Earlier step to compare with"));
  against_->setToolTip(
      tr("The earlier routing of the same probe text; pinned: the step that was shown when you pinned"));
  connect(against_, &QComboBox::currentIndexChanged, bars_, &PlotFrame::markDirty);
  addControl(against_);
  auto* pin = new QToolButton(this);
  pin->setText(tr("Pin"));
  pin->setToolTip(tr("Compare with the step that is shown now, wherever the cursor goes"));
  connect(pin, &QToolButton::clicked, this, [this] {
    pinned_ = selection_->step();
    against_->setItemText(kPinned, tr("pinned %1").arg(pinned_));
    against_->setCurrentIndex(kPinned);
    bars_->markDirty();
  });
  addControl(pin);
  addBody(bars_);
}

std::int64_t RoutingStabilityPanel::wantedReference(const History& history) const {
  switch (against_->currentIndex()) {
    case kHalfway:
      return step_ / 2;
    case kFirst:
      return history.steps().first;
    case kPinned:
      return pinned_ >= 0 ? pinned_ : step_;
    default:
      return step_ - kShortBeforeSteps;
  }
}

void RoutingStabilityPanel::refill() {
  values_.clear();
  reference_step_ = -1;
  const History* history = selection_->history();
  if (!history) return bars_->setNotice(noRunNotice());
  if (history->steps().empty()) return bars_->setNotice(noDataYetNotice());
  step_ = selection_->step();
  const auto now = history->text_at(TextKind::probe, step_);
  if (!now) return bars_->setNotice(notInLogNotice(history->info(), tr("a routed probe text")));
  reference_step_ = std::max(history->steps().first, wantedReference(*history));
  auto then = history->text_at(TextKind::probe, reference_step_);
  if (!then) {  // from the first on
    const auto steps = history->text_steps(TextKind::probe);
    reference_step_ = steps.front();
    then = history->text_at(TextKind::probe, reference_step_);
  }
  if (then->text != now->text)
    return bars_->setNotice(tr("The probe text was another one at step %1: choose a later step").arg(reference_step_));
  bars_->setNotice({});
  for (const TokenLayer& layer : now->layers)
    values_.push_back({layer.layer, routing_stability(*now, *then, layer.layer)});
  baseline_ = now->layers.empty() ? kNoValue : stability_baseline(now->layers[0].top_k, history->info().n_experts);
  bars_->setBars(values_, baseline_, selection_->layer());
}

QStringList RoutingStabilityPanel::describe(int bar) const {
  const StabilityBars::Bar& value = values_[static_cast<std::size_t>(bar)];
  if (is_missing(value.stability)) return {tr("layer %1: another top_k then").arg(value.layer)};
  return {tr("layer %1: %2 of the chosen experts are those of step %3")
              .arg(value.layer)
              .arg(formatPercent(value.stability), formatCount(static_cast<double>(reference_step_))),
          tr("chance alone: %1").arg(formatPercent(baseline_))};
}

QString RoutingStabilityPanel::status() const {
  if (reference_step_ < 0) return {};
  return tr("%1 against step %2").arg(timeStatus(step_, false), formatCount(static_cast<double>(reference_step_)));
}

QString RoutingStabilityPanel::csv() const {
  QString text = QStringLiteral("step,reference step,layer,stability [share of experts],chance\n");
  for (const StabilityBars::Bar& bar : values_)
    text += QStringLiteral("%1,%2,%3,%4,%5\n")
                .arg(step_)
                .arg(reference_step_)
                .arg(bar.layer)
                .arg(is_missing(bar.stability) ? QString() : QString::number(bar.stability, 'g', 7))
                .arg(baseline_, 0, 'g', 7);
  return text;
}

QString RoutingStabilityPanel::explain() const {
  return tr("<p><b>How many of the probe's experts are still the same</b> as at an earlier step, layer by layer. "
            "Dashed: "
            "two routings that know nothing of each other. Only steps with the same probe text can be compared.</p>"
            "<p><b>Reading it.</b> Against 100 steps before, rising bars say that the router is settling; they fall "
            "when "
            "data, bias rate or learning rate throw it over. Against the first step they fall at first: that is "
            "learning.</p>") +
         metricCards({"routing_stability"});
}

QVariantMap RoutingStabilityPanel::saveState() const {
  return {{QStringLiteral("against"), std::min<int>(against_->currentIndex(), kFirst)}};
}

void RoutingStabilityPanel::restoreState(const QVariantMap& state) {
  against_->setCurrentIndex(std::clamp(state.value(QStringLiteral("against")).toInt(), 0, int{kFirst}));
}

}  // namespace moescope
