#include "widgets/router/load_over_time_panel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/telemetry/frame/router_stats.h"
#include "widgets/panel/metric_text.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/router/expert_load_panel.h"

namespace moescope {

LoadOverTimePanel::LoadOverTimePanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("Load over time"), Provenance::measured_here, parent) {
  plot_ = new TimeHeatMap(selection, this);
  plot_->refill = [this] { refill(); };
  plot_->describe = [this](int expert, std::int64_t step) { return describe(expert, step); };
  plot_->figure = [this](int expert, std::int64_t step) {
    return FigureTarget{.key = "utilisation", .layer = selection_->layer(), .expert = expert, .step = step};
  };
  plot_->fetch = [this](StepRange range, int bins) {
    const auto values = selection_->history()->utilisation(selection_->layer(), range, bins, summary());
    std::vector<std::uint8_t> codes(values.size());
    std::ranges::transform(values, codes.begin(),
                           [scale = scale_->scale()](float u) { return utilisationCode(u, scale); });
    return codes;
  };
  plot_->setWeights(utilisationWeights());
  plot_->setHatched(kZeroLoadCode);
  connect(plot_, &TimeHeatMap::rowClicked, selection_, &Selection::setExpert);
  sort_ = new QComboBox(this);
  sort_->addItems({tr("by id"), tr("by load"), tr("by cluster")});
  sort_->setAccessibleName(tr("Order of experts"));
  sort_->setToolTip(
      tr("Order of the experts from top to bottom: by id, or from the most to the least loaded at the "
         "cursor's step"));
  summary_ = new QComboBox(this);
  summary_->addItems({tr("mean"), tr("extreme")});
  summary_->setAccessibleName(tr("Steps that share a pixel"));
  summary_->setToolTip(
      tr("Where many steps share a pixel: their mean, which keeps what lasts and averages out noise; or the value "
         "farthest from fair, which keeps every spike but makes noisy runs look worse the farther you zoom out. With "
         "one step per pixel both are the same"));
  for (QComboBox* choice : {sort_, summary_})
    connect(choice, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);
  connect(selection_, &Selection::timeChanged, plot_, [this] {
    if (sort_->currentIndex() == 1) plot_->markDirty();
  });
  addControl(new LayerCombo(selection, this));
  addControl(sort_);
  addControl(summary_);
  scale_ = new LoadScaleButton(this);
  connect(scale_, &LoadScaleButton::changed, plot_, &PlotFrame::markDirty);
  addControl(scale_);
  addBody(plot_);
}

// Empty: by id.
std::vector<int> LoadOverTimePanel::order() {
  const History& history = *selection_->history();
  if (sort_->currentIndex() == by_cluster) {
    const std::vector<int>& order = clusters_.of(history, selection_->layer());
    return std::ssize(order) == history.info().n_experts ? order : std::vector<int>{};
  }
  const auto frame = selection_->frame();
  if (sort_->currentIndex() == 0 || !frame) return {};
  const auto router = std::ranges::find(frame->routers, selection_->layer(), &RouterFrame::layer);
  if (router == frame->routers.end()) return {};
  const auto& counts = router->tokens_per_expert;
  if (std::ssize(counts) != history.info().n_experts) return {};
  std::vector<int> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{}, [&](int e) { return counts[static_cast<std::size_t>(e)]; });
  return order;
}

QString LoadOverTimePanel::status() const {
  return timeStatus(selection_->step(), true);
}

void LoadOverTimePanel::refill() {
  const History* history = selection_->history();
  if (!history) return plot_->setNotice(noRunNotice());
  if (history->steps().empty()) return plot_->setNotice(noDataYetNotice());
  const int experts = history->info().n_experts;
  if (experts <= 0 || !history->frame_at(history->steps().last))
    return plot_->setNotice(notInLogNotice(history->info(), tr("tokens per expert")));
  plot_->setNotice({});
  plot_->setLegend(utilisationLegend(isDark(palette()), scale_->scale()));
  plot_->setRowOrder(order());
  plot_->setRowAxis(integerTicks(0, experts - 1, std::max(2, plot_->height() / 26)),
                    sort_->currentIndex() == by_load      ? tr("experts, most loaded first")
                    : sort_->currentIndex() == by_cluster ? tr("experts by cluster")
                                                          : tr("expert"),
                    false);
  plot_->setSource(QStringLiteral("%1:%2:%3:%4")
                       .arg(reinterpret_cast<quintptr>(history))
                       .arg(selection_->layer())
                       .arg(summary_->currentIndex())
                       .arg(static_cast<int>(scale_->scale())),
                   experts);
  const std::int64_t steps = plot_->stepsPerColumn();
  const QString note = summary() == Summary::mean ? tr("mean of %1 per column") : tr("extreme of %1 per column");
  const QString count = formatCount(static_cast<double>(steps));
  plot_->setStepNotes(steps > 1 ? QStringList{note.arg(count), tr("%1 per column").arg(count)} : QStringList());
  plot_->setCurrentRow(selection_->expert());
}

