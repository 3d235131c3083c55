#include "widgets/router/router_confidence_and_losses_panel.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/frame/router_stats.h"
#include "widgets/look/layouts.h"
#include "widgets/panel/metric_text.h"
#include "widgets/plots/axis.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

ScoresView::ScoresView(Selection* selection, QWidget* parent) : QWidget(parent), selection_(selection) {
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
    if (scores_->showsNotice(whyNothing())) return;
    const Counts current = counts();
    scores_->setHistograms(current.rejected, current.chosen, curveColor(*selection_));
  };
  margins_ = new HalfOctavePlot(this);
  margins_->setAccessibleName("Tokens by margin");
  margins_->refill = [this] {
    if (margins_->showsNotice(whyNothing().isEmpty() ? QString() : QString(QChar(u' ')))) return;
    const QString unit = biasUnit(*selection_->history(), selection_->step());
    margins_->setTexts({.value = "margin",
                        .counted = "share of tokens",
                        .caption = QString("margin%1: last chosen minus first rejected, log").arg(unit),
                        .in_short = QString("margin%1, log").arg(unit),
                        .back = "tokens",
                        .front = {},
                        .shares = true});
    margins_->setHistograms(counts().margins, {}, curveColor(*selection_));
  };
  for (HalfOctavePlot* plot : {scores_, margins_})
    plot->figureOf = [this,
                      key = plot == scores_ ? FigureKey("score_histogram") : FigureKey("margin_histogram")](QPoint) {
      return FigureTarget{.key = key, .layer = selection_->layer(), .step = selection_->step()};
    };
  auto* row = plainRow(this, 2);
  for (HalfOctavePlot* plot : {scores_, margins_}) {
    connect(selection, &Selection::changed, plot, &PlotFrame::markDirty);
    row->addWidget(plot, 1);
  }
  setFocusProxy(scores_);
}

void ScoresView::setOneLayer(bool one) {
  one_layer_ = one;
  scores_->markDirty();
  margins_->markDirty();
}

ScoresView::Counts ScoresView::counts() const {
  Counts sum;
  const auto frame = selection_->frame();
  for (const RouterFrame& router : frame ? frame->routers : std::vector<RouterFrame>{}) {
    if (one_layer_ && router.layer != selection_->layer()) continue;
    add_counts(sum.chosen, router.score_chosen);
    add_counts(sum.rejected, router.score_rejected);
    add_counts(sum.margins, router.margin_tokens);
    sum.any |= !router.score_chosen.empty();
  }
  return sum;
}

QString ScoresView::whyNothing() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return noDataYetNotice(*selection_);
  return counts().any ? QString() : notInLogNotice(history->info(), "score histograms");
}

QStringList ScoresView::answers() const {
  if (!whyNothing().isEmpty()) return {};
  const QString median = halfOctaveMedianText(counts().margins);
  if (median == QLatin1String("-")) return {};
  return {QString("Median margin of the tokens %1").arg(median), QString("Median margin %1").arg(median)};
}

ValueTable ScoresView::table() const {
  ValueTable table({"step", "layer", "from", "to", "chosen [scores]", "rejected [scores]", "margin [tokens]"});
  const auto frame = selection_->frame();
  for (const RouterFrame& router : frame ? frame->routers : std::vector<RouterFrame>{}) {
    const auto at = [](const std::vector<std::uint32_t>& counts, int bin) {
      return static_cast<std::size_t>(bin) < counts.size() ? counts[bin] : 0;
    };
    const int bins = to_int(std::max(router.score_chosen.size(), router.margin_tokens.size()));
    for (int bin = 0; bin < bins && !router.score_chosen.empty(); ++bin)
      table.add(frame->step, router.layer, bin == 0 ? 0 : half_octave_edge(bin),
                bin + 1 == bins ? std::numeric_limits<double>::infinity() : half_octave_edge(bin + 1),
                at(router.score_chosen, bin), at(router.score_rejected, bin), at(router.margin_tokens, bin));
  }
  return table;
}

RouterConfidenceAndLossesPanel::RouterConfidenceAndLossesPanel(Selection* selection, QWidget* parent)
    : FiguresPanel(selection, "Router confidence and losses",
                   {{Metric::score_entropy, Metric::mutual_information},
                    {Metric::margin},
                    {Metric::router_aux_loss},
                    {Metric::router_z_loss},
                    {Metric::predicted_share}},
                   parent) {
  switch_ = new ViewSwitch({"Over time", "Scores at a step"}, this);
  switch_->setAccessibleName("Figures over time, or scores and margins at a step");
  connect(switch_, &ViewSwitch::changed, this, &RouterConfidenceAndLossesPanel::showView);
  addControl(switch_);
  layers_ = makeLayersChoice("all layers", "Layers of the scores");
  addControl(layers_);
  scores_ = new ScoresView(selection, this);
  connect(layers_, &QComboBox::currentIndexChanged, scores_, [this](int index) { scores_->setOneLayer(index == 1); });
  showAnswers();
  addBody(scores_);
  showView(0);
  keepState(
      "view", [this] { return switch_->current(); }, [this](const QVariant& state) { showView(state.toInt()); });
  keepState("one_layer", layers_);
}

void RouterConfidenceAndLossesPanel::showView(int view) {
  switch_->setCurrent(view);
  setFiguresShown(!atAStep());
  scores_->setVisible(atAStep());
  layers_->setVisible(atAStep());
  if (atAStep()) giveFocusTo(scores_);
  update();
}

QString RouterConfidenceAndLossesPanel::status() const {
  if (!atAStep()) return FiguresPanel::status();
  const auto frame = selection_->frame();
  return frame ? timeStatus(frame->step, true) : QString();
}

// Without margins of single tokens, tells the mean entropy of the scores.
Panel::Answer RouterConfidenceAndLossesPanel::answer() const {
  QStringList answers = scores_->answers();
  const auto share_of = [this](const History& run) {
    const double even = std::log(run.info().n_experts);
    const float entropy = run.value_at(Metric::score_entropy, kWholeRun, selection_->shownStepOf(run));
    return even > 0 && std::isfinite(entropy) ? formatPercent(entropy / even) : QString();
  };
  const QString share = selection_->history() ? share_of(*selection_->history()) : QString();
  if (answers.isEmpty() && !share.isEmpty()) {
    if (const QString all = textOfRuns(*selection_, share_of); !all.isEmpty())
      answers << "Entropy of the scores, of its maximum, " + all << QString("Entropy %1 of its maximum").arg(all);
    const bool is_alone = selection_->histories().size() == 1;
    const QString run = is_alone ? QString() : runLetter(*selection_, selection_->run()) + ": ";
    for (const char* form : {"Entropy of the scores %1 of its maximum", "Entropy %1 of its maximum"})
      answers << run + QString(form).arg(share);
  }
  return answerTo("How sure is the router?", answers);
}

}  // namespace moescope
