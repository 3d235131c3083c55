#include "widgets/cluster/deepep_gain_panel.h"

#include <QHeaderView>
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "widgets/look/layouts.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/metric_text.h"
#include "widgets/panel/table_text.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr int kBetweenPointsMs = 1000;  // pause between two points of a router in training

QString nameOf(const std::string& routing) {
  return QString::fromStdString(routing)
      .replace("skewed:", "Zipf ")
      .replace("grouped:", "groups: ")
      .replace("uniform", "random")
      .replace('_', '-');
}

}  // namespace

DeepEPGainPanel::DeepEPGainPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "DeepEP gain on measured layers", Provenance::measured_elsewhere, parent) {
  showAnswers();
  shape_ = makeChoice({QStringLiteral("671B"), QStringLiteral("16B")}, "Shape of the layer");
  axis_ = makeChoice(
      {"by copies per token", "by imbalance", "time by imbalance", "times of round-robin", "times of all routings"},
      "Axes");
  addControl(shape_);
  addControl(axis_);
  plot_ = new XyPlot(this);
  plot_->refill = [this] { refill(); };
  followSelection(plot_);
  for (QComboBox* box : {shape_, axis_}) connect(box, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);
  pause_.setSingleShot(true);
  pause_.setInterval(kBetweenPointsMs);
  connect(&pause_, &QTimer::timeout, plot_, &PlotFrame::markDirty);
  addBody(plot_);
  times_ = new FigureTable({"routing", "copies\nper token", "fullest rank\n/ mean", "gain,\nmeasured",
                            "gain,\nmodelled", "DeepEP,\nmeasured", "DeepEP,\nmodelled", "standard,\nmeasured",
                            "comm.,\nstandard", "comm.,\nDeepEP"});
  times_->horizontalHeader()->setSectionResizeMode(0, QHeaderView::Fixed);
  followFont(times_, [this] { times_->setColumnWidth(0, withType(100, times_->fontMetrics())); });
  times_->setAccessibleName(title());
  times_->hide();
  auto* over_plot = plainColumn(plot_);
  over_plot->setContentsMargins(1, 1, 1, 1);  // the plot, which asks for the answer, is still painted
  over_plot->addWidget(times_);
}

void DeepEPGainPanel::refill() {
  std::vector<std::uint32_t> load;
  const auto frame = selection_->frame();
  const RouterFrame* router = find_router(frame.get(), selection_->layer());
  // With forced balance the run's routing is the first measured one, and its load says nothing about a router.
  if (router && !selection_->history()->settings_at(frame->step)->holds(&RouterConfig::force_balance))
    load = router->tokens_per_expert;
  const Question question{shape_->currentText().toStdString(), std::move(load)};
  if (std::exchange(run_, selection_->history()) != selection_->history() && answer_) answer_->live.reset();
  if (answer_ && answer_->model != question.model) answer_.reset();
  if (question != question_ && !computing_ && (question.model != question_.model || !pause_.isActive())) {
    question_ = question;
    ask();
  }
  setProperty("busy", computing_ || question != question_);
  times_->setVisible(answer_ && axes() >= round_robin);
  if (!answer_) return plot_->setNotice("Computing...");
  plot_->setNotice(axes() >= round_robin ? " " : "");  // nothing below the table
  draw();
}

// Computes one answer at a time. The curves do not depend on the load and are kept; the point of the load takes a
// seventh of the time of the curves.
void DeepEPGainPanel::ask() {
  computing_ = true;
  pause_.start();
  const bool known = answer_ && answer_->model == question_.model;
  worker_.start(
      [this, question = question_, gains = known ? answer_->gains : LayerGains{}, known](std::stop_token stopped) {
        Answer answer{question.model, known ? gains : layer_gains(question.model), {}};
        if (!question.load.empty()) answer.live = layer_gain_of_load(question.model, question.load);
        if (stopped.stop_requested()) return;
        QMetaObject::invokeMethod(
            this,
            [this, answer = std::move(answer)] {
              answer_ = answer;
              computing_ = false;
              plot_->markDirty();  // asks again if the load has changed and the plot is visible
            },
            Qt::QueuedConnection);
      });
}

// Shows the measurements, and the modelled row of this router.
void DeepEPGainPanel::fillTimes() {
  times_->setRowCount(0);
  const ValueTable values = table();
  const std::size_t measured = axes() == round_robin ? 1 : answer_->gains.measured.size();
  for (std::size_t row = 0; row < values.rows(); ++row) {
    if (row >= measured && (axes() == round_robin || !answer_->live || row + 1 < values.rows())) continue;
    times_->insertRow(times_->rowCount());
    for (int column = 0; column < times_->columnCount(); ++column)
      times_->setFigure(times_->rowCount() - 1, column,
                        {valueText(values.columns()[column + 1], values.row(row)[column + 1])});
  }
}

