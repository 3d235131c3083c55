#include "widgets/overview/loss_panel.h"

#include <algorithm>
#include <array>

#include "core/findings/comparison/same_settings.h"
#include "core/frame/frame.h"
#include "core/recording/history/loss_trend.h"
#include "widgets/panel/metric_text.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr std::array kShown = {Metric::ce_loss,
                               Metric::grad_norm,
                               Metric::lr,
                               Metric::aux_loss,
                               Metric::z_loss,
                               Metric::tokens_per_s,
                               Metric::step_ms,
                               Metric::max_vio,
                               Metric::max_vio_window,
                               Metric::margin,
                               Metric::mutual_information,
                               Metric::val_loss,
                               Metric::gradient_snr_db,
                               Metric::max_logit,
                               Metric::max_vio_microbatch,
                               Metric::dropped_fraction,
                               Metric::ranks_per_token,
                               Metric::rank_overload,
                               Metric::quant_sqnr_db,
                               Metric::max_vio_sequence};

// Steps of the mean that the menu offers.
constexpr std::array kMeanSteps = {0, 10, 30, 50, 100, 300};
constexpr int kTrendMean = 10;  // the longest mean beside which the answer has the trend
QString meanText(int steps) {
  return steps > 0 ? QString("mean of %1 steps").arg(steps) : QString("none");
}

}  // namespace

LossPanel::LossPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Loss", Provenance::measured_here, parent) {
  setProperty("shows_all_runs", true);
  plot_ = new LinePlot(selection, this);
  plot_->refill = [this] { refill(); };

  metric_ = makeChoice({}, "Metric");
  for (const Metric metric : kShown) metric_->addItem(metricName(metric));
  connect(metric_, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);
  connect(metric_, &QComboBox::currentIndexChanged, this, &LossPanel::showHeading);

  smoothing_ = makeChoice({}, "Smoothing");
  for (const int steps : kMeanSteps) smoothing_->addItem(meanText(steps), steps);
  setSmoothing(kTrendMean);
  connect(smoothing_, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);

  log_values_ = makeToggle("Logarithmic value axis", {});
  log_steps_ = makeToggle("Logarithmic step axis", {});
  addControl(metric_);
  for (QWidget* option : std::initializer_list<QWidget*>{smoothing_, log_values_, log_steps_}) addOption(option);
  connect(log_values_, &QToolButton::toggled, plot_, &LinePlot::setLogValues);
  connect(log_steps_, &QToolButton::toggled, plot_, &TimeAxisPlot::setLogSteps);
  showAnswers();
  addBody(plot_);
  keepState(
      "mean_steps", [this] { return smoothing(); }, [this](const QVariant& state) { setSmoothing(state.toInt()); });
  keepState("metric", metric_);
  keepState("log_values", log_values_);
  keepState("log_steps", log_steps_);
}

Metric LossPanel::shownMetric() const {
  return kShown[std::max(0, metric_->currentIndex())];
}

// Names the figure. Several runs side by side have headings of their own, with the names of the runs.
void LossPanel::showHeading() {
  setHeading(shownMetric() == Metric::ce_loss ? title() : metricName(shownMetric()));
}

void LossPanel::setMetric(Metric metric) {
  const auto place = std::ranges::find(kShown, metric);
  if (place != kShown.end()) metric_->setCurrentIndex(to_int(place - kShown.begin()));
}

// No mean for a checkpoint, whose batches of text have no order, for a gradient, which is measured at few steps, and
// for a log that has no two values in so many steps.
int LossPanel::shownSmoothing(const History& history) const {
  const bool is_sparse = history.steps().size() > smoothing() / 2 * history.count();
  if (run_origin(history.info()) == RunOrigin::checkpoint || is_sparse) return 0;
  return shownMetric() == Metric::gradient_snr_db ? 0 : smoothing();
}

QString LossPanel::status() const {
  return selection_->following() ? QString() : timeStatus(selection_->step(), false);
}

namespace {

bool isMeanOfLayers(const History& run, Metric metric) {
  return run.info().moe_layers.size() != 1 && metric_info(metric).run_value == RunValue::mean_of_layers;
}

// Returns the forms of the answer, from long to short.
QStringList answersOf(const LossTrend& trend) {
  const QString change = formatValue(trend.change, 2);
  const QString span = formatCount(trend.span);
  const auto forms = [&](const QString& word, const QString& moved) {
    return QStringList{word + moved + QString(" (medians of %1 losses, %2 steps apart)").arg(trend.window).arg(span),
                       word + moved + QString(" in %1 steps").arg(span), word + moved};
  };
  switch (trend.direction) {
    case LossTrend::too_early:
      return {QString("Too early to tell: %1 of %2 steps").arg(trend.steps).arg(kTrendLeastSteps), "Too early to tell"};
    case LossTrend::unlogged:
      return {QString("Cannot tell: no loss since step %1").arg(formatCount(trend.newest_step)),
              "Cannot tell: no loss"};
    case LossTrend::zero:
      return {"Cannot tell: the loss is exactly 0", "Cannot tell: it is 0"};
    case LossTrend::lost:
      return {"No: the loss is NaN or infinite", "No: NaN or Inf"};
    case LossTrend::falling:
      return forms("Yes: ", "down " + change);
    case LossTrend::rising:
      return forms("No: ", "up " + change);
    case LossTrend::flat:
      break;
  }
  return forms("Not measurably: ", "changed by less than " + change);
}

}  // namespace

