#include "widgets/compare/gradient_error_panel.h"

#include <QPainter>
#include <algorithm>
#include <array>
#include <cmath>

#include "core/findings/comparison/comparison.h"
#include "core/findings/comparison/operand_sqnr.h"
#include "widgets/look/counted_text.h"
#include "widgets/panel/measured_experts.h"
#include "widgets/panel/metric_text.h"

namespace moescope {
namespace {

constexpr int kCadence = 20;  // interval in steps that the button requests
constexpr double kHighestSqnrDb = 60;
constexpr double kMaxLostDb = 20, kMaxCosine = 0.1;  // ends of the colour scale of differences

// 1 - cosine spans decades: 0.9 is bad, 0.99999 is perfect.
double cosinePosition(double cosine) {
  return std::clamp(-std::log10(std::max(1 - cosine, 1e-5)) / 5, 0.0, 1.0);
}

// Figures of the predictions. In the choice of figures they follow error and cosine, in this order.
struct PredictionFigure {
  Metric metric;
  const char* name;
};
constexpr int kGradientFigureChoices = 2;
constexpr std::array<PredictionFigure, 5> kPredictionFigures = {{{Metric::fp32_kl, "KL"},
                                                                 {Metric::fp32_k1, "k1"},
                                                                 {Metric::fp32_k3, "k3"},
                                                                 {Metric::fp32_ratio_beyond_2, "ratio beyond 2"},
                                                                 {Metric::fp32_any_layer_flipped, "any layer"}}};

QStringList figureNames() {
  QStringList names{"error", "cosine"};
  for (const PredictionFigure& figure : kPredictionFigures) names << figure.name;
  return names;
}

// Returns the norm of the error divided by the norm of the gradient.
double errorOf(double snr_db) {
  return std::pow(10.0, -snr_db / 20);
}

// Converts bins of an SNR to bins of errors; an infinite SNR is an error of 0.
std::vector<PyramidBin> errorsOf(std::vector<PyramidBin> bins) {
  for (PyramidBin& bin : bins) {
    if (bin.finite == 0 && bin.non_finite > 0) {
      bin = {.min = 0, .max = 0, .sum = 0, .finite = bin.non_finite};
    } else if (bin.finite > 0) {
      const double low = errorOf(bin.max), high = errorOf(bin.min);
      bin.sum = bin.finite * errorOf(bin.mean());
      bin.min = static_cast<float>(low);
      bin.max = static_cast<float>(high);
    }
  }
  return bins;
}

}  // namespace

GradientErrorPanel::GradientErrorPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Gradient error", Provenance::measured_here, parent) {
  lines_ = new LinePlot(selection, this);
  lines_->refill = [this] { refillLines(); };
  matrix_ = new MatrixPlot(this);
  matrix_->refill = [this] { refillMatrix(); };
  matrix_->describe = [this](int row, int column) { return describe(row, column); };
  matrix_->figure = [this](int row, int column) {
    return FigureTarget{.key = shownMetric(),
                        .layer = layers_[row],
                        .other = static_cast<int>(columns_[column]),
                        .step = selection_->step()};
  };
  matrix_->decorate = [this](QPainter& painter) { paintNumbers(painter); };
  matrix_->setWeights(sequentialWeights());
  followSelection(matrix_);

  figure_ = makeChoice(
      figureNames(), "Figure",
      "Figures of the gradient: its error relative to the norm of the FP32 gradient (by layer: the signal-to-noise "
      "ratio in dB), or the cosine of the angle between the two gradients. Figures of the predictions, compared with "
      "those of the FP32 pass or of checkpoint A: KL divergence, its estimates k1 and k3, tokens whose probability "
      "differs by more than a factor of 2, and tokens with other experts in at least one layer");
  connect(figure_, &QComboBox::currentIndexChanged, this, &GradientErrorPanel::showFigure);
  connect(figure_, &QComboBox::currentIndexChanged, lines_, &PlotFrame::markDirty);
  connect(figure_, &QComboBox::currentIndexChanged, matrix_, &PlotFrame::markDirty);
  addControl(figure_);
  measure_ = new QPushButton(QString("Measure every %1 steps").arg(kCadence), this);
  measure_->setToolTip(
      "Compares the gradients of the open runs with those of FP32; each measurement costs an FP32 forward and "
      "backward pass");
  measure_->hide();
  connect(measure_, &QPushButton::clicked, this, [this] { emit cadenceRequested(kCadence); });
  connect(selection_, &Selection::dataChanged, this, &GradientErrorPanel::showButton);
  connect(selection_, &Selection::dataChanged, this, &GradientErrorPanel::followOrigin);

