#include "widgets/router/expert_bias_over_time_panel.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/frame/router_stats.h"
#include "widgets/panel/metric_text.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/router/load_maps.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

LegendScale biasLegend(double limit, bool dark) {
  const auto text = [](double bias) {
    return withMinus(QString::number(bias, 'g', 3));
  };  // biases range from 0.0005 to whole numbers
  return {.lut = utilisationLut(dark),
          .low = text(-limit),
          .high = QLatin1Char('+') + text(limit),
          .caption = QStringLiteral("bias"),
          .first_code = 2};
}

}  // namespace

ExpertBiasOverTimePanel::ExpertBiasOverTimePanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Expert bias over time", Provenance::measured_here, parent) {
  map_ = new TimeHeatMap(selection, this);
  map_->setAccessibleName("Bias of every expert");
  map_->setWeights(utilisationWeights());  // of several values, the value farthest from 0 is shown
  map_->setHeld(true);
  map_->refill = [this] { refillMap(); };
  map_->figure = [this](int expert, std::int64_t step) {
    return FigureTarget{.key = "expert_bias", .layer = selection_->layer(), .expert = expert, .step = step};
  };
  map_->describe = [this](int expert, std::int64_t step) {
    return expertReadout(*selection_, step, selection_->layer(), expert);
  };
  map_->fetch = [this](StepRange range, int bins) {
    const auto bias = selection_->history()->expert_bias(selection_->layer(), range, bins);
    std::vector<std::uint8_t> codes(bias.size());
    std::ranges::transform(bias, codes.begin(), [this](float b) { return divergingCode(0.5 + b / (2 * limit_)); });
    return codes;
  };
  connect(map_, &TimeHeatMap::rowClicked, selection_, &Selection::setExpert);
  lines_ = new LinePlot(selection, this);
  lines_->setAccessibleName("Highest, median, lowest and chosen bias");
  lines_->refill = [this] { refillLines(); };

  view_ = makeChoice({"all experts", "curves"}, "View",
                     "The bias of every expert in colour, or the highest, median and lowest as curves with the chosen "
                     "expert's");
  stack_ = new QStackedWidget(this);
  stack_->addWidget(map_);
  stack_->addWidget(lines_);
  connect(view_, &QComboBox::currentIndexChanged, stack_, &QStackedWidget::setCurrentIndex);
  addControl(new LayerCombo(selection, this));
  addControl(view_);
  showAnswers();
  addBody(stack_);
  keepState("lines", view_);
}

Panel::Answer ExpertBiasOverTimePanel::answer() const {
  if (!whyNothing().isEmpty()) return {};
  const std::vector<float> bias = biasNow();
  const auto [lowest, highest] = std::ranges::minmax_element(bias);
  const auto text = [](float b) { return (b > 0 ? "+" : "") + formatValue(b, 3); };
  const QString question = "Which expert does the bias favour?";
  if (*lowest == *highest) return {question, {QString("None: all biases are %1").arg(text(*highest)), "nobody"}};
  const QString favoured = QString("Expert %1 most, %2").arg(highest - bias.begin()).arg(text(*highest));
  return {question,
          {QString("%1; expert %2 least, %3").arg(favoured).arg(lowest - bias.begin()).arg(text(*lowest)), favoured}};
}

std::vector<float> ExpertBiasOverTimePanel::biasNow() const {
  const History* history = selection_->history();
  const StepRange until{history->steps().first, selection_->step()};
  if (until.empty()) return {};
  const std::vector<float> current = history->expert_bias(selection_->layer(), until, 1);
  return current.empty() || std::isnan(current.front()) ? std::vector<float>() : current;
}

QString ExpertBiasOverTimePanel::whyNothing() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return noDataYetNotice(*selection_);
  return biasNow().empty() ? notInLogNotice(history->info(), "expert bias") : QString();
}

// Adds the new steps of all open runs to the colour scale. It changes rarely, since a change recolours the pictures.
void ExpertBiasOverTimePanel::growScale() {
  constexpr int kMaxBins = 256;
  const auto& runs = selection_->histories();
  const bool is_same = scaled_layer_ == selection_->layer() &&
                       std::ranges::equal(scaled_, runs, [](const auto& scaled, const auto& run) {
                         return scaled.first == run && scaled.second <= run->steps().last;
                       });
  if (!is_same) {
    scaled_layer_ = selection_->layer();
    largest_ = 1e-3;  // one step at the usual rate; smaller biases have no colour
    scaled_.clear();
    for (const auto& run : runs) scaled_.emplace_back(run, run->steps().first - 1);
  }
  for (auto& [run, last] : scaled_) {
    const StepRange fresh{last + 1, run->steps().last};
    if (fresh.empty()) continue;
    for (const float b :
         run->expert_bias(scaled_layer_, fresh, static_cast<int>(std::min<std::int64_t>(fresh.size(), kMaxBins))))
      if (std::isfinite(b)) largest_ = std::max<double>(largest_, std::abs(b));
    last = fresh.last;
  }
  limit_ = niceRange(0, largest_, false).high;
}

