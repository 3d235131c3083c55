#include "widgets/compare/loss_gap_panel.h"

#include <cmath>

#include "widgets/panel/metric_text.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

namespace {

// Lines are joined: those of a file are shorter than a card is wide.
QStringList paragraphs(const QString& text) {
  QStringList paragraphs;
  for (const QString& paragraph : text.split(QStringLiteral("\n\n"), Qt::SkipEmptyParts))
    paragraphs << paragraph.simplified();
  return paragraphs;
}

}  // namespace

LossGapPanel::LossGapPanel(Selection* selection, const ComparedRuns* runs, QWidget* parent)
    : Panel(selection, tr("Loss gap"), Provenance::measured_here, parent), runs_(runs) {
  plot_ = new GapPlot(selection, this);
  plot_->refill = [this] { refill(); };
  plot_->setCaption(tr("gap, nats/token"));
  connect(runs_, &ComparedRuns::changed, this, [this] {
    conclusion_->setToolTip(runs_->about().trimmed());
    plot_->markDirty();
  });

  epsilon_ = new QDoubleSpinBox(this);
  epsilon_->setDecimals(4);
  epsilon_->setRange(0, 10);
  epsilon_->setSingleStep(0.01);
  epsilon_->setStepType(QAbstractSpinBox::AdaptiveDecimalStepType);
  epsilon_->setValue(kGapEpsilon);
  epsilon_->setPrefix(tr("mark |gap| > "));
  epsilon_->setAccessibleName(tr("Epsilon"));
  epsilon_->setToolTip(tr("Marks the first step at which the losses of a run and of run A differ by more than this"));
  connect(epsilon_, &QDoubleSpinBox::valueChanged, plot_, &PlotFrame::markDirty);
  addControl(epsilon_);

  conclusion_ = new ConclusionLabel(this);
  addBody(conclusion_, 0);
  addBody(plot_);
}

QString LossGapPanel::status() const {
  return timeStatus(selection_->step(), false);
}

void LossGapPanel::refill() {
  const auto& histories = selection_->histories();
  QString words;
  if (histories.empty()) {
    plot_->setNotice(noRunNotice());
  } else if (histories.size() < 2) {
    plot_->setNotice(nothingToCompareNotice());
  } else if (selection_->range().empty()) {
    plot_->setNotice(noDataYetNotice());
  } else {
    plot_->setNotice({});
    gaps_.set(histories, runs_->sameSettings(*selection_));
    std::vector<GapSeries> series;
    for (int run = 1; run < static_cast<int>(histories.size()); ++run)
      series.push_back({run, runLabel(*selection_, run), run, gaps_.first_difference(run, epsilon())});
    plot_->setSeries(std::move(series), gaps_);
    words = conclude();
  }
  conclusion_->say(words);
}

QString LossGapPanel::conclude() const {
  const auto& histories = selection_->histories();
  QStringList lines;
  // No conclusion yet: says what to expect, if that is documented.
  const auto too_short = [&](int run) { return gaps_.conclusion(run).verdict == Verdict::too_short; };
  if (const QStringList about = paragraphs(runs_->about()); !about.isEmpty() && too_short(1))
    return tr("Too few steps to judge. ") + about.last().toHtmlEscaped();
  bool untold = false;
  for (int run = 1; run < static_cast<int>(histories.size()); ++run) {
    const bool twin = run < std::ssize(runs_->runs()) && runs_->runs()[run].noise_twin;
    // Drops "nano+mxfp8_rceil against nano: ", which the letter says as well.
    QString text = QString::fromStdString(gaps_.conclusion(run).text);
    const QString who = QString::fromStdString(histories[run]->info().name + " against " + histories[0]->info().name);
    if (text.startsWith(who)) text.replace(0, who.size(), runLabel(*selection_, run).mid(2) + tr(" against A"));
    // Once for all of them, not on every line.
    if (const auto cause = text.indexOf(QStringLiteral("; without a twin")); cause > 0 && histories.size() > 2)
      text.truncate(cause), untold = true;
    const HistoryPtr beginning = twin ? runs_->runs()[run].twin_until : nullptr;
    if (beginning)
      text = tr("%1: run A's settings up to step %2; until there it makes the band")
                 .arg(runLabel(*selection_, run).mid(2), formatCount(beginning->steps().last));
    else if (twin)
      text =
          histories[run]->info().config_toml.empty()
              ? tr("%1: run A's settings once more; it makes the band").arg(runLabel(*selection_, run).mid(2))
              : tr("%1: run A's settings with another seed; it makes the band").arg(runLabel(*selection_, run).mid(2));
    else if (const auto first = gaps_.first_difference(run, epsilon()))
      text += tr("; first step with |gap| > %1: %2").arg(epsilon()).arg(*first);
    lines << QStringLiteral("<b style='color:%1'>%2</b> %3")
                 .arg(seriesColor(run, isDark(palette())).name(), runLetter(run), text.toHtmlEscaped());
  }
  if (untold)
    lines << tr("Without a twin that differs only in seed it is not known whether that is more than noise (N).");
  return lines.join(QStringLiteral("<br>"));
}

