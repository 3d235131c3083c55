#include "widgets/compare/routing_flips_panel.h"

#include <QPainter>
#include <algorithm>
#include <array>
#include <bit>

#include "core/findings/comparison/comparison.h"
#include "core/findings/comparison/same_settings.h"
#include "core/frame/frame.h"
#include "core/frame/margin_counts.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

struct RoundingSource {
  RouterRounding rounding;
  Metric metric;
  const char* name;   // in the legend and above a column
  const char* whole;  // in a sentence
};
constexpr std::array<RoundingSource, 4> kRoundingSources = {
    {{RouterRounding::operands, Metric::changed_by_operands, "operands", "operands of the gate"},
     {RouterRounding::gate_output, Metric::changed_by_gate_output, "logits", "stored logits"},
     {RouterRounding::bias, Metric::changed_by_bias, "bias", "stored biases"},
     {RouterRounding::counts, Metric::changed_by_counts, "counts", "counts"}}};

constexpr double kLowestShare = 1e-3;  // low end of the logarithmic colour scale

// Index of seriesColor; 0 is the colour of run A.
int seriesOf(std::size_t source) {
  return to_int(source) + 1;
}

LegendScale shareLegend(bool dark, const QString& caption) {
  return {.lut = viridisLut(dark),
          .low = QStringLiteral("\u2264 ") + formatPercent(kLowestShare),
          .high = "100 %",
          .caption = caption};
}

const RouterRoundingFrame* routerRow(const TelemetryFrame& frame, int layer, RouterRounding rounding) {
  const auto found = std::ranges::find_if(frame.router_roundings, [&](const RouterRoundingFrame& row) {
    return row.layer == layer && row.rounding == rounding;
  });
  return found == frame.router_roundings.end() ? nullptr : &*found;
}

// Returns the mean over the layers; NaN if no layer has this rounding.
double meanShare(const TelemetryFrame& frame, RouterRounding rounding) {
  double sum = 0, layers = 0;
  for (const RouterRoundingFrame& row : frame.router_roundings) {
    sum += row.rounding == rounding ? row.changed : 0;
    layers += row.rounding == rounding;
  }
  return layers > 0 ? sum / layers : std::nan("");
}

// Returns the source that changes most tokens; nullptr if none was measured. Counts are left out, since they change no
// choice in their own step.
const RoundingSource* mostChanging(const TelemetryFrame& frame) {
  const RoundingSource* largest = nullptr;
  double most_share = -1;
  for (const RoundingSource& source : kRoundingSources) {
    const double share = meanShare(frame, source.rounding);
    if (source.rounding == RouterRounding::counts || !(share > most_share)) continue;
    largest = &source;
    most_share = share;
  }
  return largest;
}

// Returns the layer in which the rounding changes most tokens.
const RouterRoundingFrame& worstLayer(const TelemetryFrame& frame, RouterRounding rounding) {
  const auto rank = [rounding](const RouterRoundingFrame& row) { return row.rounding == rounding ? row.changed : -1; };
  return *std::ranges::max_element(frame.router_roundings, {}, rank);
}

QString countText(float value) {
  return QString::number(value, 'f', 0);
}

}  // namespace

RouterRoundingView::RouterRoundingView(Selection* selection, QWidget* parent)
    : QWidget(parent),
      selection_(selection),
      stack_(new QStackedWidget(this)),
      lines_(new LinePlot(selection, this)),
      matrix_(new MatrixPlot(this)),
      margins_(new HalfOctavePlot(this)) {
  lines_->refill = [this] { refillLines(); };
  lines_->setPercent(true);
  lines_->setCaption("changed by this alone");
  lines_->setAtLeastShown(0, 0.001);
  matrix_->refill = [this] { refillMatrix(); };
  matrix_->setWeights(sequentialWeights());
  matrix_->setAccessibleName("Changed choices by layer and rounding");
  matrix_->describe = [this](int row, int column) { return describe(row, column); };
  matrix_->figure = [this](int row, int column) -> std::optional<FigureTarget> {
    return FigureTarget{.key = kRoundingSources[column].metric, .layer = layers_[row], .step = selection_->step()};
  };
  matrix_->decorate = [this](QPainter& painter) {
    matrix_->paintTexts(painter, matrix_->sizeFor(QStringLiteral("88.8 %")), [this](int row, int column) {
      const RouterRoundingFrame* at = cell(row, column);
      return at ? formatPercent(at->changed) : QString();
    });
  };
  connect(matrix_, &MatrixPlot::cellChosen, this, [this](int row, int column) {
    chosen_ = column;
    selection_->setLayer(layers_[row]);
    matrix_->markDirty();
    margins_->markDirty();
  });
  margins_->refill = [this] { refillMargins(); };
  margins_->setAccessibleName("Changed choices by margin");
  connect(selection_, &Selection::changed, matrix_, &PlotFrame::markDirty);
  connect(selection_, &Selection::changed, margins_, &PlotFrame::markDirty);
  stack_->addWidget(lines_);
  stack_->addWidget(matrix_);
  auto* row = plainRow(this);
  row->addWidget(stack_, 1);
  row->addWidget(margins_, 1);
}