  by_layer_ = makeToggle("by layer", "Layers and groups of tensors of the active run at the cursor's step");
  connect(by_layer_, &QToolButton::toggled, this, &GradientErrorPanel::showFigure);
  addOption(by_layer_);
  minus_a_ = makeToggle("minus A", "Figures of the active run minus those of run A; for run A its own figures");
  minus_a_->hide();
  connect(minus_a_, &QToolButton::toggled, matrix_, &PlotFrame::markDirty);
  addOption(minus_a_);
  pinned_ = makeToggle("experts pinned",
                       "Compares with an FP32 pass in which every token uses the experts of the run: the error of the "
                       "arithmetic alone, without the effect of tokens that FP32 sends to other experts");
  connect(pinned_, &QToolButton::toggled, lines_, &PlotFrame::markDirty);
  connect(pinned_, &QToolButton::toggled, matrix_, &PlotFrame::markDirty);
  connect(pinned_, &QToolButton::toggled, this, qOverload<>(&QWidget::update));
  addOption(pinned_);
  stack_ = new QStackedWidget(this);
  stack_->addWidget(lines_);
  stack_->addWidget(matrix_);
  showAnswers();
  addBody(stack_);
  addBody(measure_, 0);
  keepState("figure", figure_);
  keepState("by_layer", by_layer_);
  keepState("minus_a", minus_a_);
  keepState("pinned", pinned_);
}

// Checkpoints have no gradients, so their predictions are compared with those of A.
void GradientErrorPanel::followOrigin() {
  const bool checkpoints = onTheSameTexts(*selection_);
  setHeading(checkpoints ? QString("Predictions against A") : title());
  by_layer_->setVisible(!checkpoints);
  pinned_->setVisible(!checkpoints);
  if (checkpoints && !showsPredictions()) figure_->setCurrentIndex(kGradientFigureChoices);
}

// "KL from A, nats/token".
QString GradientErrorPanel::predictionCaption() const {
  if (shownMetric() == Metric::fp32_kl && onTheSameTexts(*selection_)) return QString("KL from A, nats/token");
  return metricCaption(shownMetric());
}

bool GradientErrorPanel::showsPredictions() const {
  return figure_->currentIndex() >= kGradientFigureChoices;
}

Metric GradientErrorPanel::shownMetric() const {
  if (showsPredictions()) return kPredictionFigures[figure_->currentIndex() - kGradientFigureChoices].metric;
  if (pinned()) return cosine() ? Metric::pinned_gradient_cosine : Metric::pinned_gradient_snr_db;
  return cosine() ? Metric::gradient_cosine : Metric::gradient_snr_db;
}

// The answer is about the run whose layers are shown, else about that with the largest error, and about a noise twin
// only if there is no other run.
Panel::Answer GradientErrorPanel::answer() const {
  if (showsPredictions()) return answerOfPredictions();
  const Metric snr_metric = pinned() ? Metric::pinned_gradient_snr_db : Metric::gradient_snr_db;
  int worst = -1;
  double largest_error = 0;
  for (int run = 0; run < to_int(selection_->histories().size()); ++run) {
    if (by_layer_->isChecked() && run != selection_->run()) continue;
    const History& history = *selection_->histories()[run];
    const auto frame = history.gradient_frame_at(selection_->step());
    const float snr = frame ? history.value_at(snr_metric, kWholeRun, frame->step) : kNoValue;
    if (is_missing(snr)) continue;
    const double error = errorOf(snr);
    const bool twin = selection_->isNoiseTwin(run), worst_twin = worst >= 0 && selection_->isNoiseTwin(worst);
    if (worst >= 0 && (twin && !worst_twin ? true : twin == worst_twin && error <= largest_error)) continue;
    worst = run;
    largest_error = error;
  }
  if (worst < 0) return {};
  if (largest_error == 0)
    return {{},
            {pinned() ? QString("With the experts pinned, the gradients equal those of FP32 to the bit")
                      : QString("The gradients equal those of FP32 to the bit"),
             "No error"}};
  const QString share = runLetter(*selection_, worst) + QStringLiteral(": ") + formatPercent(largest_error);
  const bool is_ineffective = largest_error > errorOf(kMinGradientSnrDb);
  const QString effect = is_ineffective ? QString("; above 58 % steps are hardly effective") : QString();
  const QString all = QString("%1 of its norm is rounding error").arg(share);
  return {{}, {all + unpinnedError(worst) + effect, all + effect, all, share + " error"}};
}

