#include "widgets/router/expert_load_panel.h"

#include <QPainter>
#include <algorithm>
#include <numeric>

#include "core/telemetry/frame/router_stats.h"
#include "widgets/panel/metric_text.h"

namespace moescope {

ExpertLoadPanel::ExpertLoadPanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("Expert load"), Provenance::measured_here, parent) {
  view_ = new MatrixPlot(this);
  view_->refill = [this] { refill(); };
  view_->describe = [this](int row, int column) { return describe(row, column); };
  view_->figure = [this](int row, int column) {
    return FigureTarget{.key = "utilisation",
                        .layer = routerAt(row).layer,
                        .expert = expertAt(row, column),
                        .step = frame_ ? frame_->step : selection_->step()};
  };
  view_->decorate = [this](QPainter& painter) { paintNumbers(painter); };
  view_->setWeights(utilisationWeights());
  view_->setHatched(kZeroLoadCode);
  connect(selection_, &Selection::dataChanged, view_, &PlotFrame::markDirty);
  connect(selection_, &Selection::timeChanged, view_, &PlotFrame::markDirty);
  connect(selection_, &Selection::focusChanged, view_, [this] {
    markCurrent();
    view_->update();
  });
  connect(view_, &MatrixPlot::cellChosen, this, [this](int row, int column) {
    selection_->setLayer(routerAt(row).layer);
    selection_->setExpert(expertAt(row, column));
  });

  sort_ = new QComboBox(this);
  sort_->addItems({tr("by id"), tr("by load"), tr("by cluster")});
  sort_->setAccessibleName(tr("Order of experts"));
  sort_->setToolTip(
      tr("Order of the experts in each row: by id, from the most to the least loaded, or so that experts chosen "
         "together are neighbours"));
  connect(sort_, &QComboBox::currentIndexChanged, view_, &PlotFrame::markDirty);
  addControl(sort_);
  scale_ = new LoadScaleButton(this);
  connect(scale_, &LoadScaleButton::changed, view_, &PlotFrame::markDirty);
  addControl(scale_);
  addBody(view_);
}

std::vector<int> ExpertLoadPanel::orderOf(const RouterFrame& router, int columns) {
  const auto& counts = router.tokens_per_expert;
  if (sort_->currentIndex() == by_cluster) {
    const std::vector<int>& order = clusters_.of(*selection_->history(), router.layer);
    if (std::ssize(order) == columns) return order;
  }
  std::vector<int> order(static_cast<std::size_t>(columns));
  std::iota(order.begin(), order.end(), 0);
  if (sort_->currentIndex() == by_load)
    std::ranges::stable_sort(order, std::greater{}, [&](int e) { return e < std::ssize(counts) ? counts[e] : 0; });
  return order;
}

QString ExpertLoadPanel::status() const {
  const auto frame = selection_->frame();
  return frame ? timeStatus(frame->step, true) : QString();
}

void ExpertLoadPanel::refill() {
  const History* history = selection_->history();
  frame_.reset();
  if (!history) return view_->setNotice(noRunNotice());
  if (history->steps().empty()) return view_->setNotice(noDataYetNotice());
  frame_ = selection_->frame();
  if (!frame_ || frame_->routers.empty() || frame_->routers[0].tokens_per_expert.empty())
    return view_->setNotice(notInLogNotice(history->info(), tr("tokens per expert")));
  view_->setNotice({});

  const int rows = static_cast<int>(frame_->routers.size());
  int columns = 0;
  for (const RouterFrame& router : frame_->routers)
    columns = std::max(columns, static_cast<int>(router.tokens_per_expert.size()));
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows) * columns, kNoDataCode);
  order_.assign(rows, {});
  std::vector<Tick> row_ticks;
  for (int row = 0; row < rows; ++row) {
    const auto& counts = routerAt(row).tokens_per_expert;
    const std::vector<int>& order = order_[row] = orderOf(routerAt(row), columns);
    const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    for (int column = 0; column < columns && total > 0; ++column)
      if (order[column] < std::ssize(counts))
        codes[static_cast<std::size_t>(row) * columns + column] =
            utilisationCode(static_cast<double>(counts[order[column]]) * counts.size() / total, scale_->scale());
    row_ticks.push_back({static_cast<double>(row), QString::number(routerAt(row).layer)});
  }
  view_->setCells(rows, columns, std::move(codes));
  view_->setLegend(utilisationLegend(isDark(palette()), scale_->scale()));
  view_->setRowAxis(std::move(row_ticks), tr("layer"));
  view_->setColumnAxis(integerTicks(0, columns - 1, std::max(2, view_->width() / 60)),
                       sort_->currentIndex() == by_load      ? tr("rank by load, most loaded first")
                       : sort_->currentIndex() == by_cluster ? tr("experts, chosen together side by side")
                                                             : tr("expert"));
  markCurrent();
}