void DeepEPGainPanel::draw() {
  fillTimes();
  const bool by_copies = axes() == Axes::by_copies, is_time = axes() == time;
  const auto modelled = [is_time](const LayerGain& g) { return is_time ? g.modelled_ms : g.modelled; };
  const auto x = [by_copies](const LayerGain& g) { return by_copies ? g.copies : g.rank_max_over_mean; };
  XyPlot::Series measured{"measured, 8 H200s", 0, XyPlot::Mark::disc, Qt::NoPen, {}};
  XyPlot::Series predicted{"model", 1, XyPlot::Mark::ring, Qt::NoPen, {}};
  XyPlot::Series curve{
      by_copies ? "model, 1 to 8 groups" : "model, Zipf 0 to 1", 1, XyPlot::Mark::none, Qt::DashLine, {}};
  XyPlot::Series live{"this router, modelled", 3, XyPlot::Mark::diamond, Qt::NoPen, {}};
  for (const LayerGain& g : answer_->gains.measured) {
    measured.points.emplace_back(x(g), is_time ? g.measured_ms : g.measured);
    measured.names.push_back(QString("%1, %2 ms").arg(nameOf(g.name), formatValue(g.measured_ms, 3)));
    predicted.points.emplace_back(x(g), modelled(g));
    predicted.names.push_back(nameOf(g.name));
  }
  for (const LayerGain& g : by_copies ? answer_->gains.by_groups : answer_->gains.by_skew) {
    curve.points.emplace_back(x(g), modelled(g));
    curve.names.push_back(QString::fromStdString(g.name));
  }
  if (answer_->live) {
    live.points.emplace_back(x(*answer_->live), modelled(*answer_->live));
    live.names.push_back(QString::fromStdString(answer_->live->name));
  }
  plot_->setCaptions(by_copies ? QString("copies per token") : QString("fullest rank / mean"),
                     is_time ? "layer time with DeepEP, ms" : "layer time, standard / DeepEP");
  plot_->setAtLeastShown({1, by_copies ? 2.0 : 1.1}, is_time ? ValueRange{0, 1} : ValueRange{0.9, 1.3});
  plot_->setReference(is_time ? kNoValue : 1, "no gain");
  plot_->setSeries({measured, predicted, curve, live});
}

Panel::Answer DeepEPGainPanel::answer() const {
  if (!answer_ || answer_->gains.measured.empty() || axes() == time || axes() == round_robin) return {};
  const auto [smallest, largest] = std::ranges::minmax(answer_->gains.measured, {}, &LayerGain::measured);
  const QString range = QString("DeepEP makes a layer on 8 H200s %1 to %2 \u00d7 as fast")
                            .arg(QString::number(smallest.measured, 'f', 2), QString::number(largest.measured, 'f', 2));
  if (!answer_->live) return {{}, {range}};
  const QString live = QString::number(answer_->live->modelled, 'f', 2);
  return {{}, {range + QString("; with this router %1 \u00d7 (modelled)").arg(live), range}};
}

ValueTable DeepEPGainPanel::table() const {
  ValueTable table({{"kind"},
                    {"routing"},
                    {"copies per token", "", 3},
                    {"fullest rank / mean", "", 3},
                    {"measured elsewhere, standard / DeepEP", "", 3},
                    {"modelled, standard / DeepEP", "", 3},
                    {"measured elsewhere, DeepEP layer", "ms", 3},
                    {"modelled, DeepEP layer", "ms", 3},
                    {"measured elsewhere, standard layer", "ms", 3},
                    {"measured elsewhere, standard communication", "ms", 3},
                    {"measured elsewhere, DeepEP communication", "ms", 3}});
  if (!answer_) return table;
  const auto add = [&](const std::string& kind, std::span<const LayerGain> gains) {
    for (const LayerGain& gain : gains)
      table.add(kind, nameOf(gain.name).toStdString(), gain.copies, gain.rank_max_over_mean, unless_nan(gain.measured),
                gain.modelled, unless_nan(gain.measured_ms), gain.modelled_ms,
                unless_nan(gain.measured * gain.measured_ms), unless_nan(gain.comm_ms),
                unless_nan(gain.deep_ep_comm_ms));
  };
  add("measured elsewhere", answer_->gains.measured);
  add("modelled, groups", answer_->gains.by_groups);
  add("modelled, Zipf", answer_->gains.by_skew);
  if (answer_->live) add("modelled, this router", {&*answer_->live, 1});
  return table;
}

QString DeepEPGainPanel::explain() const {
  return explanation({measuredWhere(selection_->history())});
}

}  // namespace moescope