void ExpertBiasOverTimePanel::refillMap() {
  if (map_->showsNotice(whyNothing())) return;
  const std::vector<float> bias = biasNow();
  growScale();
  const int experts = to_int(bias.size());
  map_->setRowAxis(integerTicks(0, experts - 1, std::max(2, map_->height() / 26)), "expert", false);
  map_->setSource(QStringLiteral("%1:%2:%3")
                      .arg(reinterpret_cast<quintptr>(selection_->history()))
                      .arg(selection_->layer())
                      .arg(limit_),
                  experts);
  LegendScale legend = biasLegend(limit_, isDark(palette()));
  legend.caption += biasUnit(*selection_->history(), selection_->step());
  map_->setLegend(legend);
  map_->setCurrentRow(selection_->expert(),
                      selection_->expert() < 0 ? QString() : QString::number(selection_->expert()));
}

const std::vector<float>& ExpertBiasOverTimePanel::image(StepRange range, int bins) const {
  const History* history = selection_->history();
  const bool is_unchanged = image_.history == history && image_.sequence == history->sequence() &&
                            image_.layer == selection_->layer() && image_.bins == bins && image_.range == range;
  if (!is_unchanged)
    image_ = {history,
              history->sequence(),
              selection_->layer(),
              bins,
              range,
              history->expert_bias(selection_->layer(), range, bins)};
  return image_.bias;
}

// Returns the bias of `expert` in every bin; for expert -1, the quantile `share` of the biases of all experts.
std::vector<PyramidBin> ExpertBiasOverTimePanel::curve(StepRange range, int bins, double share, int expert) const {
  const std::vector<float>& bias = image(range, bins);
  const std::size_t experts = bias.size() / bins;
  std::vector<PyramidBin> out(bins);
  for (std::size_t b = 0; b < out.size() && experts > 0; ++b) {
    const auto row = bias.begin() + b * experts;
    if (expert >= to_int(experts) || std::isnan(*row)) continue;
    out[b].add(expert >= 0 ? row[expert] : percentile({row, row + experts}, share));
  }
  return out;
}

void ExpertBiasOverTimePanel::refillLines() {
  if (lines_->showsNotice(whyNothing())) return;
  const auto& active = selection_->histories()[selection_->run()];
  const auto series = [&](const QString& label, int color, double share, int expert) {
    return LineSeries{
        .history = active,
        .label = label,
        .color = curveColor(*selection_, color),
        .fetch = [this, share, expert](StepRange range, int bins) { return curve(range, bins, share, expert); }};
  };
  std::vector<LineSeries> all = {series("highest", 1, 1, -1), series("median", 4, 0.5, -1), series("lowest", 2, 0, -1)};
  const int expert = selection_->expert();
  if (expert >= 0) all.push_back(series(QString("expert %1").arg(expert), 0, 0, expert));
  lines_->setAtLeastShown(0, 0);
  lines_->setCaption(QString("expert bias") + biasUnit(*active, selection_->step()));
  lines_->setSeries(std::move(all));
}

ValueTable ExpertBiasOverTimePanel::table() const {
  const History* history = selection_->history();
  const bool any = history && !selection_->range().empty();
  const std::vector<std::int64_t> steps = any ? history->steps_in(selection_->range()) : std::vector<std::int64_t>();
  const std::vector<float> bias =
      steps.empty() ? std::vector<float>() : history->expert_bias(selection_->layer(), edges_of(steps));
  const std::size_t experts = steps.empty() ? 0 : bias.size() / steps.size();
  std::vector<ValueColumn> columns{{"step"}, {"layer"}};
  for (std::size_t e = 0; e < experts; ++e) columns.push_back({fmt::format("bias of expert {}", e)});
  ValueTable table(std::move(columns));
  for (std::size_t i = 0; i < steps.size() && experts > 0; ++i) {
    const auto row = std::span(bias).subspan(i * experts, experts);
    if (std::isnan(row[0])) continue;  // the bin was not kept
    table.add_series({steps[i], std::int64_t{selection_->layer()}}, row);
  }
  return table;
}

}  // namespace moescope
