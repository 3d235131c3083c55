#include "widgets/compare/loss_gap_panel.h"

#include <QTextDocument>
#include <QTimer>
#include <algorithm>
#include <cmath>

#include "widgets/panel/metric_text.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/duration_text.h"

namespace moescope {

namespace {

constexpr int kLowestPlot = 150;  // pixels, with its legend and axis

// Lines are joined: those of a file are shorter than a card is wide.
QStringList paragraphs(const QString& text) {
  QStringList paragraphs;
  for (const QString& paragraph : text.split(QStringLiteral("\n\n"), Qt::SkipEmptyParts))
    paragraphs << paragraph.simplified();
  return paragraphs;
}

// The first log that has no loss at all, as traces of routers have none; nullptr: each has.
const History* withoutLoss(const std::vector<std::shared_ptr<const History>>& histories) {
  const auto none = [](const std::shared_ptr<const History>& history) {
    return history->info().config_toml.empty() && !history->steps().empty() &&
           history->series(Metric::ce_loss, kWholeRun, history->steps(), 1).at(0).finite == 0;
  };
  const auto found = std::ranges::find_if(histories, none);
  return found == histories.end() ? nullptr : found->get();
}

}  // namespace

LossGapPanel::LossGapPanel(Selection* selection, const ComparedRuns* runs, QWidget* parent)
    : Panel(selection, tr("Loss gap"), Provenance::measured_here, parent), runs_(runs) {
  plot_ = new GapPlot(selection, this);
  plot_->refill = [this] { refill(); };
  plot_->setCaption(tr("gap, nats/token"));
  connect(runs_, &ComparedRuns::changed, plot_, &PlotFrame::markDirty);

  matters_ = new QDoubleSpinBox(this);
  matters_->setDecimals(3);
  matters_->setRange(0.001, 100);
  matters_->setStepType(QAbstractSpinBox::AdaptiveDecimalStepType);
  matters_->setValue(100 * kMatters);
  matters_->setPrefix(tr("matters: "));
  matters_->setSuffix(tr(" %"));
  matters_->setAccessibleName(tr("Difference that matters"));
  matters_->setToolTip(
      tr("A loss gap of this share of run A's loss matters; a run whose gap is surely smaller is good enough.\n"
         "0.25 %: the relative error of FP8 against BF16 that DeepSeek-V3 calls within training randomness"));
  connect(matters_, &QDoubleSpinBox::valueChanged, plot_, &PlotFrame::markDirty);
  addControl(matters_);
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
  add_twin_ = new QPushButton(this);
  add_twin_->setToolTip(tr("Trains a twin of run A whose weights start a unit in the last place away (Shift+N)"));
  add_twin_->hide();
  connect(add_twin_, &QPushButton::clicked, this, &LossGapPanel::twinRequested);
  addBody(conclusion_, 0);
  addBody(add_twin_, 0);
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
  } else if (const History* lossless = withoutLoss(histories)) {
    plot_->setNotice(notInLogNotice(lossless->info(), metricName(Metric::ce_loss)));
  } else {
    plot_->setNotice({});
    const Judging judging = runs_->judging(*selection_, matters());
    gaps_.set(histories.front(), runs_->others(*selection_), runs_->twins(*selection_), judging);
    validation_.set(histories.front(), runs_->others(*selection_), runs_->twins(*selection_), judging);
    std::vector<GapSeries> series;
    for (int run = 1; run < static_cast<int>(histories.size()); ++run)
      series.push_back(
          {run, runLabel(*selection_, run), runColor(*selection_, run), gaps_.first_difference(run, epsilon()), !runs_->isNoiseTwin(run)});
    plot_->setSeries(std::move(series), gaps_);
    words = conclude(Words::all);
    QString tip = runs_->about().trimmed().toHtmlEscaped().replace(QLatin1Char('\n'), QStringLiteral("<br>"));
    if (leavesNoPlot(words)) {
      tip = tip.isEmpty() ? words : words + QStringLiteral("<br><br>") + tip;
      words = conclude(Words::verdicts);
    }
    conclusion_->setToolTip(tip);
  }
  conclusion_->say(words);
  QTimer::singleShot(0, this, &LossGapPanel::offerTwin);  // a button that appears moves the plot, which is painting
}

