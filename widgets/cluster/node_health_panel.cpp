#include "widgets/cluster/node_health_panel.h"

#include <QStackedWidget>
#include <algorithm>

#include "widgets/panel/csv.h"
#include "widgets/panel/flat_combo.h"
#include "widgets/panel/flow_row.h"
#include "widgets/plots/axis.h"

namespace moescope {
namespace {

constexpr double kHour = 3600;
constexpr int kMaxPoints = 400, kMaxEventLines = 400;

}  // namespace

NodeHealthPanel::NodeHealthPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Node health", Provenance::modelled, parent) {
  showAnswers();
  addBody(makeFields(), 0);
  strip_ = new LaneChart(this);
  std::vector<LaneChart::Activity> activities;
  constexpr int kColors[kNumActivities] = {0, 2, 1, 3, 5, 4, 6};
  constexpr Qt::BrushStyle kFills[kNumActivities] = {Qt::SolidPattern,    Qt::Dense4Pattern, Qt::SolidPattern,
                                                     Qt::Dense2Pattern,   Qt::SolidPattern,  Qt::BDiagPattern,
                                                     Qt::DiagCrossPattern};
  for (int a = 0; a < kNumActivities; ++a)
    activities.push_back({QString::fromUtf8(activity_name(static_cast<Activity>(a))), kColors[a], kFills[a]});
  strip_->setActivities(std::move(activities));
  strip_->setCaption("hours");
  strip_->setMinimumHeight(90);
  addBody(strip_, 2);
  curve_ = new XyPlot(this);
  curve_->setCaptions("hours", "share of the time");
  events_ = new QPlainTextEdit(this);
  events_->setReadOnly(true);
  events_->setAccessibleName("Events");
  auto* below = new QStackedWidget(this);  // shows one of them, which can be read in a low panel
  below->addWidget(curve_);
  below->addWidget(events_);
  addBody(below, 3);
  view_ = makeChoice({"goodput", "events"}, "Below the strip", "Goodput over time, or the list of events");
  connect(view_, &QComboBox::currentIndexChanged, below, &QStackedWidget::setCurrentIndex);
  addControl(view_);
  compute();
}

QWidget* NodeHealthPanel::makeFields() {
  auto* fields = new QWidget(this);
  auto* row = new FlowRow(fields);
  kind_ = new FlatCombo(fields);
  for (int kind = 0; kind < kNumFaultKinds; ++kind)
    kind_->addItem(QString("fault: %1").arg(QString::fromUtf8(fault_name(static_cast<FaultKind>(kind)))));
  kind_->addItem("no fault");
  kind_->setAccessibleName("Fault");
  kind_->setToolTip("Fault of one node, in addition to the random faults");
  row->addWidget(kind_);
  step_ = makeSpin("at step", 1999, 510, "Step in which the fault happens");
  mtbf_ = makeSpin("MTBF", 100000, 2000, "Mean time between failures of one node; 0: no random faults");
  mtbf_->setSuffix(" h");
  checkpoint_ = makeSpin("checkpoint every", 2000, 20, "Steps between checkpoints; 0: none");
  checkpoint_->setSuffix(" steps");
  for (QWidget* field : {step_, mtbf_, checkpoint_}) row->addWidget(field);
  connect(kind_, &QComboBox::currentIndexChanged, this, [this] { compute(); });
  return fields;
}

QSpinBox* NodeHealthPanel::makeSpin(const QString& name, int high, int value, const QString& tip) {
  auto* box = new QSpinBox(this);
  box->setRange(0, high);
  box->setValue(value);
  box->setPrefix(name + QLatin1Char(' '));
  box->setAccessibleName(name);
  box->setToolTip(tip);
  connect(box, &QSpinBox::valueChanged, this, [this] { compute(); });
  return box;
}

