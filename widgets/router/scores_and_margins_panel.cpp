#include "widgets/router/scores_and_margins_panel.h"

#include <algorithm>

#include "widgets/look/layouts.h"
#include "widgets/panel/csv.h"
#include "widgets/panel/metric_text.h"

namespace moescope {
namespace {

void add(const std::vector<std::uint32_t>& counts, std::vector<std::uint32_t>& sum) {
  sum.resize(std::max(counts.size(), sum.size()));
  for (std::size_t bin = 0; bin < counts.size(); ++bin) sum[bin] += counts[bin];
}

// Returns the upper end of a bin as text; the last bin has no end.
QString endOf(int bin, const RouterFrame& router) {
  const auto bins = static_cast<int>(std::max(router.score_chosen.size(), router.margin_tokens.size()));
  return bin + 1 == bins ? QStringLiteral("inf") : QString::number(half_octave_edge(bin + 1), 'g', 7);
}

}  // namespace

ScoresAndMarginsPanel::ScoresAndMarginsPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Scores and margins", Provenance::measured_here, parent) {
  scores_ = new HalfOctavePlot(this);
  scores_->setAccessibleName("Scores of chosen and rejected experts");
  scores_->setTexts({.value = "score",
                     .counted = "share of each",
                     .caption = "score before the bias, log",
                     .in_short = "score, log",
                     .back = "rejected",
                     .front = "chosen",
                     .shares = true});
  scores_->refill = [this] {
    scores_->setNotice(whyNothing());
    if (!scores_->notice().isEmpty()) return;
    const Counts now = counts();
    scores_->setHistograms(now.rejected, now.chosen, 1);
  };
  margins_ = new HalfOctavePlot(this);
  margins_->setAccessibleName("Tokens by margin");
  margins_->refill = [this] {
    margins_->setNotice(whyNothing().isEmpty() ? QString() : QString(QChar(u' ')));
    if (!margins_->notice().isEmpty()) return;
    const QString unit = biasUnit(*selection_->history(), selection_->step());
    margins_->setTexts({.value = "margin",
                        .counted = "share of tokens",
                        .caption = QString("margin%1: last chosen minus first rejected, log").arg(unit),
                        .in_short = QString("margin%1, log").arg(unit),
                        .back = "tokens",
                        .front = {},
                        .shares = true});
    margins_->setHistograms(counts().margins, {}, 0);
  };
  for (HalfOctavePlot* plot : {scores_, margins_})
    plot->figureOf = [this,
                      key = plot == scores_ ? FigureKey("score_histogram") : FigureKey("margin_histogram")](QPoint) {
      return FigureTarget{.key = key, .layer = selection_->layer(), .step = selection_->step()};
    };
  for (HalfOctavePlot* plot : {scores_, margins_}) followSelection(plot);
  layers_ = makeChoice({"all layers", "chosen layer"}, "Layers");
  connect(layers_, &QComboBox::currentIndexChanged, this, [this] {
    scores_->markDirty();
    margins_->markDirty();
  });
  addControl(layers_);
  showAnswers();
  auto* body = new QWidget(this);
  auto* row = plainRow(body, 2);
  row->addWidget(scores_, 1);
  row->addWidget(margins_, 1);
  addBody(body);
  keepState("one_layer", layers_);
}

ScoresAndMarginsPanel::Counts ScoresAndMarginsPanel::counts() const {
  Counts sum;
  const auto frame = selection_->frame();
  for (const RouterFrame& router : frame ? frame->routers : std::vector<RouterFrame>{}) {
    if (layers_->currentIndex() == 1 && router.layer != selection_->layer()) continue;
    add(router.score_chosen, sum.chosen);
    add(router.score_rejected, sum.rejected);
    add(router.margin_tokens, sum.margins);
    sum.any |= !router.score_chosen.empty();
  }
  return sum;
}

QString ScoresAndMarginsPanel::whyNothing() const {
  const History* history = selection_->history();
  if (!history) return noRunNotice();
  if (history->steps().empty()) return noDataYetNotice(*selection_);
  return counts().any ? QString() : notInLogNotice(history->info(), "score histograms");
}

Panel::Answer ScoresAndMarginsPanel::answer() const {
  if (!whyNothing().isEmpty()) return {};
  const QString median = half_octave_median(counts().margins);  // the upper edge of a bin, or "\u2265 0.7"
  if (median == QLatin1String("-")) return {};
  const QString words = median[0].isDigit() ? QString("Half of the tokens have a margin below %1")
                                            : QString("Half of the tokens have a margin %1");
  return {"How sure is the router?", {words.arg(median), QString("Median margin %1").arg(median)}};
}

QString ScoresAndMarginsPanel::status() const {
  const auto frame = selection_->frame();
  if (!frame) return {};
  const bool one = layers_->currentIndex() == 1;
  return timeStatus(frame->step, true) +
         (one ? QString(", layer %1").arg(selection_->layer()) : QString(", all layers"));
}

QString ScoresAndMarginsPanel::csv() const {
  QString text = QStringLiteral("step,layer,from,to,chosen (scores),rejected (scores),margin (tokens)\n");
  const auto frame = selection_->frame();
  for (const RouterFrame& router : frame ? frame->routers : std::vector<RouterFrame>{}) {
    const auto at = [](const std::vector<std::uint32_t>& counts, int bin) {
      return static_cast<std::size_t>(bin) < counts.size() ? counts[bin] : 0;
    };
    const auto bins = static_cast<int>(std::max(router.score_chosen.size(), router.margin_tokens.size()));
    for (int bin = 0; bin < bins && !router.score_chosen.empty(); ++bin)
      text += csvRow(frame->step, router.layer, digits(bin == 0 ? 0 : half_octave_edge(bin), 7), endOf(bin, router),
                     at(router.score_chosen, bin), at(router.score_rejected, bin), at(router.margin_tokens, bin));
  }
  return text;
}

}  // namespace moescope