void LossGapPanel::setRoomForTwin(bool room) {
  room_for_twin_ = room;
  offerTwin();
}

// Where a verdict is missing for want of twins: what another one would bring.
void LossGapPanel::offerTwin() {
  QString text;
  for (int run = 1; room_for_twin_ && run < static_cast<int>(selection_->histories().size()); ++run) {
    if (runs_->isNoiseTwin(run) || run > gaps_.runs()) continue;
    const Conclusion& found = deciding(run);
    if (found.verdict == Verdict::no_twin) text = tr("Add a perturbed twin: it shows what chance does");
    if (found.verdict == Verdict::unclear && !is_missing(found.half_with_another))
      text = tr("Add a perturbed twin: gaps above some %1 could be told from chance, now %2 nats/token")
                 .arg(found.half_with_another, 0, 'g', 2)
                 .arg(found.half, 0, 'g', 2);
  }
  add_twin_->setText(text);
  add_twin_->setVisible(!text.isEmpty());
}

// "C seed-2, run A with another seed, D perturbation-1, run A's start once more: what chance does".
QString LossGapPanel::twinsText(Words wanted) const {
  QStringList twins;
  for (int run = 1; run < std::ssize(runs_->runs()) && run < std::ssize(selection_->histories()); ++run) {
    const ComparedRun& twin = runs_->runs()[run];
    if (!twin.noise_twin) continue;
    const QString name = runFigure(*selection_, run, runName(*selection_, run), palette());
    if (wanted == Words::verdicts) {
      twins << name;
      continue;
    }
    twins << name + (twin.same_start ? tr(", run A's start once more") : tr(", run A with another seed")) +
                 (twin.twin_until ? tr(", up to step %1").arg(formatCount(twin.twin_until->steps().last)) : QString());
  }
  return twins.isEmpty() ? QString() : twins.join(QStringLiteral("; ")) + tr(": what chance does");
}

// A run that is lost shows in its training loss first.
const Conclusion& LossGapPanel::deciding(int run) const {
  const auto& histories = selection_->histories();
  const Conclusion& training = gaps_.conclusion(run);
  const bool validates = deciding_loss(*histories[0], *histories[run]) == Metric::val_loss;
  return validates && training.verdict != Verdict::lost ? validation_.conclusion(run) : training;
}

// ", about 40 s at the present speed"; empty: it is not known.
QString LossGapPanel::timeUntil(std::int64_t steps) const {
  if (steps == 0 || is_missing(seconds_per_step_)) return {};
  return tr(", %1 at the present speed")
      .arg(aboutDuration(static_cast<double>(seconds_per_step_) * static_cast<double>(steps)));
}

// "mxfp4: worse: loss gap ...; gradient 24 % off, ...".
QString LossGapPanel::verdictOf(int run, Words wanted) const {
  const auto& histories = selection_->histories();
  const Conclusion& found = deciding(run);
  // Drops "nano+mxfp8_rceil against nano: ", which the letter says as well.
  QString text = inPrint(QString::fromStdString(found.text));
  const QString who = QString::fromStdString(histories[run]->info().name + " against " + histories[0]->info().name);
  if (text.startsWith(who)) text.remove(0, who.size() + 2);
  text = text.toHtmlEscaped() + timeUntil(found.lacking);
  const bool decided = found.verdict >= Verdict::equal;
  if (const auto colon = text.indexOf(QLatin1Char(':')); decided && colon > 0)
    text = QStringLiteral("<b>%1</b>%2").arg(text.left(colon), text.mid(colon));
  const QString named = runName(*selection_, run).toHtmlEscaped() + QStringLiteral(": ");
  if (wanted == Words::verdicts) return named + text;
  const Conclusion& training = gaps_.conclusion(run);
  if (&found != &training && !is_missing(training.gap))
    text +=
        tr("; training loss %1%2")
            .arg(training.gap > 0 ? QStringLiteral("+") : QString(), withMinus(QString::number(training.gap, 'g', 2))) +
        (is_missing(training.half) ? QString() : tr(" \u00b1%1").arg(training.half, 0, 'g', 2));
  if (const std::string costs = to_text(format_costs(*histories[run], selection_->step())); !costs.empty())
    text += QStringLiteral("; ") + QString::fromStdString(costs).toHtmlEscaped();
  if (const auto first = gaps_.first_difference(run, epsilon()))
    text += tr("; first |gap| > %1: step %2").arg(epsilon()).arg(*first).toHtmlEscaped();
  return named + text;
}