NodeHealthConfig NodeHealthPanel::config() const {
  NodeHealthConfig config;
  config.mtbf_hours = mtbf_->value();
  config.checkpoint_every = checkpoint_->value();
  if (kind_->currentIndex() < kNumFaultKinds)
    config.faults.push_back({.kind = static_cast<FaultKind>(kind_->currentIndex()), .node = 0, .step = step_->value()});
  return config;
}

void NodeHealthPanel::compute() {
  const NodeHealthConfig asked = config();
  step_->setVisible(!asked.faults.empty());
  steps_ = std::max<std::int64_t>(1, asked.steps);
  best_every_ = best_checkpoint_every(asked);
  outcome_ = simulate_node_health(asked);
  std::vector<LaneChart::Interval> intervals;
  for (const HealthInterval& interval : outcome_.intervals)
    intervals.push_back({0, static_cast<int>(interval.activity), interval.from_s / kHour, interval.to_s / kHour});
  strip_->setLanes({"run"}, std::move(intervals), outcome_.wall_s / kHour);
  fillEvents();
  fillCurve();
  update();  // repaints the header as well
  strip_->markDirty();
  curve_->markDirty();
}

void NodeHealthPanel::fillEvents() {
  std::vector<LaneChart::Flag> flags;
  QStringList words;
  for (const HealthEvent& event : outcome_.events) {
    const QString text = QString("%1 h, step %2: %3")
                             .arg(event.at_s / kHour, 0, 'f', 2)
                             .arg(formatCount(event.step))
                             .arg(QString::fromStdString(event.text));
    flags.push_back({event.at_s / kHour, text});
    if (words.size() < kMaxEventLines) words << text;
  }
  strip_->setFlags(std::move(flags));
  events_->setPlainText(words.isEmpty() ? QString("No failures") : words.join(QLatin1Char('\n')));
}

void NodeHealthPanel::fillCurve() {
  XyPlot::Series goodput{"goodput so far", 0, XyPlot::Mark::none, Qt::SolidLine, {}, {}};
  XyPlot::Series lost{"repeated steps / steps", 1, XyPlot::Mark::none, Qt::DashLine, {}, {}};
  const std::size_t every = std::max<std::size_t>(1, outcome_.points.size() / kMaxPoints);
  for (std::size_t i = 0; i < outcome_.points.size(); i += every) {
    const HealthPoint& point = outcome_.points[i];
    goodput.points.emplace_back(point.at_s / kHour, point.goodput);
    lost.points.emplace_back(point.at_s / kHour, static_cast<double>(point.lost_steps) / static_cast<double>(steps_));
  }
  curve_->setAtLeastShown({0, 1}, {0, 1});
  curve_->setSeries({goodput, lost});
}

QString NodeHealthPanel::status() const {
  return QString("%1 h, faults: %2, restarts: %3")
      .arg(outcome_.wall_s / kHour, 0, 'f', 1)
      .arg(outcome_.faults)
      .arg(outcome_.restarts);
}

Panel::Answer NodeHealthPanel::answer() const {
  const QString goodput = QString("Goodput %1").arg(formatPercent(outcome_.goodput));
  if (!outcome_.finished)
    return {"What do failures cost?", {"The run does not end: failures undo its steps faster than it takes them"}};
  // A step may be repeated several times.
  const QString steps =
      goodput + QString(": the run of %1 steps repeats %2").arg(formatCount(steps_), formatCount(outcome_.lost_steps));
  const QString best = QString("; best: a checkpoint every %1 steps").arg(best_every_);
  return {"What do failures cost?", {best_every_ > 0 ? steps + best : steps, steps, goodput}};
}

QString NodeHealthPanel::csv() const {
  QString text = QStringLiteral("time [s],next step,lost steps,goodput (share)\n");
  for (const HealthPoint& point : outcome_.points)
    text += csvRow(QString::number(point.at_s, 'f', 1), point.step, point.lost_steps, digits(point.goodput, 7));
  return text;
}

}  // namespace moescope
