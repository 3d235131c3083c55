#include "widgets/text/routing_stability_panel.h"

#include <algorithm>
#include <functional>

#include "core/frame/specialisation.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/text/token_text_view.h"

namespace moescope {
namespace {

enum Against { kShortBefore, kHalfway, kFirst, kPinned };
constexpr std::size_t kMaxLines = 6;   // most lines; of more layers, only lowest, mean and highest are drawn
constexpr float kSettled = 0.9f;       // share of the tokens, or choices, from which on the routing is settled
constexpr int kReportedRoutings = 16;  // number of routings that the worker reads before it reports

// Returns a figure of the values that are not missing: PyramidBin's min, max or mean().
template <class Figure>
float figureOf(const std::vector<float>& values, Figure figure) {
  PyramidBin bin;
  for (const float value : values) bin.add(value);
  return bin.finite ? static_cast<float>(std::invoke(figure, bin)) : kNoValue;
}

}  // namespace

RoutingStabilityPanel::RoutingStabilityPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Routing stability", Provenance::measured_here, parent) {
  showAnswers();
  lines_ = new LinePlot(selection, this);
  lines_->setAccessibleName("Routing stability over steps");
  lines_->refill = [this] { refillLines(); };
  lines_->setPercent(true);
  lines_->setAtLeastShown(0, 1);
  lines_->note = [this](std::int64_t step) {
    const StabilityPoint* point = track_.at(step);
    return point ? QString("probe of step %1 against %2").arg(formatCount(point->step), formatCount(point->reference))
                 : QString("no earlier routing to compare with");
  };
  layers_ = new TimeHeatMap(selection, this);
  layers_->setAccessibleName("Routing stability by layer over steps");
  layers_->refill = [this] { refillLayers(); };
  layers_->setHeld(true);
  layers_->setWeights(sequentialWeights());
  layers_->describe = [this](int row, std::int64_t step) { return describeLayer(row, step); };
  layers_->figure = [this](int row, std::int64_t step) { return figure(track_.layers()[row], step); };
  connect(layers_, &TimeHeatMap::rowClicked, this, [this](int row) {
    if (row < std::ssize(track_.layers())) selection_->setLayer(track_.layers()[row]);
  });
  bars_ = new BandBars(this);
  bars_->setAccessibleName("Routing stability of all layers");
  bars_->refill = [this] { refillBars(); };
  bars_->describe = [this](int bar) { return describeLayer(bar, selection_->step()); };
  bars_->setFormatter([](double share) { return formatPercent(static_cast<float>(share)); });
  bars_->figure = [this](int row) { return figure(track_.layers()[row], selection_->step()); };
  connect(bars_, &BandBars::rowChosen, this, [this](int row) { selection_->setLayer(track_.layers()[row]); });
  followSelection(bars_);
  followSelection(lines_);

  stack_ = new QStackedWidget(this);
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{lines_, layers_, bars_}) stack_->addWidget(plot);
  view_ = makeChoice({"over steps", "by layer", "at this step"}, "View",
                     "over steps: a curve for each layer; with many layers the lowest, the mean and the highest\n"
                     "by layer: all layers over steps as a map\n"
                     "at this step: a bar for each layer at the cursor's step");
  connect(view_, &QComboBox::currentIndexChanged, stack_, &QStackedWidget::setCurrentIndex);
  figure_ = makeChoice({"tokens unchanged", "choices unchanged"}, "Compared figure",
                       "tokens unchanged: share of the probe's tokens that have exactly the same top-k experts\n"
                       "choices unchanged: share of the chosen experts that are the same, counted one by one; at least "
                       "the share of unchanged tokens");
  against_ = makeChoice(
      {"against 100+ steps before", "against half the steps", "against the first", "against this step"}, "Earlier step",
      "Earlier routing of the same probe text that each step is compared with. 100+ steps before: the newest one that\n"
      "is at least 100 steps older. The last choice keeps the step at "
      "which the cursor is now; choose it again to keep another one");
  for (QComboBox* choice : {figure_, against_})
    connect(choice, &QComboBox::currentIndexChanged, this, &RoutingStabilityPanel::markAll);
  connect(against_, &QComboBox::activated, this, [this](int index) {
    if (index != kPinned) return;
    pinned_ = selection_->step();
    against_->setItemText(kPinned, QString("against step %1").arg(formatCount(pinned_)));
    markAll();
  });
  for (QComboBox* choice : {view_, against_, figure_}) addControl(choice);
  addBody(stack_);
  keepState("view", view_);
  keepState("figure", figure_);
  keepState(
      "against", [this] { return std::min<int>(against_->currentIndex(), kFirst); },
      [this](const QVariant& state) { against_->setCurrentIndex(std::clamp(state.toInt(), 0, int{kFirst})); });
}