std::shared_ptr<const TelemetryFrame> RouterRoundingView::frame() const {
  const History* history = selection_->history();
  auto frame = history ? history->gradient_frame_at(selection_->step()) : nullptr;
  return frame && !frame->router_roundings.empty() ? frame : nullptr;
}

std::int64_t RouterRoundingView::shownStep() const {
  const auto current = frame();
  return current ? current->step : -1;
}

RouterRounding RouterRoundingView::shownRounding() const {
  if (chosen_ >= 0) return kRoundingSources[chosen_].rounding;
  const RoundingSource* source = mostChanging(*frame());
  return source ? source->rounding : RouterRounding::counts;
}

QString RouterRoundingView::whyNothing() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return noDataYetNotice(*selection_);
  if (history->info().config_toml.empty()) return notInLogNotice(history->info(), "the numbers of the router");
  const auto measured = history->gradient_frame_at(history->steps().last);
  if (measured && measured->router_roundings.empty())
    return QString("No router of this run chooses experts: balance is forced, or the routing is replayed");
  if (!measured)
    return QString(
        "The router has not been measured yet: \"Measure\" in the panel Gradient error, or telemetry.gradient_every, "
        "sets how often it is measured");
  return {};
}

void RouterRoundingView::refillLines() {
  if (lines_->showsNotice(whyNothing())) return;
  const auto& history = selection_->histories()[selection_->run()];
  std::vector<LineSeries> series;
  for (std::size_t i = 0; i < kRoundingSources.size(); ++i)
    series.push_back({history, kRoundingSources[i].metric, kWholeRun, kRoundingSources[i].name, seriesOf(i)});
  lines_->setSeries(std::move(series));
}

void RouterRoundingView::refillMatrix() {
  matrix_->setNotice(whyNothing());
  frame_ = frame();
  if (!matrix_->notice().isEmpty()) return;
  if (!frame_) return matrix_->setNotice("Not measured yet at this step");
  layers_.clear();
  for (const RouterRoundingFrame& row : frame_->router_roundings)
    if (layers_.empty() || layers_.back() != row.layer) layers_.push_back(row.layer);
  QStringList columns;
  std::vector<std::uint8_t> codes;
  for (int row = 0; row < std::ssize(layers_); ++row)
    for (int column = 0; column < std::ssize(kRoundingSources); ++column) {
      const RouterRoundingFrame* at = cell(row, column);
      codes.push_back(scaleCode(at ? logPosition(at->changed, kLowestShare) : std::nan("")));
    }
  for (const RoundingSource& source : kRoundingSources) columns << source.name;
  matrix_->setCells(to_int(layers_.size()), kRoundingSources.size(), std::move(codes));
  matrix_->setLegend(shareLegend(isDark(palette()), "changed"));
  matrix_->setRowAxis(ticksOf(layers_), QString("layer, %1").arg(runLetter(*selection_, selection_->run())));
  matrix_->setColumnAxis(ticksOf(columns), {});
  matrix_->setCurrent(index_in(layers_, selection_->layer()), chosen_);
}