// The answer is about the run whose predictions differ most.
Panel::Answer GradientErrorPanel::answerOfPredictions() const {
  if (onTheSameTexts(*selection_)) return answerOfCheckpoints();
  std::shared_ptr<const TelemetryFrame> worst;
  int worst_run = -1;
  for (int run = 0; run < to_int(selection_->histories().size()); ++run) {
    const auto frame = selection_->histories()[run]->gradient_frame_at(selection_->step());
    if (!frame || is_missing(frame->fp32_kl)) continue;
    if (worst && !(frame->fp32_kl > worst->fp32_kl)) continue;
    worst = frame;
    worst_run = run;
  }
  if (!worst) return {};
  const QString letter = runLetter(*selection_, worst_run);
  if (worst->fp32_kl == 0) return {{}, {"The predictions equal those of FP32", "Equal"}};
  const QString kl = QString("%1: KL from FP32 %2 nats").arg(letter, formatValue(worst->fp32_kl, 3));
  const QString ratio =
      QString("%1, ratio beyond 2 for %2 of the tokens").arg(kl, formatPercent(worst->fp32_ratio_beyond_2));
  if (is_missing(worst->fp32_any_layer_flipped)) return {{}, {ratio, kl}};
  return {{},
          {QString("%1, other experts in at least one layer for %2")
               .arg(ratio, formatPercent(worst->fp32_any_layer_flipped)),
           ratio, kl}};
}

// "B: KL from A 0.0123 ± 0.0021 nats/token, probability ratio beyond 2 for 1.2 % of the tokens, ...".
Panel::Answer GradientErrorPanel::answerOfCheckpoints() const {
  const QString letter = runLetter(*selection_, comparedRun(*selection_));
  const History& run = *selection_->histories()[comparedRun(*selection_)];
  const auto over_texts = [&](Metric metric) { return figure_of_texts(run, metric, kWholeRun); };
  const auto kl = over_texts(Metric::fp32_kl), ratio = over_texts(Metric::fp32_ratio_beyond_2),
             flipped = over_texts(Metric::fp32_any_layer_flipped);
  if (!ratio) return {};
  if (kl && kl->mean == 0) return {{}, {"The predictions equal those of A", "Equal"}};
  const QString first = kl ? QString("%1: KL from A %2 nats/token").arg(letter, intervalText(*kl))
                           : QString("%1: other vocabulary than A, no KL").arg(letter);
  const QString second =
      QString("%1, probability ratio beyond 2 for %2 of the tokens").arg(first, formatPercent(ratio->mean));
  if (!flipped) return {{}, {second, first}};
  return {{},
          {QString("%1, other experts in at least one layer for %2").arg(second, formatPercent(flipped->mean)), second,
           first}};
}

// Returns as text the error against the FP32 pass that chooses its own experts, if the experts are pinned; else
// nothing.
QString GradientErrorPanel::unpinnedError(int run) const {
  if (!pinned()) return {};
  const History& history = *selection_->histories()[run];
  const auto frame = history.gradient_frame_at(selection_->step());
  const double snr = history.value_at(Metric::gradient_snr_db, kWholeRun, frame->step);
  return QString(" with the experts pinned; %1 with those that FP32 chooses").arg(formatPercent(errorOf(snr)));
}

void GradientErrorPanel::setLive(bool live) {
  live_ = live;
  showButton();
}