// The figure in each cell, where cells are large enough to hold it.
void ExpertLoadPanel::paintNumbers(QPainter& painter) const {
  const QFontMetrics metrics(painter.font());
  const QRectF cell = view_->cellRect(0, 0);
  if (cell.width() < metrics.horizontalAdvance(QStringLiteral("0.00")) + 6 || cell.height() < metrics.height() + 2)
    return;
  for (int row = 0; row < view_->rows(); ++row)
    for (int column = 0; column < view_->columns(); ++column) {
      const auto& counts = routerAt(row).tokens_per_expert;
      const int expert = expertAt(row, column);
      if (expert >= std::ssize(counts) || counts[expert] == 0) continue;
      painter.setPen(textOn(view_->cellColor(row, column)));
      painter.drawText(view_->cellRect(row, column), Qt::AlignCenter,
                       QString::number(utilisation(counts, expert), 'f', 2));
    }
}

void ExpertLoadPanel::markCurrent() {
  int row = -1, column = -1;
  for (int i = 0; frame_ && i < static_cast<int>(order_.size()); ++i)
    if (routerAt(i).layer == selection_->layer()) row = i;
  if (row >= 0 && selection_->expert() >= 0) {
    const auto place = std::ranges::find(order_[row], selection_->expert());
    if (place != order_[row].end()) column = static_cast<int>(place - order_[row].begin());
  }
  view_->setCurrent(row, column);
}

QStringList ExpertLoadPanel::describe(int row, int column) const {
  if (!frame_) return {};
  const RouterFrame& router = routerAt(row);
  const int expert = expertAt(row, column);
  if (expert >= std::ssize(router.tokens_per_expert)) return {};
  const double total = std::accumulate(router.tokens_per_expert.begin(), router.tokens_per_expert.end(), 0.0);
  const double tokens = router.tokens_per_expert[expert];
  QStringList lines{tr("layer %1, expert %2").arg(router.layer).arg(expert),
                    tr("%1 tokens, %2 of all").arg(formatCount(tokens), formatPercent(tokens / total)),
                    tr("utilisation %1 (1 = fair)").arg(formatValue(utilisation(router.tokens_per_expert, expert), 3))};
  if (expert < std::ssize(router.expert_bias)) lines << tr("bias %1").arg(formatValue(router.expert_bias[expert]));
  if (expert < std::ssize(router.gate_mass)) lines << tr("gate mass %1").arg(formatPercent(router.gate_mass[expert]));
  return lines;
}

QString ExpertLoadPanel::csv() const {
  QString text = QStringLiteral("step,layer,expert,tokens,utilisation (1 = fair),expert_bias\n");
  const auto frame = selection_->frame();
  if (!frame) return text;
  for (const RouterFrame& router : frame->routers)
    for (std::size_t e = 0; e < router.tokens_per_expert.size(); ++e)
      text += QStringLiteral("%1,%2,%3,%4,%5,%6\n")
                  .arg(frame->step)
                  .arg(router.layer)
                  .arg(e)
                  .arg(router.tokens_per_expert[e])
                  .arg(utilisation(router.tokens_per_expert, e), 0, 'g', 7)
                  .arg(e < router.expert_bias.size() ? QString::number(router.expert_bias[e], 'g', 7) : QString());
  return text;
}

QString ExpertLoadPanel::explain() const {
  return tr("<p><b>How many tokens each expert got, against its fair share, at one step.</b> The scale is log2 from "
            "1/4 to 4, or opened to 16 or 64; values beyond have the end colours. An expert without a token in this "
            "step is black and struck "
            "through: normal for single steps when K T / E is small, see the dead experts of Balance for a whole "
            "window. Click or arrow keys choose layer and expert for all panels. <i>By cluster</i>: each layer's "
            "experts in the order of a clustering by co-activation, N_ij / sqrt(N_ii N_jj) over the tokens that chose "
            "i and j, as last counted; by id before the first count.</p>") +
         metricCards({"utilisation", "expert_bias", "gate_mass"});
}

QVariantMap ExpertLoadPanel::saveState() const {
  return {{QStringLiteral("sort"), sort_->currentIndex()},
          {QStringLiteral("scale"), static_cast<int>(scale_->scale())}};
}

void ExpertLoadPanel::restoreState(const QVariantMap& state) {
  sort_->setCurrentIndex(std::clamp(state.value(QStringLiteral("sort")).toInt(), 0, 2));
  scale_->setScale(state.value(QStringLiteral("scale")).toInt());
}

}  // namespace moescope