void RouterRoundingView::refillMargins() {
  const auto current = whyNothing().isEmpty() ? frame() : nullptr;
  if (!current)
    return margins_->setNotice(whyNothing().isEmpty() ? QString("Not measured yet at this step") : QString(' '));
  const RouterRounding rounding = shownRounding();
  MarginCounts counts;
  for (const RouterRoundingFrame& row : current->router_roundings)
    if (row.rounding == rounding) counts.add(row);
  if (counts.tokens == HalfOctaves{})
    return margins_->setNotice("Rounded counts change the biases after the step, but no choice in this step");
  margins_->setNotice({});
  const auto source = std::ranges::find(kRoundingSources, rounding, &RoundingSource::rounding);
  margins_->setTexts({.value = "margin",
                      .counted = "tokens",
                      .caption = "margin in FP32: score of the last chosen expert minus the next, log",
                      .in_short = "margin in FP32, log",
                      .back = "all",
                      .front = QString("changed by %1").arg(QString(source->name))});
  margins_->setHistograms(counts.tokens, counts.flipped, seriesOf(source - kRoundingSources.begin()));
}

const RouterRoundingFrame* RouterRoundingView::cell(int row, int column) const {
  return frame_ ? routerRow(*frame_, layers_[row], kRoundingSources[column].rounding) : nullptr;
}

QStringList RouterRoundingView::describe(int row, int column) const {
  const RouterRoundingFrame* at = cell(row, column);
  if (!at) return {};
  const RouterRoundingFrame* none = routerRow(*frame_, at->layer, RouterRounding::none);
  const QString place = QString("layer %1, %2").arg(at->layer).arg(kRoundingSources[column].name);
  if (at->rounding == RouterRounding::counts)
    return {place, QString("%1 of the biases move in another direction").arg(formatPercent(at->changed))};
  QStringList lines{place, QString("%1 of the tokens have other experts").arg(formatPercent(at->changed))};
  if (none)
    lines << QString("MaxVio %1, without rounding %2").arg(formatValue(at->max_vio, 3), formatValue(none->max_vio, 3))
          << QString("%1 different biases, without rounding %2")
                 .arg(countText(at->bias_values), countText(none->bias_values));
  return lines;
}

QStringList RouterRoundingView::answers() const {
  const auto current = frame();
  if (!current) return {};
  const RoundingSource* source = mostChanging(*current);
  if (!source) return {};
  const RouterRoundingFrame& worst = worstLayer(*current, source->rounding);
  const RouterRoundingFrame* none = routerRow(*current, worst.layer, RouterRounding::none);
  const QString letter = runLetter(*selection_, selection_->run());
  if (!(worst.changed > 0)) return {QString("No rounding in the router of %1 changes a choice").arg(letter)};
  const QString share = formatPercent(static_cast<float>(meanShare(*current, source->rounding)));
  const QString rounding_text =
      QString("%1: %2 in BF16 alone send %3 of the tokens to other experts").arg(letter, source->whole, share);
  const QString load =
      none ? QString("; in layer %1 %2, MaxVio %3 becomes %4")
                 .arg(worst.layer)
                 .arg(formatPercent(worst.changed), formatValue(none->max_vio, 3), formatValue(worst.max_vio, 3))
           : QString();
  const RouterRoundingFrame* bias = routerRow(*current, worst.layer, RouterRounding::bias);
  const QString values = bias && none ? QString(", %1 of %2 different biases left in BF16")
                                            .arg(countText(bias->bias_values), countText(none->bias_values))
                                      : QString();
  return {rounding_text + load + values, rounding_text + load, rounding_text,
          QString("%1: %2 by %3").arg(letter, share, source->name), QString("%1: %2").arg(source->name, share)};
}

ValueTable RouterRoundingView::table() const {
  ValueTable table({"run", "step", "layer", "in BF16 alone", "changed [share]", "MaxVio", "different biases",
                    "margin from", "margin to", "tokens", "changed tokens"});
  const auto current = frame();
  if (!current) return table;
  const std::string run = runLabel(*selection_, selection_->run()).toStdString();
  for (const RouterRoundingFrame& row : current->router_roundings) {
    const auto add = [&](const auto&... bin) {
      table.add(run, current->step, row.layer, std::string(router_rounding_name(row.rounding)), row.changed,
                row.max_vio, row.bias_values, bin...);
    };
    const TableValue none;
    if (row.rounding == RouterRounding::counts) add(none, none, none, none);
    for (int bin = 0; bin < kHalfOctaves; ++bin) {
      const std::size_t i = bin;
      if (row.margin_tokens[i] > 0)
        add(half_octave_edge(bin), half_octave_edge(bin + 1), row.margin_tokens[i], row.margin_flipped[i]);
    }
  }
  return table;
}

