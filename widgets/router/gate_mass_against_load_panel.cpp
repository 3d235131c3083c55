#include "widgets/router/gate_mass_against_load_panel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/frame/router_stats.h"
#include "widgets/panel/metric_text.h"
#include "widgets/router/load_maps.h"

namespace moescope {

GateMassAgainstLoadPanel::GateMassAgainstLoadPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Gate mass against load", Provenance::measured_here, parent) {
  plot_ = new ScatterPlot(this);
  plot_->refill = [this] { refill(); };
  plot_->describe = [this](int expert) {
    return frame_ ? readout({frame_->step, std::int64_t{selection_->layer()}, std::int64_t{expert}}) : QStringList();
  };
  plot_->figureOf = [this](QPoint position) -> std::optional<FigureTarget> {
    const int expert = plot_->nearest(position);
    if (expert < 0) return std::nullopt;
    return FigureTarget{.key = mass_->currentIndex() == 1 ? FigureKey("score_mass") : FigureKey("gate_mass"),
                        .layer = selection_->layer(),
                        .expert = expert,
                        .step = selection_->step()};
  };
  connect(plot_, &ScatterPlot::pointChosen, selection_, &Selection::setExpert);
  followSelection(plot_);
  mass_ = makeChoice({"gate mass", "score mass"}, "Mass",
                     "Share of the mixing weights of the chosen experts, or of all scores before the choice");
  connect(mass_, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);
  addControl(new LayerCombo(selection, this));
  addControl(mass_);
  showAnswers();
  addBody(plot_);
  keepState("scores", mass_);
}

// Names the expert whose two shares differ most.
Panel::Answer GateMassAgainstLoadPanel::answer() const {
  const RouterFrame* current = router();
  if (!current || mass(*current).size() != current->tokens_per_expert.size()) return {};
  const double total = std::accumulate(current->tokens_per_expert.begin(), current->tokens_per_expert.end(), 0.0);
  std::size_t farthest = 0;
  double gap = -1, load = 0;
  for (std::size_t e = 0; e < current->tokens_per_expert.size(); ++e) {
    const double share = current->tokens_per_expert[e] / std::max(1.0, total);
    if (std::abs(share - mass(*current)[e]) <= gap) continue;
    gap = std::abs(share - mass(*current)[e]);
    farthest = e;
    load = share;
  }
  const QString weight = formatPercent(double(mass(*current)[farthest]));
  return {"Do the weights follow the load?",
          {QString("Largest gap: expert %1 has %2 of the assignments and %3 of the %4")
               .arg(farthest)
               .arg(formatPercent(load), weight, mass_->currentText()),
           QString("Expert %1: %2 of the load, %3 of the mass").arg(farthest).arg(formatPercent(load), weight)}};
}

const std::vector<float>& GateMassAgainstLoadPanel::mass(const RouterFrame& router) const {
  return mass_->currentIndex() == 1 ? router.score_mass : router.gate_mass;
}

const RouterFrame* GateMassAgainstLoadPanel::router() const {
  const RouterFrame* found = find_router(frame_.get(), selection_->layer());
  return found && !found->tokens_per_expert.empty() ? found : nullptr;
}

void GateMassAgainstLoadPanel::takeFrame() const {
  frame_ = selection_->frame();
  if (const RouterFrame* current = router(); !current || !mass(*current).empty()) return;
  LastArray& last = mass_->currentIndex() == 1 ? last_score_ : last_gate_;
  const std::int64_t step = last.at(*selection_->history(), selection_->layer(), frame_->step).step;
  if (step >= 0) frame_ = selection_->history()->frame_at(step);
}

void GateMassAgainstLoadPanel::refill() {
  const History* history = selection_->history();
  frame_.reset();
  if (!hasSteps(plot_)) return;
  takeFrame();
  const RouterFrame* current = router();
  if (!current || mass(*current).size() != current->tokens_per_expert.size())
    return plot_->setNotice(notInLogNotice(history->info(), mass_->currentText()));
  plot_->setNotice({});
  double limit = 1e-6;
  for (const float bias : current->expert_bias) limit = std::max<double>(limit, std::abs(bias));
  limit = niceRange(0, limit, false).high;
  const std::size_t experts = current->tokens_per_expert.size();
  std::vector<ScatterPlot::Point> points(experts);
  for (std::size_t e = 0; e < experts; ++e) {
    const double bias = e < current->expert_bias.size() ? current->expert_bias[e] : 0;
    points[e] = {utilisation(current->tokens_per_expert, e), mass(*current)[e] * static_cast<double>(experts),
                 divergingCode(0.5 + bias / (2 * limit))};
  }
  const LegendScale legend{.lut = utilisationLut(isDark(palette())),
                           .low = formatValue(-limit, 2),
                           .high = QStringLiteral("+") + formatValue(limit, 2),
                           .caption = QString("bias") + biasUnit(*history, selection_->step()),
                           .first_code = 2};
  plot_->setLegend(legend);
  plot_->setAxes("assignment load, \u00d7 fair share, log", QString("%1, \u00d7 fair share").arg(mass_->currentText()));
  plot_->setPoints(std::move(points));
  plot_->setCurrent(selection_->expert());
}

ValueTable GateMassAgainstLoadPanel::table() const {
  const History* history = selection_->history();
  if (history && !history->steps().empty()) takeFrame();
  return expertTable(*selection_, frame_.get());
}

}  // namespace moescope
