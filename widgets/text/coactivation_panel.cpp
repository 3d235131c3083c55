#include "widgets/text/coactivation_panel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/frame/coactivation.h"
#include "core/frame/specialisation.h"
#include "widgets/panel/csv.h"
#include "widgets/panel/layer_combo.h"
#include "widgets/text/specialisation_panel.h"

namespace moescope {

CoactivationPanel::CoactivationPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Co-activation", Provenance::measured_here, parent) {
  showAnswers([this] { return legend(); });
  view_ = new MatrixPlot(this);
  view_->setLegendElsewhere();
  view_->refill = [this] { refill(); };
  view_->describe = [this](int row, int column) { return describe(row, column); };
  view_->figure = [this](int row, int column) {
    return FigureTarget{.key = "coactivation",
                        .layer = selection_->layer(),
                        .expert = order_[static_cast<std::size_t>(row)],
                        .other = order_[static_cast<std::size_t>(column)],
                        .step = selection_->step()};
  };
  view_->setWeights(utilisationWeights());
  view_->setHatched(kZeroLoadCode);
  view_->setSquare(true);
  followSelection(view_);
  connect(view_, &MatrixPlot::cellChosen, this,
          [this](int row, int) { selection_->setExpert(order_[static_cast<std::size_t>(row)]); });
  addControl(new LayerCombo(selection_, this));
  sort_ = makeChoice({"by team", "by id"}, "Order of experts",
                     "by team: experts chosen together are neighbours (average-linkage clustering)");
  connect(sort_, &QComboBox::currentIndexChanged, view_, &PlotFrame::markDirty);
  addControl(sort_);
  addBody(view_);
  keepState("sort", sort_);
}

LegendScale CoactivationPanel::legend() const {
  LegendScale legend = liftLegend(isDark(palette()));
  legend.caption = QString("\u00d7 chance");
  legend.swatches.push_back({QColor(legend.lut[kNoDataCode]), "itself"});
  return legend;
}

// Slots over tokens in the table itself, since top_k may have changed in training.
int CoactivationPanel::topK(const SpecialisationFrame& table) const {
  const std::size_t experts = table.n_experts();
  double alone = 0, pairs = 0;
  for (std::size_t i = 0; i < experts; ++i)
    for (std::size_t j = 0; j < experts; ++j) (i == j ? alone : pairs) += table.together_EE[i * experts + j];
  return alone > 0 ? static_cast<int>(std::lround(1 + pairs / alone)) : 0;
}

void CoactivationPanel::refill() {
  const History* history = selection_->history();
  frame_.reset();
  if (!hasSteps(view_)) return;
  frame_ = history->specialisation_layer_at(selection_->layer(), selection_->step());
  const SpecialisationFrame* now = specialisationOf(frame_.get(), selection_->layer());
  if (!now || now->together_EE.empty())
    return view_->setNotice(notInLogNotice(history->info(), "experts chosen together"));
  const int experts = static_cast<int>(now->n_experts()), top_k = topK(*now);
  if (top_k < 2) return view_->setNotice("A token has one expert here: none are chosen together (router.top_k)");
  view_->setNotice({});
  share_ = coactivation_share(*now);
  baseline_ = coactivation_baseline(top_k, experts);
  order_.resize(static_cast<std::size_t>(experts));
  std::iota(order_.begin(), order_.end(), 0);
  if (sort_->currentIndex() == 0) order_ = coactivation_order(now->together_EE, experts);
  std::vector<std::uint8_t> codes;
  for (const int i : order_)
    for (const int j : order_) {
      const float share = share_[static_cast<std::size_t>(i * experts + j)];
      codes.push_back(is_missing(share) ? kNoDataCode : utilisationCode(static_cast<double>(share / baseline_)));
    }
  std::vector<Tick> ticks;
  for (int place = 0; place < experts; ++place)
    ticks.push_back({static_cast<double>(place), QString::number(order_[static_cast<std::size_t>(place)])});
  view_->setCells(experts, experts, std::move(codes));
  view_->setLegend(legend());
  view_->setRowAxis(ticks, "share of an expert's tokens that another gets, too");
  view_->setColumnAxis(std::move(ticks), QString());
  const auto place = std::ranges::find(order_, selection_->expert());
  view_->setCurrent(place == order_.end() ? -1 : static_cast<int>(place - order_.begin()), -1);
}

QStringList CoactivationPanel::describe(int row, int column) const {
  const SpecialisationFrame* now = specialisationOf(frame_.get(), selection_->layer());
  if (!now) return {};
  const int i = order_[static_cast<std::size_t>(row)], j = order_[static_cast<std::size_t>(column)];
  const auto at = [&](int a, int b) {
    return static_cast<std::size_t>(a) * now->n_experts() + static_cast<std::size_t>(b);
  };
  if (i == j) return {QString("expert %1: %2 tokens").arg(i).arg(formatCount(now->together_EE[at(i, i)]))};
  return {QString("%1 of expert %2's tokens go to expert %3, too").arg(formatPercent(share_[at(i, j)])).arg(i).arg(j),
          QString("chance alone: %1; that is %2 times as many")
              .arg(formatPercent(baseline_), formatValue(share_[at(i, j)] / baseline_, 3)),
          QString("%1 tokens").arg(formatCount(now->together_EE[at(i, j)]))};
}

Panel::Answer CoactivationPanel::answer() const {
  const SpecialisationFrame* now = specialisationOf(frame_.get(), selection_->layer());
  if (!now || !view_->notice().isEmpty() || share_.empty()) return {};
  const std::size_t experts = now->n_experts();
  std::size_t best = 1;
  for (std::size_t i = 0; i < share_.size(); ++i)
    if (i / experts != i % experts && !is_missing(share_[i]) && (is_missing(share_[best]) || share_[i] > share_[best]))
      best = i;
  if (is_missing(share_[best])) return {};
  const QString times = formatValue(share_[best] / baseline_, 2);
  const auto [i, j] = std::minmax({best / experts, best % experts});
  return {"Which experts work together?",
          {QString("%1 and %2: %3 \u00d7 as often as by chance").arg(i).arg(j).arg(times),
           QString("%1 and %2: %3 \u00d7 chance").arg(i).arg(j).arg(times)}};
}

QString CoactivationPanel::status() const {
  return frame_ ? timeStatus(frame_->step, false) : QString();
}

QString CoactivationPanel::csv() const {
  QString text = QStringLiteral("step,layer,expert i,expert j,tokens of both,share N(ij)/N(i)\n");
  const auto frame =
      selection_->history() ? selection_->history()->specialisation_frame_at(selection_->step()) : nullptr;
  const SpecialisationFrame* now = specialisationOf(frame.get(), selection_->layer());
  if (!now) return text;
  const std::vector<float> share = coactivation_share(*now);
  for (std::size_t i = 0; i < share.size(); ++i)
    text += csvRow(frame->step, now->layer, i / now->n_experts(), i % now->n_experts(), now->together_EE[i],
                   is_missing(share[i]) ? QString() : QString::number(share[i], 'g', 7));
  return text;
}

}  // namespace moescope