namespace {

constexpr int kMinWidthOfTwoPlots = 620;  // width from which the second plot is shown
constexpr std::int64_t kFirstJudged = 2;  // before it, no loss shows whether the weights are equal

// True if both runs had equal weights before `step`: the step before it gave the same loss and gradient norm to the
// bit, after the same live changes. A difference in the initial weights shows in the second loss at the latest.
bool hasWeightsOf(const History& a, const History& run, std::int64_t step) {
  const auto is_equal = [&](Metric metric) {
    return std::bit_cast<std::uint32_t>(a.value_at(metric, kWholeRun, step - 1)) ==
           std::bit_cast<std::uint32_t>(run.value_at(metric, kWholeRun, step - 1));
  };
  return step >= kFirstJudged && is_equal(Metric::ce_loss) && is_equal(Metric::grad_norm) &&
         same_changes_until(a, run) >= step - 1;
}

}  // namespace

RoutingFlipsPanel::RoutingFlipsPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Routing flips", Provenance::measured_here, parent) {
  lines_ = new LinePlot(selection, this);
  lines_->refill = [this] { refillLines(); };
  lines_->setPercent(true);
  lines_->setCaption("tokens that change experts");
  lines_->setAtLeastShown(0, 0.001);
  layers_ = new TimeHeatMap(selection, this);
  layers_->refill = [this] { refillLayers(); };
  layers_->setHeld(true);
  layers_->setWeights(sequentialWeights());
  layers_->figure = [this](int row, std::int64_t step) -> std::optional<FigureTarget> {
    const History* history = selection_->history();
    if (!history || row < 0 || row >= std::ssize(history->info().moe_layers)) return std::nullopt;
    return FigureTarget{.key = "flip_rate", .layer = history->info().moe_layers[row], .step = step};
  };
  layers_->describe = [this](int row, std::int64_t step) { return describe(row, step); };
  layers_->fetch = [this](StepRange range, int bins) {
    const auto& layers = shown()->info().moe_layers;
    std::vector<std::uint8_t> codes(layers.size() * bins, kNoDataCode);
    for (std::size_t row = 0; row < layers.size(); ++row) {
      const auto slices = shown()->series(shownMetric(), layers[row], range, bins);
      for (std::size_t bin = 0; bin < slices.size(); ++bin)
        if (slices[bin].finite > 0)
          codes[bin * layers.size() + row] = scaleCode(logPosition(slices[bin].max, kLowestShare));
    }
    return codes;
  };
  connect(layers_, &TimeHeatMap::rowClicked, this,
          [this](int row) { selection_->setLayer(shown()->info().moe_layers[row]); });
  margins_ = new HalfOctavePlot(this);
  margins_->setAccessibleName("Flips by margin");
  margins_->refill = [this] { refillMargins(); };
  followSelection(margins_);

  by_layer_ = makeToggle(
      "by layer",
      "Flips in each layer of one run (the active run; run B while A is active), instead of the means of all runs");
  connect(by_layer_, &QToolButton::toggled, this, &RoutingFlipsPanel::showLayers);
  addOption(by_layer_);
  by_rounding_ = makeToggle("by rounding",
                            "Compares with an FP32 pass on the run's own weights instead of run A: the effect of its "
                            "number formats on the routing. Run A has other weights after the first step, so flips "
                            "against it measure how far the runs have drifted apart");
  connect(by_rounding_, &QToolButton::toggled, this, &RoutingFlipsPanel::showRounding);
  connect(by_rounding_, &QToolButton::clicked, this, [this] { chosen_ = true; });
  connect(selection_, &Selection::dataChanged, this, &RoutingFlipsPanel::chooseReference);
  addOption(by_rounding_);
  in_router_ = makeToggle("in the router",
                          "Changes in the active run if only the operands, the stored logits, the stored biases or the "
                          "counts of its routers are rounded to BF16, each on the same inputs and weights");
  connect(in_router_, &QToolButton::toggled, this, &RoutingFlipsPanel::showRouter);
  connect(in_router_, &QToolButton::clicked, this, [this] { chosen_ = true; });
  addOption(in_router_);

  pages_ = new QStackedWidget(this);
  router_ = new RouterRoundingView(selection, this);
  auto* body = new QWidget(pages_);
  auto* row = plainRow(body);
  stack_ = new QStackedWidget(body);
  stack_->addWidget(lines_);
  stack_->addWidget(layers_);
  row->addWidget(stack_, 1);
  row->addWidget(margins_, 1);
  pages_->addWidget(body);
  pages_->addWidget(router_);
  showAnswers();
  addBody(pages_);
  showRounding(false);
  keepState("by_layer", by_layer_);
  keepState(
      "by_rounding", [this] { return chosen_ ? QVariant(rounding()) : QVariant(); },
      [this](const QVariant& state) {
        chosen_ = state.isValid();
        showRounding(state.toBool());
        chooseReference();
      });
  keepState("in_router", in_router_);
}

