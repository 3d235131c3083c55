#include "widgets/compare/loss_gap_panel.h"

#include <cmath>

namespace moescope {
namespace {

// "B", "B and C", "B, C and N".
QString listed(QStringList letters) {
  const QString last = letters.takeLast();
  return letters.isEmpty() ? last : letters.join(QStringLiteral(", ")) + QString(" and ") + last;
}

}  // namespace

LossGapPanel::LossGapPanel(Selection* selection, const ComparedRuns* runs, JudgedRuns* judged, QWidget* parent)
    : Panel(selection, "Loss gap", Provenance::measured_here, parent), runs_(runs), judged_(judged) {
  plot_ = new GapPlot(selection, this);
  plot_->refill = [this] { refill(); };
  connect(judged_, &JudgedRuns::changed, plot_, &PlotFrame::markDirty);
  shown_ = makeChoice({"minus A", "every step"}, "Steps shown",
                      "The smoothed gap alone, or the gap of every step behind it");
  connect(shown_, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);
  addControl(shown_);
  showAnswers();
  addBody(plot_);
  keepState("every_step", shown_);
}

QString LossGapPanel::status() const {
  return timeStatus(selection_->step(), false);
}

// Of checkpoints all batches are judged: none, so that no part of them is marked.
StepRange LossGapPanel::judgedSteps() const {
  if (judged_->onTexts()) return {};
  for (const int place : judged_->candidates())
    if (const Conclusion& c = judged_->conclusion(place); !is_missing(c.gap)) return c.steps;
  return {};
}

void LossGapPanel::refill() {
  plot_->setNotice(judged_->update());
  if (!plot_->notice().isEmpty()) return;
  shown_->setVisible(!judged_->onTexts());
  // Batches of text are in no order that a mean over neighbours would follow.
  plot_->setCaption(judged_->onTexts()
                        ? QString("nats/token, by batch of text")
                        : QString("nats/token, smoothed over %1 steps").arg(std::lround(1 / (1 - kGapFactor))));
  std::vector<GapSeries> series;
  for (int run = 1; run < static_cast<int>(selection_->histories().size()); ++run)
    series.push_back({run, runLetter(*selection_, run), runName(*selection_, run), runColor(*selection_, run)});
  plot_->setSeries(std::move(series), judged_->gaps(), {judged_->matters(), judgedSteps()},
                   judged_->onTexts()            ? GapPlot::Gaps::each_step
                   : shown_->currentIndex() == 1 ? GapPlot::Gaps::both
                                                 : GapPlot::Gaps::smoothed);
}

QStringList LossGapPanel::lettersOf(const std::vector<int>& places) const {
  QStringList letters;
  for (const int place : places) letters << runLetter(*selection_, place);
  return letters;
}

// "B: +0.0037 \u00b1 0.0067 nats/token": checkpoints have no first and last steps, only batches of text.
Panel::Answer LossGapPanel::answerOnTexts() const {
  QStringList sentences;
  for (const int place : judged_->candidates()) {
    const Conclusion& c = judged_->conclusion(place);
    if (is_missing(c.gap)) continue;
    const QString sign = c.gap > 0 ? QStringLiteral("+") : QString();
    sentences << QString("%1: %2%3 \u00b1 %4")
                     .arg(runLetter(*selection_, place), sign,
                          inPrint(QString::number(static_cast<double>(c.gap), 'g', 2)),
                          inPrint(QString::number(static_cast<double>(c.half), 'g', 2)));
  }
  if (sentences.isEmpty()) return {};
  const QString gaps = sentences.join(QStringLiteral("; "));
  return {{}, {QString("%1 nats/token, mean over the batches of text").arg(gaps), gaps}};
}

// "D leaves the band at step 118 and stays out; B and C end inside it".
Panel::Answer LossGapPanel::answer() const {
  if (judged_->onTexts()) return answerOnTexts();
  const float band = judged_->matters();
  if (!plot_->notice().isEmpty() || is_missing(band)) return {};
  QStringList sentences, outside;
  std::vector<int> inside;
  for (const int place : judged_->candidates()) {
    const auto since = judged_->gaps().out_since(place, static_cast<double>(band));
    const QString letter = runLetter(*selection_, place);
    if (!since) {
      inside.push_back(place);
      continue;
    }
    outside << letter;
    sentences
        << QString("%1 leaves the band at step %2 and stays out").arg(letter, formatCount(static_cast<double>(*since)));
  }
  const QString within = inside.empty()       ? QString()
                         : inside.size() == 1 ? QString("%1 ends inside it").arg(lettersOf(inside).front())
                                              : QString("%1 end inside it").arg(listed(lettersOf(inside)));
  if (outside.isEmpty())
    return {{}, {QString("%1 the band").arg(QString(within).replace("inside it", "inside")), within}};
  const QString apart = outside.size() == 1 ? QString("%1 stays outside the band").arg(outside.front())
                                            : QString("%1 stay outside the band").arg(listed(outside));
  const auto joined = [&](const QString& first) {
    return within.isEmpty() ? first : first + QStringLiteral("; ") + within;
  };
  return {{}, {joined(sentences.join(QStringLiteral("; "))), joined(apart), apart}};
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
    text += QLatin1Char(',') + csvField(QString("%1 minus A, cross-entropy [nats/token]").arg(name)) +
            QLatin1Char(',') + csvField(QString("%1 minus A, smoothed [nats/token]").arg(name));
    raw.push_back(gap_series(*histories[0], *histories[run], Metric::ce_loss, kWholeRun, edges));
    columns.push_back(smoothed_gap(*histories[0], *histories[run], Metric::ce_loss, kWholeRun, edges));
  }
  std::vector<Conclusion> conclusions;
  for (const PairedRun& other : runs_->others(*selection_)) {
    if (steps.empty()) break;
    conclusions.push_back(moescope::conclude(histories[0], other, runs_->twins(*selection_),
                                             runs_->judging(*selection_, judged_->share())));
    const QString name = runLabel(*selection_, static_cast<int>(conclusions.size()));
    text += QLatin1Char(',') +
            csvField(QString("%1 minus A, mean %2 of the judged steps [nats/token]")
                         .arg(name, QLatin1String(loss_words(conclusions.back().loss)))) +
            QLatin1Char(',') + csvField(QString("%1, half width of its 95 % interval [nats/token]").arg(name));
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
  return explanation({QString::number(std::lround(1 / (1 - kGapFactor)))});
}

}  // namespace moescope
