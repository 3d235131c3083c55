#include "widgets/compare/router_rounding_view.h"

#include <QPainter>
#include <algorithm>
#include <array>

#include "widgets/look/layouts.h"
#include "widgets/panel/panel.h"
#include "widgets/selection/compared_runs.h"

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

LegendScale changedLegend(bool dark) {
  return {.lut = viridisLut(dark),
          .low = QStringLiteral("\u2264 %1").arg(formatPercent(kLowestShare)),
          .high = formatPercent(1),
          .caption = QStringLiteral("changed")};
}

const RouterRoundingFrame* routerRow(const TelemetryFrame& frame, int layer, RouterRounding rounding) {
  const auto found = std::ranges::find_if(frame.router_roundings, [&](const RouterRoundingFrame& row) {
    return row.layer == layer && row.rounding == rounding;
  });
  return found == frame.router_roundings.end() ? nullptr : &*found;
}

// Returns the mean over the layers; NaN if no layer has this rounding.
double meanShare(const TelemetryFrame& frame, RouterRounding rounding) {
  double sum = 0;
  int layers = 0;
  for (const RouterRoundingFrame& row : frame.router_roundings) {
    if (row.rounding != rounding) continue;
    sum += row.changed;
    ++layers;
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
  const RouterRoundingFrame* worst = nullptr;
  for (const RouterRoundingFrame& row : frame.router_roundings)
    if (row.rounding == rounding && (!worst || row.changed > worst->changed)) worst = &row;
  return *worst;
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
  lines_->setNotice(whyNothing());
  if (!lines_->notice().isEmpty()) return;
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
  matrix_->setLegend(changedLegend(isDark(palette())));
  matrix_->setRowAxis(ticksOf(layers_), QString("layer, %1").arg(runLetter(*selection_, selection_->run())));
  matrix_->setColumnAxis(ticksOf(columns), {});
  matrix_->setCurrent(index_in(layers_, selection_->layer()), chosen_);
}

void RouterRoundingView::refillMargins() {
  const auto current = whyNothing().isEmpty() ? frame() : nullptr;
  if (!current)
    return margins_->setNotice(whyNothing().isEmpty() ? QString("Not measured yet at this step") : QString(' '));
  const RouterRounding rounding = shownRounding();
  HalfOctaves tokens{}, flipped{};
  for (const RouterRoundingFrame& row : current->router_roundings) {
    if (row.rounding != rounding) continue;
    for (std::size_t bin = 0; bin < tokens.size(); ++bin) {
      tokens[bin] += row.margin_tokens[bin];
      flipped[bin] += row.margin_flipped[bin];
    }
  }
  if (std::ranges::all_of(tokens, [](std::uint32_t n) { return n == 0; }))
    return margins_->setNotice("Rounded counts change the biases after the step, but no choice in this step");
  margins_->setNotice({});
  const auto source = std::ranges::find(kRoundingSources, rounding, &RoundingSource::rounding);
  margins_->setTexts({.value = "margin",
                      .counted = "tokens",
                      .caption = "margin in FP32: score of the last chosen expert minus the next, log",
                      .in_short = "margin in FP32, log",
                      .back = "all",
                      .front = QString("changed by %1").arg(QString(source->name))});
  margins_->setHistograms(tokens, flipped, seriesOf(source - kRoundingSources.begin()));
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

}  // namespace moescope