// Shows the flips by rounding if one of the runs has some, and else those against run A, unless the user has chosen.
// Flips against A also contain the drift of the weights, but look like an effect of the format alone.
void RoutingFlipsPanel::chooseReference() {
  if (chosen_ || inRouter()) return;
  const bool measured = std::ranges::any_of(selection_->histories(), [](const auto& history) {
    const auto frame = history->steps().empty() ? nullptr : history->gradient_frame_at(history->steps().last);
    return frame && !frame->rounding_flips.empty();
  });
  if (measured != rounding()) showRounding(measured);
}

std::vector<RoutingFlipsPanel::Rate> RoutingFlipsPanel::rates() const {
  std::vector<Rate> rates;
  for (int run = rounding() ? 0 : 1; run < to_int(selection_->histories().size()); ++run) {
    const History& history = *selection_->histories()[run];
    const auto frame =
        rounding() ? history.gradient_frame_at(selection_->step()) : history.flip_frame_at(selection_->step());
    if (!frame || flipsOf(*frame).empty()) continue;
    double sum = 0;
    for (const FlipFrame& flips : flipsOf(*frame)) sum += flips.flip_rate;
    rates.push_back({run, frame->step, sum / flipsOf(*frame).size()});
  }
  return rates;
}

// The answer is about the active run, while A is active about the run with the most flips, and about a noise twin only
// if there is no other run.
Panel::Answer RoutingFlipsPanel::answer() const {
  if (inRouter()) return {{}, router_->answers()};
  if (isForced())
    return {{}, {QString("Balance is forced: no token can change experts"), QString("Balance is forced")}};
  const std::vector<Rate> all = rates();
  const int active = selection_->run();
  const auto less = [this, active](const Rate& a, const Rate& b) {
    if (active > 0 && (a.run == active) != (b.run == active)) return b.run == active;
    const bool twin_a = selection_->isNoiseTwin(a.run), twin_b = selection_->isNoiseTwin(b.run);
    return twin_a == twin_b ? a.share < b.share : twin_a;
  };
  const auto highest = std::ranges::max_element(all, less);
  if (highest == all.end()) return {};
  const QString letter = runLetter(*selection_, highest->run);
  const QString share = QString("%1: %2 of the tokens").arg(letter, formatPercent(highest->share));
  if (rounding() && highest->share > 0) return {{}, {QString("%1 change experts").arg(share), share}};
  if (rounding())
    return {{},
            {QString("%1: rounding sends no token to other experts").arg(letter),
             QString("%1: no token changes experts").arg(letter)}};
  if (highest->share == 0)
    return {{},
            {QString("%1: every token goes to the same experts as in A").arg(letter) + commonText(),
             QString("%1: the same experts as in A").arg(letter)}};
  const QString other = QString("%1 have other experts than in A").arg(share);
  return {{}, {other + reasonText(*highest) + commonText(), other + reasonText(*highest), other, share}};
}

// Names the settings or drifted weights as the cause, with the noise twin's share for comparison.
QString RoutingFlipsPanel::reasonText(const Rate& rate) const {
  const auto& histories = selection_->histories();
  if (rate.step < kFirstJudged || run_origin(histories.front()->info()) == RunOrigin::checkpoint) return {};
  const bool drifted =
      selection_->isNoiseTwin(rate.run) || !hasWeightsOf(*histories.front(), *histories[rate.run], rate.step);
  if (!drifted) return QString("; the weights still equal those of A, so the settings cause it");
  const std::vector<Rate> all = rates();
  const auto twin = std::ranges::find_if(all, [this](const Rate& rate) { return selection_->isNoiseTwin(rate.run); });
  if (twin == all.end() || twin->run == rate.run) return QString("; the weights of the runs differ too");
  return QString("; noise twin %1: %2").arg(runLetter(*selection_, twin->run), formatPercent(twin->share));
}