void RoutingStabilityPanel::markAll() {
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{lines_, layers_, bars_}) plot->markDirty();
  update();
}

RoutingStabilityPanel::HistoryPtr RoutingStabilityPanel::active() const {
  const auto& all = selection_->histories();
  return selection_->history() ? all[selection_->run()] : nullptr;
}

EarlierStep RoutingStabilityPanel::earlier() const {
  const int against = against_->currentIndex();
  if (against == kHalfway) return {EarlierStep::Kind::half_way, 0};
  if (against == kPinned) return {EarlierStep::Kind::at, std::max<std::int64_t>(0, pinned_)};
  if (against != kFirst) return {};
  const auto steps =
      selection_->history() ? selection_->history()->text_steps(TextKind::probe) : std::vector<std::int64_t>{};
  return {EarlierStep::Kind::at, steps.empty() ? 0 : steps.front()};
}

float RoutingStabilityPanel::baseline() const {
  const RunInfo& info = selection_->history()->info();
  return wholeSets() ? unchanged_baseline(info.top_k, info.n_experts) : stability_baseline(info.top_k, info.n_experts);
}

QString RoutingStabilityPanel::whyNoTrack() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return noDataYetNotice(*selection_);
  if (history->text_steps(TextKind::probe).empty()) return notInLogNotice(history->info(), "a routed probe text");
  if (!track_.points().empty()) return {};
  if (busy_ && track_.looked() < 0) return QString("Comparing the routings of the probe text");
  return QString(
             "No earlier routing to compare with yet. The probe text is routed every telemetry.texts_every steps; %1.")
      .arg(against_->currentIndex() == kShortBefore ? QString("a comparison needs a routing 100 steps earlier")
                                                    : QString("a comparison needs an earlier one"));
}

// Starts the worker if there are new data; earlier results are drawn until it reports.
void RoutingStabilityPanel::bringUpToDate() {
  const HistoryPtr history = active();
  if (!history || busy_) return;
  const EarlierStep chosen = earlier();
  if (track_of_ != history || track_.earlier() != chosen) {
    track_ = StabilityTrack(chosen);
    track_of_ = history;
    ++track_version_;
  }
  if (!track_.behind(*history)) return;
  busy_ = true;
  setProperty("busy", true);
  const auto updated = [history, track = track_](const std::stop_token&) mutable {
    track.update(*history, kReportedRoutings);
    return track;
  };
  worker_.compute(this, updated, [this, history](StabilityTrack track) { deliver(std::move(track), history); });
}

void RoutingStabilityPanel::deliver(StabilityTrack track, const HistoryPtr& history) {
  busy_ = false;
  setProperty("busy", false);
  if (history == active() && track.earlier() == earlier()) track_ = std::move(track);
  ++track_version_;
  markAll();  // continues if there is more
}

LineSeries RoutingStabilityPanel::series(const QString& label, int color,
                                         std::function<float(const StabilityPoint&)> value,
                                         std::function<int(const StabilityPoint&)> layer) const {
  LineSeries line{.history = active(), .label = label, .color = curveColor(*selection_, color)};
  line.fetch = [this, value](StepRange range, int bins) {
    std::vector<PyramidBin> slices(bins);
    if (range.size() == 1) {  // a single step has the newest value known at that step
      const StabilityPoint* point = track_.at(range.first);
      if (point && !is_missing(value(*point))) slices[0].add(value(*point));
      return slices;
    }
    for (auto point = std::ranges::lower_bound(track_.points(), range.first, {}, &StabilityPoint::step);
         point != track_.points().end() && point->step <= range.last; ++point)
      if (const float share = value(*point); !is_missing(share))
        slices[(point->step - range.first) * bins / range.size()].add(share);
    return slices;
  };
  line.figure = [this, layer](std::int64_t step) {
    const StabilityPoint* point = track_.at(step);
    return figure(point ? layer(*point) : kWholeRun, step);
  };
  return line;
}