// Whether these words above the plot would leave it too low to be read.
bool LossGapPanel::leavesNoPlot(const QString& words) const {
  QTextDocument text;
  text.setDefaultFont(conclusion_->font());
  text.setDocumentMargin(0);
  text.setHtml(words);
  text.setTextWidth(conclusion_->parentWidget()->width());
  const int taken = plot_->y() - (conclusion_->isHidden() ? 0 : conclusion_->height());
  return height() - taken - text.size().height() < kLowestPlot;
}

QString LossGapPanel::conclude(Words wanted) const {
  QStringList lines;
  for (int run = 1; run < static_cast<int>(selection_->histories().size()); ++run)
    if (!runs_->isNoiseTwin(run))
      lines << QStringLiteral("<b style='color:%1'>%2</b> %3")
                   .arg(seriesColor(runColor(*selection_, run), isDark(palette())).name(), runLetter(*selection_, run), verdictOf(run, wanted));
  if (const QString twins = twinsText(wanted); !twins.isEmpty()) lines << twins;
  // No conclusion yet: says what to expect, if that is documented.
  if (const QStringList about = paragraphs(runs_->about());
      !about.isEmpty() && gaps_.conclusion(1).verdict == Verdict::too_short)
    lines << about.last().toHtmlEscaped();
  return lines.join(QStringLiteral("<br>"));
}

QString LossGapPanel::csv() const {
  const auto& histories = selection_->histories();
  const std::vector<std::int64_t> steps =
      histories.empty() ? std::vector<std::int64_t>() : histories[0]->steps_in(selection_->range());
  const std::vector<std::int64_t> edges = edges_of(steps);
  QString text = QStringLiteral("step");
  std::vector<std::vector<PyramidBin>> raw;
  std::vector<std::vector<float>> columns;
  for (int run = 1; run < static_cast<int>(histories.size()) && !steps.empty(); ++run) {
    const QString name = runLabel(*selection_, run);
    text += QLatin1Char(',') + csvField(tr("%1 minus A, cross-entropy [nats/token]").arg(name)) + QLatin1Char(',') +
            csvField(tr("%1 minus A, smoothed [nats/token]").arg(name));
    raw.push_back(gap_series(*histories[0], *histories[run], Metric::ce_loss, kWholeRun, edges));
    columns.push_back(smoothed_gap(*histories[0], *histories[run], Metric::ce_loss, kWholeRun, edges));
  }
  std::vector<Conclusion> conclusions;
  for (const PairedRun& other : runs_->others(*selection_)) {
    if (steps.empty()) break;
    conclusions.push_back(
        moescope::conclude(histories[0], other, runs_->twins(*selection_), runs_->judging(*selection_, matters())));
    const QString name = runLabel(*selection_, static_cast<int>(conclusions.size()));
    text += QLatin1Char(',') +
            csvField(tr("%1 minus A, mean %2 of the judged steps [nats/token]")
                         .arg(name, QLatin1String(loss_words(conclusions.back().loss)))) +
            QLatin1Char(',') + csvField(tr("%1, half width of its 95 % interval [nats/token]").arg(name));
  }
  text += QLatin1Char('\n');
  const auto number = [](float value) { return std::isfinite(value) ? QString::number(value, 'g', 9) : QString(); };
  for (std::size_t i = 0; i < steps.size() && !raw.empty(); ++i) {
    text += QString::number(steps[i]);
    for (std::size_t run = 0; run < raw.size(); ++run)
      text += QLatin1Char(',') + (raw[run][i].finite > 0 ? QString::number(raw[run][i].mean(), 'g', 9) : QString()) +
              QLatin1Char(',') + number(columns[run][i]);
    for (const Conclusion& each : conclusions) {
      const bool judged = steps[i] >= each.steps.first && steps[i] <= each.steps.last;
      text += QLatin1Char(',') + (judged ? number(each.gap) : QString()) + QLatin1Char(',') +
              (judged ? number(each.half) : QString());
    }
    text += QLatin1Char('\n');
  }
  return text;
}