// ". Experts in common with A: B 97.2 % (others from layer 2 on)".
QString RoutingFlipsPanel::commonText() const {
  QStringList overlaps;
  for (const Rate& rate : rates()) {
    const History& history = *selection_->histories()[rate.run];
    const RoutingOverlap routing = routing_overlap(history, rate.step);
    const QString letter = runLetter(*selection_, rate.run);
    if (routing.replayed)
      overlaps << QString("%1 all, replayed").arg(letter);
    else if (routing.first_differing_layer >= 0 && !is_missing(routing.overlap))
      overlaps << QString("%1 %2 (others from layer %3 on)")
                      .arg(letter, formatPercent(routing.overlap))
                      .arg(routing.first_differing_layer);
  }
  return overlaps.isEmpty() ? QString()
                            : QString(". Experts in common with A: %1").arg(overlaps.join(QStringLiteral(", ")));
}

// Shows the margins beside the curves only if the panel is wide.
void RoutingFlipsPanel::resizeEvent(QResizeEvent* event) {
  Panel::resizeEvent(event);
  const bool wide = width() >= withType(kMinWidthOfTwoPlots, fontMetrics());
  margins_->setVisible(wide);
  router_->showMargins(wide);
}

void RoutingFlipsPanel::showLayers(bool layers) {
  stack_->setCurrentWidget(layers ? static_cast<QWidget*>(layers_) : lines_);
  router_->showLayers(layers);
}

void RoutingFlipsPanel::showRouter(bool router) {
  in_router_->setChecked(router);
  if (router) by_rounding_->setChecked(false);
  pages_->setCurrentIndex(router ? 1 : 0);
  update();
}

void RoutingFlipsPanel::showRounding(bool rounding) {
  by_rounding_->setChecked(rounding);
  if (rounding) showRouter(false);
  lines_->setCaption(rounding ? QString("tokens that change experts") : QString("tokens with other experts than in A"));
  const QString reference = rounding ? QString("FP32") : QString("run A");
  margins_->setTexts(
      {.value = "margin",
       .counted = "choices of all layers",
       .caption = QString("margin in %1: score of the last chosen expert minus the next, log").arg(reference),
       .in_short = QString("margin in %1, log").arg(reference),
       .back = "all",
       .front = "flips"});
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{lines_, layers_, margins_}) plot->markDirty();
}

int RoutingFlipsPanel::shownRun() const {
  if (rounding() && selection_->histories().size() == 1) return 0;
  return comparedRun(*selection_);
}

const History* RoutingFlipsPanel::shown() const {
  const int run = shownRun();
  return run < 0 ? nullptr : selection_->histories()[run].get();
}

std::shared_ptr<const TelemetryFrame> RoutingFlipsPanel::frameAt(std::int64_t step) const {
  if (!shown()) return nullptr;
  auto frame = rounding() ? shown()->gradient_frame_at(step) : shown()->flip_frame_at(step);
  return frame && !flipsOf(*frame).empty() ? frame : nullptr;
}

const std::vector<FlipFrame>& RoutingFlipsPanel::flipsOf(const TelemetryFrame& frame) const {
  return rounding() ? frame.rounding_flips : frame.flips;
}

QString RoutingFlipsPanel::whyNothing() const {
  if (!selection_->history()) return noDataYetNotice(*selection_);
  if (!shown()) return nothingToCompareNotice();
  if (shown()->steps().empty()) return noDataYetNotice(*selection_);
  if (isForced())
    return QString(
        "Each token gets its experts in turn, whatever its scores are (forced balance). Routing flips need a "
        "comparison "
        "without it");
  if (frameAt(shown()->steps().last)) return {};
  if (shown()->info().config_toml.empty())
    return notInLogNotice(shown()->info(), rounding() ? QString("a pass in FP32") : QString("routing token by token"));
  if (rounding())
    return QString(
        "No step has been compared with FP32 yet: \"Measure\" in the panel Gradient error, or "
        "telemetry.gradient_every, sets how often steps are compared");
  return QString(
      "No routing has been compared yet, or it cannot be compared: the runs differ in the number of experts or in "
      "top_k, or telemetry.flips_every is 0");
}