Panel::Answer LossPanel::answer() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return {};
  const float value = history->value_at(shownMetric(), kWholeRun, selection_->step());
  if (is_missing(value)) return {};
  const auto textOf = [this](float v) { return metricIsShare(shownMetric()) ? formatPercent(v) : formatValue(v, 3); };
  const QString value_text = textOf(value);
  // The trend is that of the training loss. A checkpoint does not learn: its steps are batches of texts. A longer mean
  // lags behind the trend, so that the line has the mean.
  const bool is_alone = selection_->histories().size() == 1;
  const QString letter = runLetter(*selection_, selection_->run());
  const bool has_trend = shownMetric() == Metric::ce_loss && run_origin(history->info()) != RunOrigin::checkpoint;
  if (!has_trend || shownSmoothing(*history) > kTrendMean) {
    QString at = selection_->rangeText({selection_->step(), selection_->step()});
    if (shownMetric() == Metric::gradient_snr_db)  // measured at few steps; the value is of the newest of them
      at = QString::fromStdString(
          explain_figure(*history, {.key = Metric::gradient_snr_db, .step = selection_->step()}).place);
    if (isMeanOfLayers(*history, shownMetric())) at += ", mean of layers";
    at = is_alone ? at.left(1).toUpper() + at.mid(1) : letter + QStringLiteral(", ") + at;
    const QString text = QString("%1: %2").arg(at, value_text);
    const int smoothing = shownSmoothing(*history);
    if (smoothing <= 0) return {{}, {text, value_text}};
    const LineSeries curve{selection_->histories()[selection_->run()], shownMetric(), kWholeRun, {}, 0, smoothing};
    const QString smoothed = textOf(curve.smoothedAt(selection_->step()));
    return {{}, {text + QString(", mean of the last %1 steps %2").arg(smoothing).arg(smoothed), text, value_text}};
  }
  const LossTrend trend = loss_trend(*history, selection_->step());
  QStringList answers = answersOf(trend);
  const QString text_of_others = textOfOthers(*selection_, [this](const History& run) {
    return answersOf(loss_trend(run, selection_->shownStepOf(run))).back();
  });
  if (!text_of_others.isEmpty())  // the shortest form and, if there is room, the one with the number of steps
    for (const QString& text_of_run : {answers.back(), answers.value(1, answers.back())})
      answers.prepend(text_of_run + QStringLiteral("; ") + text_of_others);
  return {is_alone ? QString("Is it learning?") : QString("Is %1 learning?").arg(letter), answers,
          trend.direction == LossTrend::lost};
}

void LossPanel::refill() {
  const History* history = selection_->history();
  if (!hasSteps(plot_)) return;
  const auto& histories = selection_->histories();
  if (std::ranges::none_of(histories, [this](const auto& run) { return run->has_values(shownMetric()); }))
    return plot_->setNotice(history->info().config_toml.empty()
                                ? notInLogNotice(history->info(), metricName(shownMetric()))
                                : QString("%1: no value yet").arg(metricName(shownMetric())));
  plot_->setNotice({});
  std::vector<LineSeries> series;
  std::int64_t other_text = INT64_MAX;  // step from which on a run reads other text than run A
  for (std::size_t run = 0; run < histories.size(); ++run) {
    const QString name = histories.size() > 1 ? runLabel(*selection_, to_int(run)) : QString("training");
    series.push_back({histories[run], shownMetric(), kWholeRun, name, runColor(*selection_, to_int(run)),
                      shownSmoothing(*histories[run])});
    if (run == 0 || shownMetric() != Metric::ce_loss) continue;
    series.back().other_text_from = other_text_from(*histories[0], *histories[run]);
    other_text = std::min(other_text, series.back().other_text_from);
  }
  if (shownMetric() == Metric::ce_loss && histories.size() == 1 && histories[0]->has_values(Metric::val_loss)) {
    series.push_back({histories[0], Metric::val_loss, kWholeRun, "validation", 0, 0});
    series.back().points = true;
  }
  const QString note = other_text > histories[0]->steps().last
                           ? QString()
                           : QString("; different text from step %1: not comparable").arg(formatCount(other_text));
  plot_->setCaption(metricCaption(shownMetric()) + (isMeanOfLayers(*history, shownMetric()) ? ", mean of layers" : "") +
                    note);
  plot_->setPercent(metricIsShare(shownMetric()));
  plot_->setExactAtInfinity(shownMetric() == Metric::gradient_snr_db);
  plot_->setSeries(std::move(series));
}

ValueTable LossPanel::table() const {
  plot_->refill();  // fills in the present values, which may not have been painted yet
  return plot_->table();
}

QString LossPanel::explain() const {
  const MetricInfo& info = metric_info(shownMetric());
  if (!selection_->history()) return explanation() + metricCard(info);
  return explanation() + cardOf(explain_figure(*selection_->history(), {.key = info, .step = selection_->step()}));
}

}  // namespace moescope