void RoutingStabilityPanel::refillLines() {
  bringUpToDate();
  if (lines_->showsNotice(whyNoTrack())) return;
  const bool sets = wholeSets();
  const auto values = [sets](const StabilityPoint& p) -> const std::vector<float>& {
    return sets ? p.unchanged_L : p.shared_L;
  };
  const std::vector<int> layers = track_.layers();
  std::vector<LineSeries> all;
  for (std::size_t i = 0; i < layers.size() && layers.size() <= kMaxLines; ++i)
    all.push_back(series(
        QString("L%1").arg(layers[i]), to_int(i), [values, i](const StabilityPoint& p) { return values(p)[i]; },
        [layer = layers[i]](const StabilityPoint&) { return layer; }));
  const auto add = [&](const char* label, int color, auto figure) {
    const auto layer_with = [=](const StabilityPoint& p) {
      const auto found = std::ranges::find(values(p), figureOf(values(p), figure));
      return found == values(p).end() ? kWholeRun : layers[found - values(p).begin()];
    };
    all.push_back(series(
        label, color, [=](const StabilityPoint& p) { return figureOf(values(p), figure); }, layer_with));
  };
  if (all.empty()) {
    add("highest", 2, &PyramidBin::max);
    add("mean", 0, &PyramidBin::mean);
    add("lowest", 1, &PyramidBin::min);
  }
  lines_->setCaption(valueCaption());
  lines_->setReferences({{static_cast<double>(baseline()), QString("chance %1").arg(formatPercent(baseline()))}});
  lines_->setChosen(layers.size() <= kMaxLines ? std::max(0, index_in(layers, selection_->layer())) : 0);
  lines_->setSeries(std::move(all));
}

void RoutingStabilityPanel::refillLayers() {
  bringUpToDate();
  if (layers_->showsNotice(whyNoTrack())) return;
  layers_->fetch = [this](StepRange range, int bins) {
    const std::size_t rows = track_.layers().size();
    std::vector<PyramidBin> cells(rows * bins);
    for (auto point = std::ranges::lower_bound(track_.points(), range.first, {}, &StabilityPoint::step);
         point != track_.points().end() && point->step <= range.last; ++point) {
      const std::size_t bin = (point->step - range.first) * bins / range.size();
      for (std::size_t row = 0; row < rows; ++row)
        if (const float share = point->value(wholeSets(), row); !is_missing(share)) cells[bin * rows + row].add(share);
    }
    std::vector<std::uint8_t> codes;
    for (const PyramidBin& cell : cells) codes.push_back(cell.finite ? scaleCode(cell.mean()) : kNoDataCode);
    return codes;
  };
  const auto& layers = track_.layers();
  layers_->setLegend({.lut = viridisLut(isDark(palette())), .low = "0 %", .high = "100 %", .caption = "same"});
  layers_->setRowAxis(ticksOf(layers), "layer", false);
  layers_->setSource(QStringLiteral("%1:%2").arg(track_version_).arg(wholeSets()), to_int(layers.size()));
  layers_->setCurrentRow(index_in(layers, selection_->layer()));
}