QString LossGapPanel::csv() const {
  const auto& histories = selection_->histories();
  const StepRange range = selection_->range();
  QString text = QStringLiteral("step");
  std::vector<std::vector<PyramidBin>> raw;
  std::vector<std::vector<float>> columns;
  const int steps = static_cast<int>(range.size());
  for (int run = 1; run < static_cast<int>(histories.size()) && steps > 0; ++run) {
    const QString name = runLabel(*selection_, run);
    text += QLatin1Char(',') + csvField(tr("%1 minus A, cross-entropy [nats/token]").arg(name)) + QLatin1Char(',') +
            csvField(tr("%1 minus A, smoothed [nats/token]").arg(name));
    raw.push_back(gap_series(*histories[0], *histories[run], Metric::ce_loss, kWholeRun, range, steps));
    columns.push_back(smoothed_gap(*histories[0], *histories[run], Metric::ce_loss, kWholeRun, range, steps));
  }
  const std::vector<HistoryPtr> same = runs_->sameSettings(*selection_);
  std::vector<float> band;
  if (same.size() > 1 && steps > 0) {
    band = noise_band(same, Metric::ce_loss, kWholeRun, range, steps);
    text += QLatin1Char(',') + csvField(tr("noise band, half width [nats/token]"));
  }
  text += QLatin1Char('\n');
  const auto number = [](float value) { return std::isfinite(value) ? QString::number(value, 'g', 9) : QString(); };
  for (int i = 0; i < steps && !raw.empty(); ++i) {
    text += QString::number(range.first + i);
    for (std::size_t run = 0; run < raw.size(); ++run)
      text += QLatin1Char(',') + (raw[run][i].finite > 0 ? QString::number(raw[run][i].mean(), 'g', 9) : QString()) +
              QLatin1Char(',') + number(columns[run][i]);
    if (!band.empty()) text += QLatin1Char(',') + number(band[i]);
    text += QLatin1Char('\n');
  }
  return text;
}

QString LossGapPanel::explain() const {
  QString about;
  for (const QString& paragraph : paragraphs(runs_->about()))
    about += QStringLiteral("<p>%1</p>").arg(paragraph.toHtmlEscaped());
  if (!about.isEmpty()) about = tr("<p><b>This comparison.</b></p>") + about;
  return about +
         tr("<p><b>Loss of each run minus that of run A, at equal steps and on the same batches.</b> Faint: every "
            "step. Strong: exponential moving average over 50 steps. A pointer at the zero line marks the first step "
            "at which the losses differ by more than the set amount.</p><p><b>Seed-noise band.</b> Runs that differ "
            "only in their seed also differ in loss; a gap of that size is no evidence of anything. The grey band is "
            "+-%1 times the smoothed |gap| between run A and its noise twins, averaged over all pairs of them. One "
            "twin gives a rough band, two a better one. \"Compare with...\" adds a twin in one "
            "click.</p><p><b>Conclusion.</b> A run is reported as different when its smoothed gap stays outside the "
            "band for at least %2 steps.</p>")
             .arg(kBandFactor)
             .arg(kLastingSteps) +
         metricCards({"ce_loss"});
}

QVariantMap LossGapPanel::saveState() const {
  return {{QStringLiteral("epsilon"), epsilon()}};
}

void LossGapPanel::restoreState(const QVariantMap& state) {
  epsilon_->setValue(state.value(QStringLiteral("epsilon"), epsilon()).toDouble());
}

}  // namespace moescope
