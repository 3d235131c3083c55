#include "widgets/router/fair_share_plot.h"

#include <algorithm>
#include <cmath>

#include "widgets/panel/metric_text.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr const char* kUnknown = "The bias for each share of the tokens is not known";

QString biasText(double bias) {
  return withMinus(QString::number(bias, 'g', 3));
}

}  // namespace

FairSharePlot::FairSharePlot(const Selection* selection, QWidget* parent) : CurvePlot(parent), selection_(selection) {
  setAccessibleName("Share of the tokens by the expert's bias");
  setValueCaption("tokens with r below");
  setNotice(kUnknown);
  refill = [this] { fill(); };
  describe = [this](double bias) { return readoutOf(bias); };
  connect(selection, &Selection::changed, this, &PlotFrame::markDirty);
}

std::optional<FairSharePlot::Distribution> FairSharePlot::find() const {
  const History* history = selection_->history();
  const int layer = selection_->layer(), expert = selection_->expert();
  if (!history || history->steps().empty() || expert < 0) return std::nullopt;
  const auto frame = history->specialisation_layer_at(layer, selection_->step());
  if (!frame) return std::nullopt;
  const auto special = std::ranges::find(frame->specialisation, layer, &SpecialisationFrame::layer);
  const auto first = static_cast<std::size_t>(expert) * kBiasShares;
  if (special == frame->specialisation.end() || first + kBiasShares > special->bias_for_share_EQ.size())
    return std::nullopt;
  const RunInfo& info = history->info();
  const auto values = special->bias_for_share_EQ.begin() + first;
  Distribution found{.step = frame->step,
                     .expert = expert,
                     .top_k = history->settings_at(frame->step)->value(&RouterConfig::top_k).value_or(info.top_k),
                     .n_experts = info.n_experts,
                     .bias_for_share_Q = {values, values + kBiasShares}};
  const std::vector<float> bias_E = history->expert_bias(layer, {history->steps().first, frame->step}, 1);
  if (expert < std::ssize(bias_E) && !std::isnan(bias_E[expert])) found.bias = bias_E[expert];
  return found;
}

QString FairSharePlot::fairBiasText() const {
  const auto found = find();
  return found ? biasText(found->fair_bias()) : QString();
}

void FairSharePlot::fill() {
  shown_ = find();
  setNotice(shown_ ? QString() : QString(kUnknown));
  if (!shown_) return;
  const auto shares = bias_shares(shown_->top_k, shown_->n_experts);
  Curve curve{.label = QString("expert %1").arg(shown_->expert), .color = curveColor(*selection_), .points = {}};
  for (std::size_t q = 0; q < kBiasShares; ++q)
    curve.points.emplace_back(static_cast<double>(shown_->bias_for_share_Q[q]), shares[q]);
  double low = curve.points.front().x(), high = curve.points.back().x();
  const double fair = shown_->fair_bias();
  std::vector<Curve> curves;
  if (!is_missing(shown_->bias)) {
    const double bias = shown_->bias;
    low = std::min(low, bias);
    high = std::max(high, bias);
    curves.push_back({QString("its bias %1").arg(biasText(bias)), curveColor(*selection_, 1), {{bias, 0}, {bias, 1}}});
  }
  curves.push_back({QString("bias of the fair share %1").arg(biasText(fair)),
                    curveColor(*selection_, 2),
                    {{fair, 0}, {fair, shares[kFairShare]}}});
  curves.push_back(
      {"fair share K/E", curveColor(*selection_, 3), {{low, shares[kFairShare]}, {high, shares[kFairShare]}}});
  curves.push_back(std::move(curve));
  const QString unit = biasUnit(*selection_->history(), shown_->step);
  setXAxis(QString("r%1: bias at which score + bias equals the cutoff").arg(unit), low, high);
  setCurves(std::move(curves));
}

QStringList FairSharePlot::readoutOf(double bias) const {
  if (!shown_) return {};
  const double share = share_at_bias(shown_->bias_for_share_Q, shown_->top_k, shown_->n_experts, bias);
  return {QString("expert %1, r below %2:").arg(shown_->expert).arg(biasText(bias)),
          QString("%1 of the tokens, %2 times the fair share")
              .arg(formatPercent(share), formatValue(share * shown_->n_experts / shown_->top_k, 3))};
}

}  // namespace moescope