QString LossGapPanel::explain() const {
  return tr("<p><b>Gap.</b> Loss of a run minus that of run A at the same step and on the same batch. Faint: every "
            "step; strong: exponential moving average with a memory of %1 steps. The dashed line marks the first step "
            "at which the losses differ by more than the set amount.</p>"
            "<p><b>Verdict.</b> Judged is the mean of these gaps over the last half of the steps, drawn as a line with "
            "its 95 % interval at the end. Equal runs differ, too: another seed starts elsewhere, and even rounding in "
            "the last place grows into other weights. <i>Noise twins</i> of run A show by how much; their means over "
            "four batches of steps give the interval (losses of neighbouring steps are correlated, so that steps "
            "cannot be counted as independent; batches that still agree with their neighbours count for fewer). Inside "
            "the grey, means cannot be told from chance. About 1 in 20 comparisons between equal runs calls one "
            "different; where several runs are compared with run A, their intervals are wider, so that this holds for "
            "all of them together.</p>"
            "<p><b>worse</b>, <b>better</b>: the interval does not hold 0. <b>good enough</b>: all of it is smaller "
            "than what matters, 0.25 % of run A's loss unless you choose another (the relative error of FP8 against "
            "BF16 that DeepSeek-V3, arXiv:2412.19437, calls within training randomness). <b>not told apart</b>: it "
            "holds 0 and gaps that matter; more twins or more steps narrow it.</p>"
            "<p><b>Validation loss</b> (telemetry.validation_every): the same held-out text at every measurement. "
            "Where "
            "it is measured from the start, it alone gives the verdict, and the training loss stands beside it: to "
            "choose the narrower of two intervals would call equal runs different twice as often. It takes a "
            "measurement in each quarter of the judged steps.</p>"
            "<p><b>The twins have not drifted apart yet.</b> Perturbed twins of a run in FP32 stay beside it for "
            "hundreds of steps, until a token goes to another expert; a run in fewer bits drifts at once. Until %2 % "
            "of the twins' tokens go elsewhere it is not known how far chance would take such a run, and there is no "
            "interval.</p>"
            "<p><b>Twins.</b> A twin with run A's start, its weights moved by a unit in the last place, shows chaos "
            "alone: with it a verdict is about this start. One with another seed shows the luck of the start as well, "
            "which lasts and takes several twins to know.</p>"
            "<p>Then what the formats do at the cursor's step, whatever the loss says: the length of the gradient's "
            "error, tokens that rounding sends to other experts, and the operand that loses most to underflow.</p>")
             .arg(std::lround(1 / (1 - kGapFactor)))
             .arg(std::lround(100 * kLeastDrift)) +
         metricCards({"ce_loss", "val_loss"});
}

QVariantMap LossGapPanel::saveState() const {
  return {{QStringLiteral("epsilon"), epsilon()}, {QStringLiteral("matters"), matters_->value()}};
}

void LossGapPanel::restoreState(const QVariantMap& state) {
  epsilon_->setValue(state.value(QStringLiteral("epsilon"), epsilon()).toDouble());
  matters_->setValue(state.value(QStringLiteral("matters"), matters_->value()).toDouble());
}

}  // namespace moescope