QStringList LoadOverTimePanel::describe(int expert, std::int64_t step) const {
  const auto frame = selection_->history()->frame_at(step);
  if (!frame) return {};
  const auto router = std::ranges::find(frame->routers, selection_->layer(), &RouterFrame::layer);
  if (router == frame->routers.end() || expert >= std::ssize(router->tokens_per_expert)) return {};
  QStringList lines{tr("step %1, layer %2, expert %3").arg(formatCount(frame->step)).arg(router->layer).arg(expert),
                    tr("%1 tokens, utilisation %2")
                        .arg(formatCount(router->tokens_per_expert[expert]),
                             formatValue(utilisation(router->tokens_per_expert, expert), 3))};
  if (const QString column = columnText(expert, step); !column.isEmpty()) lines << column;
  return lines;
}

// Mean and extreme of the column under the mouse, whichever is drawn; empty if a column is one step.
QString LoadOverTimePanel::columnText(int expert, std::int64_t step) const {
  const std::int64_t steps = plot_->stepsPerColumn(), first = step / steps * steps;
  if (steps <= 1) return {};
  const StepRange column{first, first + steps - 1};
  const auto value = [&](Summary summary) {
    const auto row = selection_->history()->utilisation(selection_->layer(), column, 1, summary);
    return static_cast<std::size_t>(expert) < row.size() ? row[static_cast<std::size_t>(expert)] : kNoValue;
  };
  return tr("its column, steps %1 to %2: mean %3, extreme %4")
      .arg(formatCount(static_cast<double>(column.first)), formatCount(static_cast<double>(column.last)),
           formatValue(static_cast<double>(value(Summary::mean)), 3),
           formatValue(static_cast<double>(value(Summary::farthest)), 3));
}

QString LoadOverTimePanel::csv() const {
  QString text = QStringLiteral("step,layer");
  const History* history = selection_->history();
  if (!history || selection_->range().empty()) return text + QLatin1Char('\n');
  const std::vector<std::int64_t> steps = history->steps_in(selection_->range());
  const int experts = history->info().n_experts;
  for (int e = 0; e < experts; ++e) text += QStringLiteral(",utilisation of expert %1 (1 = fair)").arg(e);
  text += QLatin1Char('\n');
  const auto values = history->utilisation(selection_->layer(), edges_of(steps), summary());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    text += QStringLiteral("%1,%2").arg(steps[i]).arg(selection_->layer());
    for (int e = 0; e < experts; ++e) {
      const float value = values[i * static_cast<std::size_t>(experts) + static_cast<std::size_t>(e)];
      text += QLatin1Char(',') + (std::isnan(value) ? QString() : QString::number(value, 'g', 7));
    }
    text += QLatin1Char('\n');
  }
  return text;
}

QVariantMap LoadOverTimePanel::saveState() const {
  return {{QStringLiteral("sort"), sort_->currentIndex()},
          {QStringLiteral("extreme"), summary() == Summary::farthest},
          {QStringLiteral("scale"), static_cast<int>(scale_->scale())}};
}

void LoadOverTimePanel::restoreState(const QVariantMap& state) {
  sort_->setCurrentIndex(std::clamp(state.value(QStringLiteral("sort")).toInt(), 0, 2));
  summary_->setCurrentIndex(state.value(QStringLiteral("extreme")).toBool() ? 1 : 0);
  scale_->setScale(state.value(QStringLiteral("scale")).toInt());
}

QString LoadOverTimePanel::explain() const {
  return tr("<p><b>Utilisation of each expert of one layer over steps</b>, on the scale of Expert load. Where many "
            "steps share a pixel, their mean is shown: it keeps what lasts and averages out noise, so that a healthy "
            "router looks healthy however far you zoom out. <i>Extreme</i> shows the value farthest from 1 instead: no "
            "spike is lost, but the noise of a balanced router looks like imbalance. The axis says how many steps a "
            "column covers, the readout gives both figures of a column. An oscillation from batch to batch averages "
            "out, too: zoom in, or see Findings.</p><p>A band that grows stronger: the rich get richer. A checkerboard "
            "(zoomed in): the bias overshoots and oscillates. Black: no token.</p><p>Wheel zooms, drag chooses a "
            "range, middle or Shift drag pans, double click fits, a click moves the cursor of all panels and chooses "
            "the expert.</p>") +
         metricCards({"utilisation"});
}

}  // namespace moescope