bool GradientErrorPanel::measured() const {
  if (onTheSameTexts(*selection_))
    return figure_of_texts(*selection_->histories()[comparedRun(*selection_)], Metric::fp32_ratio_beyond_2, kWholeRun)
        .has_value();
  return std::ranges::any_of(selection_->histories(), [](const auto& history) {
    return !history->steps().empty() && history->gradient_frame_at(history->steps().last);
  });
}

void GradientErrorPanel::showFigure() {
  const bool layers = by_layer_->isChecked() && !showsPredictions();
  minus_a_->setVisible(layers);
  stack_->setCurrentWidget(layers ? static_cast<QWidget*>(matrix_) : lines_);
  update();
}

std::shared_ptr<const TelemetryFrame> GradientErrorPanel::frame() const {
  const History* history = selection_->history();
  return history ? history->gradient_frame_at(selection_->step()) : nullptr;
}

QString GradientErrorPanel::status() const {
  if (onTheSameTexts(*selection_))
    return QString("%1, 95 % interval over %2")
        .arg(runLabel(*selection_, comparedRun(*selection_)),
             countedText(selection_->histories().front()->count(), "batch of text"));
  const auto current = frame();
  if (!current) return {};
  if (showsPredictions()) return timeStatus(current->step, false);
  const QString when = timeStatus(current->step, false) + (pinned() ? QString(", experts pinned") : QString());
  const int interval =
      selection_->history()->settings_at(current->step)->value(&TelemetryConfig::gradient_every).value_or(0);
  if (!by_layer_->isChecked() && live_ && selection_->following() && interval > 0 &&
      is_before_its_end(*selection_->history()))
    return when + QString(", next at step %1").arg(formatCount(current->step - current->step % interval + interval));
  if (!by_layer_->isChecked()) return when;
  return QString("%1, layers of %2").arg(when, runLabel(*selection_, selection_->run())) +
         (minusA() ? QString(" minus A") : QString());
}

void GradientErrorPanel::refillLines() {
  if (!selection_->history()) return lines_->setNotice(noDataYetNotice(*selection_));
  if (onTheSameTexts(*selection_) && !measured())
    return lines_->setNotice(
        "These checkpoints were run one by one. \"Compare with\" in the dialog of a checkpoint runs both on each "
        "batch");
  if (!measured() && selection_->history()->info().config_toml.empty())
    return lines_->setNotice(notInLogNotice(selection_->history()->info(), "gradients of an FP32 pass"));
  if (!measured())
    return lines_->setNotice(
        live_
            ? QString("No gradient was compared with FP32 yet. \"Measure\" below does so every %1 steps.").arg(kCadence)
            : QString("No gradient was compared with FP32 in this run. In a new run, set \"Gradient error every\" in "
                      "Set-up (F2)."));
  lines_->setNotice({});
  std::vector<LineSeries> series;
  for (int run = onTheSameTexts(*selection_) ? 1 : 0; run < to_int(selection_->histories().size()); ++run)
    series.push_back(seriesOf(run));
  std::vector<ReferenceLine> references;
  if (!showsPredictions() && !cosine())
    references = {{errorOf(kMinGradientSnrDb), "ineffective: steps with an error above 58 %"}};
  lines_->setReferences(std::move(references));
  lines_->setPercent(showsPredictions() ? metricIsShare(shownMetric()) : !cosine());
  const QString gradient_caption = cosine() ? QString("cosine") : QString("of the norm");
  lines_->setCaption(showsPredictions() ? predictionCaption() : gradient_caption);
  lines_->setSeries(std::move(series));
}

LineSeries GradientErrorPanel::seriesOf(int run) const {
  const auto& history = selection_->histories()[run];
  LineSeries series{history,
                    shownMetric(),
                    kWholeRun,
                    selection_->histories().size() > 1 ? runLabel(*selection_, run) : QString("whole model"),
                    runColor(*selection_, run),
                    0};
  if (cosine() || showsPredictions()) return series;
  series.fetch = [history, metric = shownMetric()](StepRange range, int bins) {
    const auto measured = range.size() == 1 ? history->gradient_frame_at(range.last) : nullptr;
    if (measured) range = {measured->step, measured->step};  // the newest measurement, as in the answer
    return errorsOf(history->series(metric, kWholeRun, range, bins));
  };
  series.figure = [metric = shownMetric()](std::int64_t step) { return FigureTarget{.key = metric, .step = step}; };
  return series;
}

