#include "widgets/router/bias_and_fair_share_panel.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/frame/specialisation.h"
#include "widgets/panel/csv.h"
#include "widgets/panel/layer_combo.h"
#include "widgets/panel/metric_text.h"

namespace moescope {
namespace {

QString biasText(double bias) {
  return withMinus(QString::number(bias, 'g', 3));
}

}  // namespace

BiasAndFairSharePanel::BiasAndFairSharePanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Bias and fair share", Provenance::measured_here, parent) {
  addControl(new LayerCombo(selection, this));
  plot_ = new CurvePlot(this);
  plot_->setAccessibleName("Share of the tokens by the expert's bias");
  plot_->refill = [this] { refill(); };
  plot_->describe = [this](double x) { return describe(x); };
  followSelection(plot_);
  showAnswers();
  addBody(plot_);
}

Panel::Answer BiasAndFairSharePanel::answer() const {
  if (!shown_ || shown_->bias_E.empty()) return {};
  const double now = static_cast<double>(shown_->bias_E[shown_->expert]);
  const double share = share_at_bias(shown_->of(shown_->expert), shown_->top_k, shown_->n_experts, now);
  const QString load = formatValue(share * shown_->n_experts / shown_->top_k, 3);
  const QString fair = biasText(shown_->fair_bias(shown_->expert));
  const QString first = QString("Expert %1 gets %2 \u00d7 its fair share").arg(shown_->expert).arg(load);
  return {"Which bias gives a fair share?",
          {QString("%1 at bias %2; %3 would give the fair share").arg(first, biasText(now), fair),
           QString("%1 would give the fair share").arg(fair)}};
}

std::span<const float> BiasAndFairSharePanel::Shown::of(int e) const {
  return std::span(bias_for_share_EQ).subspan(static_cast<std::size_t>(e) * kBiasShares, kBiasShares);
}

double BiasAndFairSharePanel::Shown::fair_bias(int e) const {
  return static_cast<double>(of(e)[kFairShare]);
}

std::optional<BiasAndFairSharePanel::Shown> BiasAndFairSharePanel::find() const {
  const History& history = *selection_->history();
  const int layer = selection_->layer();
  const auto frame = history.specialisation_layer_at(layer, selection_->step());
  if (!frame) return std::nullopt;
  const auto special = std::ranges::find(frame->specialisation, layer, &SpecialisationFrame::layer);
  if (special == frame->specialisation.end() || special->bias_for_share_EQ.empty()) return std::nullopt;
  const RunInfo& info = history.info();
  Shown shown;
  shown.step = frame->step;
  shown.layer = layer;
  shown.top_k = history.settings_at(frame->step)->value(&RouterConfig::top_k).value_or(info.top_k);
  shown.n_experts = info.n_experts;
  shown.bias_for_share_EQ = special->bias_for_share_EQ;
  shown.bias_E = history.expert_bias(layer, {history.steps().first, frame->step}, 1);
  if (shown.bias_E.size() != static_cast<std::size_t>(info.n_experts) || std::isnan(shown.bias_E[0])) shown.bias_E = {};
  shown.expert = std::clamp(selection_->expert(), 0, info.n_experts - 1);
  if (selection_->expert() < 0 && !shown.bias_E.empty()) {  // chooses the expert farthest above its fair share
    double least = std::numeric_limits<double>::infinity();
    for (int e = 0; e < shown.n_experts; ++e)
      if (const double lacking = shown.fair_bias(e) - static_cast<double>(shown.bias_E[e]); lacking < least)
        least = lacking, shown.expert = e;
  }
  return shown;
}

void BiasAndFairSharePanel::refill() {
  shown_.reset();
  const History* history = selection_->history();
  if (!hasSteps(plot_)) return;
  shown_ = find();
  if (!shown_) return plot_->setNotice(notInLogNotice(history->info(), "the distribution of cutoff minus score"));
  plot_->setNotice({});
  const auto biases = shown_->of(shown_->expert);
  const auto shares = bias_shares(shown_->top_k, shown_->n_experts);
  CurvePlot::Curve curve{.label = QString("expert %1").arg(shown_->expert), .color = 0, .points = {}};
  for (std::size_t q = 0; q < kBiasShares; ++q) curve.points.emplace_back(static_cast<double>(biases[q]), shares[q]);
  double low = curve.points.front().x(), high = curve.points.back().x();
  const double fair = shown_->fair_bias(shown_->expert);
  std::vector<CurvePlot::Curve> curves;
  if (!shown_->bias_E.empty()) {
    const double now = static_cast<double>(shown_->bias_E[shown_->expert]);
    low = std::min(low, now), high = std::max(high, now);
    curves.push_back({QString("its bias %1").arg(biasText(now)), 1, {{now, 0}, {now, 1}}});
  }
  curves.push_back(
      {QString("bias of the fair share %1").arg(biasText(fair)), 2, {{fair, 0}, {fair, shares[kFairShare]}}});
  curves.push_back({"fair share K/E", 3, {{low, shares[kFairShare]}, {high, shares[kFairShare]}}});
  curves.push_back(std::move(curve));
  plot_->setXAxis(QString("r%1: bias at which score + bias equals the cutoff").arg(biasUnit(*history, shown_->step)),
                  low, high);
  plot_->setValueCaption("tokens with r below");
  plot_->setCurves(std::move(curves));
}

QStringList BiasAndFairSharePanel::describe(double bias) const {
  if (!shown_) return {};
  const double share = share_at_bias(shown_->of(shown_->expert), shown_->top_k, shown_->n_experts, bias);
  return {QString("expert %1, r below %2:").arg(shown_->expert).arg(biasText(bias)),
          QString("%1 of the tokens, %2 times the fair share")
              .arg(formatPercent(share), formatValue(share * shown_->n_experts / shown_->top_k, 3))};
}

QString BiasAndFairSharePanel::status() const {
  return shown_
             ? timeStatus(shown_->step, true) + QString(", layer %1, expert %2").arg(shown_->layer).arg(shown_->expert)
             : QString();
}

QString BiasAndFairSharePanel::csv() const {
  QString text = QStringLiteral("step,layer,expert,share of tokens,bias\n");
  const auto shown = selection_->history() && !selection_->history()->steps().empty() ? find() : std::nullopt;
  for (int e = 0; shown && e < shown->n_experts; ++e) {
    const auto shares = bias_shares(shown->top_k, shown->n_experts);
    for (std::size_t q = 0; q < kBiasShares; ++q)
      text += csvRow(shown->step, shown->layer, e, digits(shares[q], 7), digits(shown->of(e)[q], 7));
  }
  return text;
}

}  // namespace moescope
