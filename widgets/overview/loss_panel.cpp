#include "widgets/overview/loss_panel.h"

#include <algorithm>
#include <array>
#include <cmath>

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
                               Metric::max_logit};

// The slider is even in the length of the average's memory, 1 / (1 - factor): 0, then up to 0.999.
constexpr int kSliderSteps = 60;
double factorAt(int position) {
  return position == 0 ? 0 : 1 - std::pow(10.0, -3.0 * position / kSliderSteps);
}
int positionOf(double factor) {
  return static_cast<int>(std::lround(-std::log10(1 - std::clamp(factor, 0.0, 0.999)) * kSliderSteps / 3));
}

// A NaN is a value, too.
bool hasAny(const History& run, Metric metric) {
  const StepRange steps = run.steps();
  if (steps.empty()) return false;
  const PyramidBin all = run.series(metric, kWholeRun, steps, 1).front();
  return all.finite > 0 || all.non_finite > 0;
}

}  // namespace

LossPanel::LossPanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("Loss"), Provenance::measured_here, parent) {
  plot_ = new LinePlot(selection, this);
  plot_->refill = [this] { refill(); };

  metric_ = new QComboBox(this);
  metric_->setAccessibleName(tr("Metric"));
  for (const Metric metric : kShown) metric_->addItem(metricName(metric));
  metric_->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  connect(metric_, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);

  smoothing_ = new QSlider(Qt::Horizontal, this);
  smoothing_->setRange(0, kSliderSteps);
  smoothing_->setFixedWidth(56);
  smoothing_->setAccessibleName(tr("Smoothing"));
  smoothing_->setToolTip(tr("Smoothing: factor of the exponential moving average, computed on every step"));
  connect(smoothing_, &QSlider::valueChanged, plot_, &PlotFrame::markDirty);
  smoothing_->setValue(positionOf(0.9));

  const auto toggle = [this](const QString& text, const QString& tip) {
    auto* button = new QToolButton(this);
    button->setText(text);
    button->setToolTip(tip);
    button->setAccessibleName(tip);
    button->setCheckable(true);
    return button;
  };
  log_values_ = toggle(tr("log y"), tr("Logarithmic value axis"));
  log_steps_ = toggle(tr("log x"), tr("Logarithmic step axis"));
  connect(log_values_, &QToolButton::toggled, plot_, &LinePlot::setLogValues);
  connect(log_steps_, &QToolButton::toggled, plot_, &TimeAxisPlot::setLogSteps);

  addControl(metric_);
  addControl(smoothing_);
  addControl(log_values_);
  addControl(log_steps_);
  addBody(plot_);
}

Metric LossPanel::shownMetric() const {
  return kShown[std::max(0, metric_->currentIndex())];
}

void LossPanel::setMetric(Metric metric) {
  const auto place = std::ranges::find(kShown, metric);
  if (place != kShown.end()) metric_->setCurrentIndex(static_cast<int>(place - kShown.begin()));
}

double LossPanel::smoothing() const {
  return factorAt(smoothing_->value());
}

void LossPanel::setSmoothing(double factor) {
  smoothing_->setValue(positionOf(factor));
}

QString LossPanel::status() const {
  return timeStatus(selection_->step(), false);
}

void LossPanel::refill() {
  const History* history = selection_->history();
  if (!history) return plot_->setNotice(noRunNotice());
  if (history->steps().empty()) return plot_->setNotice(noDataYetNotice());
  const auto& histories = selection_->histories();
  if (std::ranges::none_of(histories, [this](const auto& run) { return hasAny(*run, shownMetric()); }))
    return plot_->setNotice(history->info().config_toml.empty()
                                ? notInLogNotice(history->info(), metricName(shownMetric()))
                                : tr("%1: no value yet").arg(metricName(shownMetric())));
  plot_->setNotice({});
  std::vector<LineSeries> series;
  for (std::size_t run = 0; run < histories.size(); ++run) {
    const QString name = histories.size() > 1 ? runLabel(*selection_, static_cast<int>(run)) : metric_->currentText();
    series.push_back({histories[run], shownMetric(), kWholeRun, name, static_cast<int>(run), smoothing()});
  }
  plot_->setCaption(metricCaption(shownMetric()));
  plot_->setExactAtInfinity(shownMetric() == Metric::gradient_snr_db);
  plot_->setSeries(std::move(series));
}

QString LossPanel::csv() const {
  plot_->refill();  // the table is of now, whether that was painted or not
  return plot_->csv();
}

QString LossPanel::explain() const {
  return tr("<p><b>A figure of the whole run over steps.</b> The faint curve is every step, or the range of all steps "
            "that share a pixel; the strong one is their exponential moving average (EMA), computed on every step, not "
            "on the drawn points. NaN and Inf break the curve and are marked.</p>") +
         metricCard(metric_info(shownMetric()));
}

QVariantMap LossPanel::saveState() const {
  return {{QStringLiteral("smoothing"), smoothing()},
          {QStringLiteral("metric"), metric_->currentIndex()},
          {QStringLiteral("log_values"), log_values_->isChecked()},
          {QStringLiteral("log_steps"), log_steps_->isChecked()}};
}

void LossPanel::restoreState(const QVariantMap& state) {
  setSmoothing(state.value(QStringLiteral("smoothing"), smoothing()).toDouble());
  metric_->setCurrentIndex(std::clamp(state.value(QStringLiteral("metric")).toInt(), 0, metric_->count() - 1));
  log_values_->setChecked(state.value(QStringLiteral("log_values")).toBool());
  log_steps_->setChecked(state.value(QStringLiteral("log_steps")).toBool());
}

}  // namespace moescope