void RoutingStabilityPanel::refillBars() {
  bringUpToDate();
  if (bars_->showsNotice(whyNoTrack())) return;
  const StabilityPoint* point = track_.at(selection_->step());
  if (!point) return bars_->setNotice("No earlier routing to compare with at this step: choose a later step");
  if (std::ranges::all_of(point->unchanged_L, [](float share) { return is_missing(share); }))
    return bars_->setNotice(
        QString("The probe text was different at step %1: choose a later step").arg(point->reference));
  std::vector<BandBars::Row> rows;
  const auto add = [&](const QString& name, float share, const BandBars::Part& look) {
    rows.push_back({name, {{is_missing(share) ? 0.0 : share, look.color, look.fill}}, NAN, NAN, formatPercent(share)});
  };
  for (std::size_t i = 0; i < track_.layers().size(); ++i) {
    const int layer = track_.layers()[i], color = layer == selection_->layer() ? BandBars::kStrong : BandBars::kPlain;
    add(QString("layer %1").arg(layer), point->value(wholeSets(), i), {.color = color});
  }
  add("by chance", baseline(), {.color = BandBars::kStrong, .fill = BandBars::Fill::outlined});
  bars_->setCaption(valueCaption());
  bars_->setRows(std::move(rows));
}

FigureTarget RoutingStabilityPanel::figure(int layer, std::int64_t step) const {
  const StabilityPoint* point = track_.at(step);
  return {.key = wholeSets() ? FigureKey("unchanged_choices") : FigureKey("routing_stability"),
          .layer = layer,
          .step = point ? point->step : step,
          .reference = point ? point->reference : -1};
}

FigureTarget RoutingStabilityPanel::target(const MetricInfo& info) const {
  FigureTarget target = figure(selection_->layer(), selection_->step());
  target.key = info;
  return target;
}

QStringList RoutingStabilityPanel::describeLayer(int row, std::int64_t step) const {
  const StabilityPoint* point = track_.at(step);
  if (!point || row >= std::ssize(track_.layers())) return {};
  if (is_missing(point->unchanged_L[row])) return {"not comparable: the probe text or top_k was different"};
  return readout({point->step, point->reference, std::int64_t{track_.layers()[row]}});
}

Panel::Answer RoutingStabilityPanel::answer() const {
  const StabilityPoint* point = selection_->history() ? track_.at(selection_->step()) : nullptr;
  if (!point) return {};
  const float share = figureOf(wholeSets() ? point->unchanged_L : point->shared_L, &PyramidBin::mean);
  if (is_missing(share)) return {};
  const QString what =
      (wholeSets() ? QString("%1 of the tokens keep their experts") : QString("%1 of the choices are unchanged"))
          .arg(formatPercent(share));
  const QString verdict_text = (share >= kSettled ? QString("Yes: ") : QString("No: ")) + what,
                against = QString(" since step %1").arg(formatCount(point->reference)),
                before = QString(", %1 before").arg(countedText(point->step - point->reference, "step")),
                chance = QString(" (by chance %1)").arg(formatPercent(baseline()));
  return {"Is the routing settled?",
          {verdict_text + against + before + chance, verdict_text + against + before, verdict_text + against,
           verdict_text}};
}

QString RoutingStabilityPanel::status() const {
  const StabilityPoint* point = selection_->history() ? track_.at(selection_->step()) : nullptr;
  if (!point) return {};
  std::int64_t step = point->step;
  return earlierText(*selection_, selection_->history()->text_at(TextKind::probe, step).get()) +
         QString("%1, against step %2").arg(timeStatus(point->step, false), formatCount(point->reference));
}

// Lists the values of the visible steps, or the values of the bars.
ValueTable RoutingStabilityPanel::table() const {
  ValueTable table({"step", "earlier step", "layer", "tokens that keep their experts [share]", "by chance [share]",
                    "unchanged choices [share]", "by chance [share]"});
  if (!selection_->history()) return table;
  const RunInfo& info = selection_->history()->info();
  const float chance_sets = unchanged_baseline(info.top_k, info.n_experts),
              chance_experts = stability_baseline(info.top_k, info.n_experts);
  const StabilityPoint* shown = track_.at(selection_->step());
  for (const StabilityPoint& point : track_.points()) {
    const bool in_view = view_->currentIndex() == at_the_step
                             ? &point == shown
                             : point.step >= selection_->range().first && point.step <= selection_->range().last;
    for (std::size_t i = 0; in_view && i < track_.layers().size(); ++i)
      table.add(point.step, point.reference, track_.layers()[i], point.unchanged_L[i], chance_sets, point.shared_L[i],
                chance_experts);
  }
  return table;
}

}  // namespace moescope