void RoutingFlipsPanel::refillLines() {
  if (lines_->showsNotice(whyNothing())) return;
  std::vector<LineSeries> series;
  for (int run = rounding() ? 0 : 1; run < to_int(selection_->histories().size()); ++run)
    series.push_back({selection_->histories()[run], shownMetric(), kWholeRun, runLabel(*selection_, run),
                      runColor(*selection_, run), 0});
  lines_->setSeries(std::move(series));
}

void RoutingFlipsPanel::refillLayers() {
  if (layers_->showsNotice(whyNothing())) return;
  const auto& layers = shown()->info().moe_layers;
  layers_->setLegend(shareLegend(isDark(palette()), "flipped"));
  layers_->setRowAxis(ticksOf(layers), QString("layer, %1").arg(runLabel(*selection_, shownRun())), false);
  layers_->setSource(QStringLiteral("%1").arg(reinterpret_cast<quintptr>(shown()) + rounding()), to_int(layers.size()));
  layers_->setCurrentRow(index_in(layers, selection_->layer()));
}

QString RoutingFlipsPanel::whyNoMargins() const {
  if (shown() && shown()->info().config_toml.empty())
    return notInLogNotice(shown()->info(), "margins of flipped choices");
  if (whyNothing().isEmpty()) return QString("Not compared yet at this step");
  return rounding() ? QString("Margins of the flipped choices: drawn after the first pass in FP32")
                    : QString("Margins of the flipped choices: drawn after the first compared step");
}

void RoutingFlipsPanel::refillMargins() {
  const auto current = whyNothing().isEmpty() ? frameAt(selection_->step()) : nullptr;
  MarginCounts counts;
  for (const FlipFrame& flips : current ? flipsOf(*current) : std::vector<FlipFrame>{}) counts.add(flips);
  const bool any = counts.tokens != HalfOctaves{};
  margins_->setNotice(any ? QString() : whyNoMargins());
  if (!any) return;
  margins_->setHistograms(counts.tokens, counts.flipped, runColor(*selection_, shownRun()));
}

QString RoutingFlipsPanel::status() const {
  if (inRouter())
    return router_->shownStep() < 0
               ? QString()
               : QString("in the router of %1, %2")
                     .arg(runLabel(*selection_, selection_->run()), timeStatus(router_->shownStep(), false));
  const auto current = frameAt(selection_->step());
  if (!current) return {};
  return (rounding() ? QString("by rounding, %1") : QString("against A, %1")).arg(timeStatus(current->step, false));
}

QStringList RoutingFlipsPanel::describe(int row, std::int64_t step) const {
  const int layer = shown()->info().moe_layers[row];
  const auto at = frameAt(step);
  if (!at) return {};
  return {
      QString("%1 %2, layer %3").arg(selection_->stepWord(), formatCount(at->step)).arg(layer),
      QString("%1 of tokens have other experts").arg(formatPercent(shown()->value_at(shownMetric(), layer, at->step)))};
}

ValueTable RoutingFlipsPanel::table() const {
  if (inRouter()) return router_->table();
  ValueTable table({"run", "reference", "step", "layer", "flip rate [share]", "overlap [share]", "margin from",
                    "margin to", "tokens", "flipped tokens"});
  for (std::size_t run = rounding() ? 0 : 1; run < selection_->histories().size(); ++run) {
    const auto& history = *selection_->histories()[run];
    const auto current =
        rounding() ? history.gradient_frame_at(selection_->step()) : history.flip_frame_at(selection_->step());
    if (!current) continue;
    const std::string name = runLabel(*selection_, to_int(run)).toStdString();
    const std::string reference = rounding() ? "FP32 on the same weights" : "run A";
    for (const FlipFrame& flips : flipsOf(*current)) {
      for (int bin = 0; bin < kHalfOctaves; ++bin) {
        const std::size_t i = bin;
        if (flips.margin_tokens[i] == 0) continue;
        table.add(name, reference, current->step, flips.layer, flips.flip_rate, flips.overlap, half_octave_edge(bin),
                  half_octave_edge(bin + 1), flips.margin_tokens[i], flips.margin_flipped[i]);
      }
    }
  }
  return table;
}

}  // namespace moescope