void GradientErrorPanel::refillMatrix() {
  frame_ = frame();
  frame_of_a_ = frame_ ? selection_->histories().front()->gradient_frame_at(frame_->step) : nullptr;
  if (!frame_) return matrix_->setNotice(measured() ? QString("Not measured yet at this step") : QString(QChar(u' ')));
  matrix_->setNotice({});
  layers_.clear();
  columns_.clear();
  bool has_tensors_outside = false;
  for (int group = 0; group < kNumGradientGroups; ++group)
    if (std::ranges::find(frame_->gradients, static_cast<GradientGroup>(group), &GradientFrame::group) !=
        frame_->gradients.end())
      columns_.push_back(static_cast<GradientGroup>(group));
  for (const GradientFrame& gradient : frame_->gradients) {
    has_tensors_outside |= gradient.layer < 0;
    if (gradient.layer >= 0 && (layers_.empty() || layers_.back() != gradient.layer)) layers_.push_back(gradient.layer);
  }
  if (has_tensors_outside) layers_.push_back(-1);
  std::vector<std::uint8_t> codes;
  QStringList rows, columns;
  for (int row = 0; row < std::ssize(layers_); ++row) {
    rows << (layers_[row] < 0 ? QString("model") : QString::number(layers_[row]));
    for (int column = 0; column < std::ssize(columns_); ++column) {
      const double value = shownValue(row, column);
      const double at = position(value);
      codes.push_back(minusA() ? divergingCode(at) : scaleCode(at));
    }
  }
  for (const GradientGroup group : columns_) columns << gradient_group_name(group);
  matrix_->setCells(to_int(layers_.size()), to_int(columns_.size()), std::move(codes));
  matrix_->setWeights(minusA() ? utilisationWeights() : sequentialWeights());
  matrix_->setLegend(legend());
  const QString run = runLetter(*selection_, selection_->run());
  matrix_->setRowAxis(ticksOf(rows), minusA() ? QString("layer, %1 minus A").arg(run) : QString("layer, %1").arg(run));
  matrix_->setColumnAxis(ticksOf(columns), "tensors");
}

const GradientFrame* GradientErrorPanel::cell(int row, int column) const {
  for (const GradientFrame& gradient : frame_->gradients)
    if (gradient.layer == layers_[row] && gradient.group == columns_[column]) return &gradient;
  return nullptr;
}

double GradientErrorPanel::figureOf(const GradientFrame& gradient) const {
  const float snr = pinned() ? gradient.pinned_snr_db : gradient.snr_db;
  if (!cosine()) return snr;
  if (pinned()) return gradient.pinned_cosine;
  return gradient.cosine;
}

double GradientErrorPanel::shownValue(int row, int column) const {
  const GradientFrame* at = frame_ ? cell(row, column) : nullptr;
  if (!at) return std::nan("");
  if (!minusA()) return figureOf(*at);
  if (!frame_of_a_ || frame_of_a_->step != frame_->step) return std::nan("");
  for (const GradientFrame& other : frame_of_a_->gradients)
    if (other.layer == at->layer && other.group == at->group)
      return figureOf(*at) == figureOf(other) ? 0 : figureOf(*at) - figureOf(other);  // 0 also if both are infinite
  return std::nan("");
}

double GradientErrorPanel::position(double value) const {
  if (std::isnan(value)) return value;
  if (minusA()) return std::clamp(0.5 + value / (2 * (cosine() ? kMaxCosine : kMaxLostDb)), 0.0, 1.0);
  return cosine() ? cosinePosition(value) : std::clamp(value / kHighestSqnrDb, 0.0, 1.0);
}

LegendScale GradientErrorPanel::legend() const {
  const bool dark = isDark(palette());
  const double limit = cosine() ? kMaxCosine : kMaxLostDb, high = cosine() ? 0.99999 : kHighestSqnrDb;
  return {.lut = minusA() ? utilisationLut(dark) : cividisLut(dark),
          .low = minusA() ? withMinus(QString::number(-limit)) : QStringLiteral("0"),
          .high = minusA() ? QStringLiteral("+%1").arg(limit) : QString::number(high),
          .caption = cosine() ? QString("cosine") : QString("SNR dB"),
          .first_code = minusA() ? 2 : 1};
}

QString GradientErrorPanel::valueText(double value) const {
  if (std::isnan(value)) return {};
  const QString sign = minusA() && value > 0 ? QStringLiteral("+") : QString();
  if (std::isinf(value)) return minusA() && value < 0 ? QString("A exact") : QString("exact");
  return sign + withMinus(QString::number(value, 'f', cosine() ? 4 : 1));
}

void GradientErrorPanel::paintNumbers(QPainter& painter) const {
  const QString widest = cosine() ? QStringLiteral("0.0000") : QStringLiteral("88.8");
  matrix_->paintTexts(painter, matrix_->sizeFor(widest),
                      [this](int row, int column) { return valueText(shownValue(row, column)); });
}

// Describes the difference from run A. It is infinite if one of the gradients equals the gradient in FP32.
QString GradientErrorPanel::againstA(double difference) const {
  if (std::isnan(difference)) return {};
  if (std::isinf(difference)) return difference > 0 ? QString("; exact here, not exact in A") : QString("; exact in A");
  return QString("; difference from A: %1").arg(valueText(difference));
}

QStringList GradientErrorPanel::describe(int row, int column) const {
  const GradientFrame* at = frame_ ? cell(row, column) : nullptr;
  if (!at) return {};
  const QString group = QLatin1String(gradient_group_name(at->group));
  return {at->layer < 0 ? group : QString("layer %1, %2").arg(at->layer).arg(group),
          QString("SNR %1 dB, cosine %2").arg(formatValue(at->snr_db, 3), formatValue(at->cosine, 6)) +
              (minusA() && !pinned() ? againstA(shownValue(row, column)) : QString()),
          QString("experts pinned: SNR %1 dB, cosine %2")
                  .arg(formatValue(at->pinned_snr_db, 3), formatValue(at->pinned_cosine, 6)) +
              (minusA() && pinned() ? againstA(shownValue(row, column)) : QString())};
}

// A row for each run; for checkpoints, for each batch of every run except A.
ValueTable GradientErrorPanel::tableOfPredictions() const {
  const bool checkpoints = onTheSameTexts(*selection_);
  std::vector<ValueColumn> columns{{"run"}, {selection_->stepWord().toStdString()}};
  for (const PredictionFigure& figure : kPredictionFigures) columns.push_back(columnOf(metric_info(figure.metric)));
  ValueTable table(std::move(columns));
  for (std::size_t run = checkpoints ? 1 : 0; run < selection_->histories().size(); ++run) {
    const History& history = *selection_->histories()[run];
    const auto frame = history.gradient_frame_at(selection_->step());
    std::vector<std::int64_t> steps;
    if (checkpoints) steps = history.steps_in(history.steps());
    if (!checkpoints && frame) steps = {frame->step};
    for (const std::int64_t step : steps) {
      std::vector<TableValue> row{runLabel(*selection_, to_int(run)).toStdString(), step};
      for (const PredictionFigure& figure : kPredictionFigures)
        row.push_back(unless_nan(history.value_at(figure.metric, kWholeRun, step)));
      table.add_row(row);
    }
  }
  return table;
}

ValueTable GradientErrorPanel::table() const {
  if (showsPredictions()) return tableOfPredictions();
  ValueTable table({"run", "step", "layer", "tensors", "SNR [dB]", "cosine", "SNR with experts pinned [dB]",
                    "cosine with experts pinned"});
  for (std::size_t run = 0; run < selection_->histories().size(); ++run) {
    const auto current = selection_->histories()[run]->gradient_frame_at(selection_->step());
    if (!current) continue;
    const std::string name = runLabel(*selection_, to_int(run)).toStdString();
    for (const GradientFrame& gradient : current->gradients)
      table.add(name, current->step, gradient.layer < 0 ? std::string("model") : std::to_string(gradient.layer),
                std::string(gradient_group_name(gradient.group)), gradient.snr_db, gradient.cosine,
                gradient.pinned_snr_db, gradient.pinned_cosine);
  }
  return table;
}

}  // namespace moescope
