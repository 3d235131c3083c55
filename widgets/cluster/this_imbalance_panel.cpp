#include "widgets/cluster/this_imbalance_panel.h"

#include <algorithm>
#include <cmath>

#include "core/cluster/ranks/routing_patterns.h"
#include "widgets/look/tokens.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr int kAnswerPauseMs = 6000;     // pause between two answers, each of which takes a core for a while
constexpr double kMinNamedShare = 0.01;  // smallest share of the throughput that is named
constexpr int kAboveTable = 68;          // height of header, answer, note and margins, pixels at the usual font size

constexpr const char* kBalanced =
    "a router that sends as many tokens to every expert; the percentages are of this throughput";
constexpr const char* kForced =
    "round-robin, as in the published runs: a token's experts are neighbours, with fewer copies than the independent "
    "choices of a balanced router";
struct TableRow {
  const char *name, *tip;
};
constexpr TableRow kVariantRows[] = {
    {"this load", "experts in order"},
    {"+ node-limited",
     "a token uses experts of 4 of 8 groups, so that no group gets more than a quarter of the copies; what this "
     "changes in the loss is not counted"},
    {"+ replicas",
     "experts with many tokens have replicas, one more expert per rank, and all are placed by this load, "
     "which a training does not know beforehand; memory and gradient sums are not counted"},
    {"+ MXFP8 tokens", "rows of E4M3 with E8M0 scales in the dispatch; their error is not counted"},
    {"+ all three",
     "node-limited, replicas and MXFP8 tokens; up to EP 64 the experts of a group share a node, and at EP 64 a node "
     "has "
     "a single group, so that replicas cannot balance the loads of groups; at EP 128 replicas are on any node"}};

QString speedText(double tokens_per_second) {
  return formatCount(std::round(tokens_per_second));
}

QString perCent(double share) {
  return QString::number(100 * share, 'f', 0) + QStringLiteral(" %");
}

QString rangeText(const Band& range, int digits) {
  return QString(" (%1 to %2)").arg(range.low, 0, 'f', digits).arg(range.high, 0, 'f', digits);
}

// Whether a choice gains is told by its range.
QString verbOf(const Speedup& speedup) {
  if (speedup.range.low > 1) return "gains";
  return speedup.range.high < 1 ? "loses" : "undecided";
}

// " (1.32 \u00d7, 1.10 to 1.46)", " (1.10\u20131.46 \u00d7)".
QString gainText(const Speedup& speedup, bool is_long) {
  const QString range = rangeText(speedup.range, 2), ratio = QString("(%1 \u00d7, ").arg(speedup.ratio, 0, 'f', 2);
  return is_long ? QString(range).replace("(", ratio)
                 : QString(range).replace(" to ", "\u2013").replace(")", " \u00d7)");
}

}  // namespace

ThisImbalancePanel::ThisImbalancePanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Cost of this imbalance", Provenance::modelled, parent) {
  note_ = new FittedLabel(this);
  note_->setRole(QPalette::PlaceholderText);
  followFont(note_, [this] { note_->setFont(typeFont(Type::caption)); });
  addBody(note_, 0);
  notice_ = new QLabel(this);
  notice_->setWordWrap(true);
  notice_->setAlignment(Qt::AlignCenter);
  notice_->setForegroundRole(QPalette::PlaceholderText);
  addBody(notice_);
  table_ = new FigureTable({"tokens/s per GPU", "EP 8", "EP 16", "EP 32", "EP 64", "EP 128"}, this);
  table_->setAccessibleName(title());
  addBody(table_);
  connect(selection_, &Selection::changed, this, [this] { renew(); });
  pause_.setSingleShot(true);
  pause_.setInterval(kAnswerPauseMs);
  connect(&pause_, &QTimer::timeout, this, [this] { renew(); });
}

void ThisImbalancePanel::showEvent(QShowEvent* event) {
  Panel::showEvent(event);
  renew();
}

void ThisImbalancePanel::say(const QString& notice) {
  notice_->setText(notice);
  notice_->setVisible(!notice.isEmpty());
  table_->setVisible(notice.isEmpty());
  note_->setVisible(notice.isEmpty());
  emit answerChanged();
}

ThisImbalancePanel::Asked ThisImbalancePanel::loadsOf(int place) const {
  const History& run = *selection_->histories()[place];
  Asked loads;
  loads.run = &run;
  loads.letter = runLetter(*selection_, place);
  const auto frame = selection_->frameOf(place);
  if (!frame) return loads;
  loads.step = frame->step;
  const auto settings = run.settings_at(frame->step);
  loads.is_forced = settings->holds(&RouterConfig::force_balance);
  const auto recipe = recipe_named(settings->text(&PrecisionConfig::experts).value_or(""));
  loads.is_fp4 = recipe && recipe_info(*recipe).format.element == ElementFormat::e2m1;
  loads.loads = layer_loads(*frame, ep_);
  return loads;
}

ThisImbalancePanel::Question ThisImbalancePanel::presentQuestion() const {
  Question question{cluster_, {}};
  if (selection_->history()) question.runs.push_back(loadsOf(selection_->run()));
  for (int place = 0; place < std::ssize(selection_->histories()); ++place)
    if (place != selection_->run() && !selection_->isNoiseTwin(place)) question.runs.push_back(loadsOf(place));
  std::erase_if(question.runs, [](const Asked& run) { return run.loads.load_L.empty(); });
  return question;
}

void ThisImbalancePanel::answerNow() {
  const Question question = presentQuestion();
  if (question.runs.empty() || question.runs.front().run != selection_->history()) return;
  question_ = question;
  show(computeOrProblem(question, {}), question);
}

ThisImbalancePanel::Costs ThisImbalancePanel::computeOrProblem(const Question& question,
                                                               const std::stop_token& stopped) {
  try {
    return compute(question, stopped);
  } catch (const std::runtime_error& error) {
    Costs costs;
    costs.problem = error.what();
    return costs;
  }
}

// Computes one answer at a time, with a pause between two, since a run in training has a new load at every step. Costs
// of other runs than the present ones are not shown.
void ThisImbalancePanel::renew() {
  if (!isVisible()) return;
  const History* history = selection_->history();
  const Question question = presentQuestion();
  const bool has_load = history && !question.runs.empty() && question.runs.front().run == history;
  const bool has_same_runs = question.cluster == question_.cluster &&
                             std::ranges::equal(question.runs, question_.runs, {}, &Asked::run, &Asked::run);
  if (!has_same_runs || !has_load) costs_ = {};
  setProperty("busy",
              has_load && (computing_ || question != shown_ || (costs_.even.empty() && costs_.problem.empty())));
  if (!has_load) question_ = {};
  if (!history || history->steps().empty()) return say(noDataYetNotice(*selection_));
  if (!has_load) return say(notInLogNotice(history->info(), "tokens per expert"));
  // A cursor that moves waits for no training.
  const bool waits = computing_ || (pause_.isActive() && selection_->following() && selection_->growing());
  if (has_same_runs && (waits || question == question_)) return;
  question_ = question;
  computing_ = true;
  // No row has to be scrolled, and no panel moves when the rows come: header, balanced router, forced balance, runs
  // with their ranges, and remedies.
  const auto routed = to_int(std::ranges::count(question.runs, false, &Asked::is_forced));
  const Asked& selected = question.runs.front();
  const int remedies = selected.is_forced ? 0 : kVariants - 1 + (selected.loads.layers > 1);
  lines_ = 2 + 2 * routed + remedies + (cluster_.routing == AskedRouting::forced);
  setMinimumHeight(withType(kAboveTable, fontMetrics()) + lines_ * table_->leastRowHeight());
  if (costs_.even.empty()) say("Computing...");
  worker_.compute(
      this, [question](const std::stop_token& stopped) { return computeOrProblem(question, stopped); },
      [this, question](Costs costs) { show(std::move(costs), question); });
}

ThisImbalancePanel::Fastest ThisImbalancePanel::fastestOf(const StepConfig& config,
                                                          const std::vector<TrafficByKind>& traffic) {
  const auto step = [&](const TrafficByKind& degree_traffic, AllToAll kind) {
    LayeredStep chosen{config, degree_traffic[static_cast<int>(kind)]};
    chosen.config.all_to_all = kind;
    return chosen;
  };
  LayeredStep best_step;
  Fastest best;
  for (const TrafficByKind& degree_traffic : traffic)
    for (const AllToAll kind : {AllToAll::standard, AllToAll::deep_ep}) {
      const LayeredStep candidate = step(degree_traffic, kind);
      const double speed = tokens_per_second(candidate, Hypothesis::h2);
      if (speed <= best.tokens_per_second) continue;
      best = {candidate.traffic_L.front().ranks, kind, speed, {}};
      best_step = candidate;
    }
  for (const TrafficByKind& degree_traffic : traffic)
    best.gains.push_back(speedup(best_step, step(degree_traffic, config.all_to_all), Hypothesis::h2));
  return best;
}

ThisImbalancePanel::Costs ThisImbalancePanel::compute(const Question& question, const std::stop_token& stopped) {
  const StepConfig config = step_config(question.cluster);
  const int n_experts = to_int(config.shape.n_experts);
  const std::vector<LiveCase> cases = live_cases(config, to_int(question.runs.front().loads.load_L.front().size()));
  std::vector<LiveCase> plain_cases;
  for (std::size_t i = 0; i < cases.size(); i += kVariants) plain_cases.push_back(cases[i]);
  Costs costs;
  costs.even = live_costs(config, Hypothesis::h2, {}, plain_cases);
  for (const Asked& run : question.runs) {
    const bool is_selected = costs.runs.empty();
    std::vector<std::vector<LiveCost>> costs_by_layer;
    // One layer after the other, because OpenMP's threads are those of the training.
    for (const auto& load : run.loads.load_L) {
      if (stopped.stop_requested()) return costs;
      costs_by_layer.push_back(
          live_costs(config, Hypothesis::h2, load_in_order(load, n_experts), is_selected ? cases : plain_cases));
    }
    std::vector<Speedup>& speedups = costs.against_even.emplace_back();
    for (std::size_t degree = 0; degree < plain_cases.size(); ++degree) {
      LayeredStep step{config, {}};
      for (const auto& layer_costs : costs_by_layer)
        step.traffic_L.push_back(layer_costs[is_selected ? degree * kVariants : degree].traffic);
      speedups.push_back(speedup(step, {config, {costs.even[degree].traffic}}, Hypothesis::h2));
    }
    if (is_selected) costs.fullest = costs_by_layer.back();
    costs.runs.push_back(mean_costs(costs_by_layer));
  }
  // Of a forced balance all runs have the same choices.
  const bool is_live = question.cluster.routing == AskedRouting::live;
  costs.choices.resize(is_live ? question.runs.size() : 1);
  for (std::size_t run = 0; run < costs.choices.size(); ++run) {
    ClusterQuestion run_question = question.cluster;
    if (is_live) {
      run_question.loads = question.runs[run].loads;
      run_question.live_load = run_question.loads.load_L.back();
    }
    const std::vector<TrafficByKind> traffic = layer_traffic(run_question, possible_ep(config));
    for (const TrafficByKind& degree_traffic : traffic) {
      if (stopped.stop_requested()) return costs;
      costs.choices[run].push_back(step_choices(config, Hypothesis::h2, degree_traffic));
    }
    if (run == 0) costs.fastest = fastestOf(config, traffic);
  }
  return costs;
}

void ThisImbalancePanel::show(Costs costs, const Question& question) {
  if (question != question_) return;  // other runs were opened in the meantime
  costs_ = std::move(costs);
  shown_ = question;
  computing_ = false;
  update();  // repaints the header as well, which names the step
  setProperty("busy", false);
  pause_.start();
  if (costs_.problem.empty()) fillTable();
  say(QString::fromStdString(costs_.problem));
  renew();  // a new load may have arrived
}

const LiveCost& ThisImbalancePanel::cost(std::size_t run, std::size_t degree, std::size_t variant) const {
  return costs_.runs[run][run == 0 ? degree * kVariants + variant : degree];
}

std::size_t ThisImbalancePanel::chosenDegree() const {
  const auto at_degree = std::ranges::find(costs_.even, ep_, [](const LiveCost& cost) { return cost.live_case.ep; });
  return static_cast<std::size_t>(at_degree - costs_.even.begin());
}

QString ThisImbalancePanel::lostText(std::size_t run, bool with_range) const {
  const Speedup& speedup = costs_.against_even[run][chosenDegree()];
  QString text = "almost nothing";
  if (1 - speedup.ratio >= kMinNamedShare) text = perCent(1 - speedup.ratio);
  if (with_range)
    text += rangeText({100 * (1 - speedup.range.high), 100 * (1 - speedup.range.low)}, 0).replace(")", " %)");
  return withMinus(text);
}

// The fastest set-up: "EP 8 without DeepEP 1.94 \u00d7 as fast, if it fits (memory not modelled)".
QString ThisImbalancePanel::fastestText(bool is_long) const {
  const Fastest& best = costs_.fastest;
  if (best.ep == ep_ && best.kind == cluster_.all_to_all) return "no other EP is faster";
  const Speedup& gain = best.gains[chosenDegree()];
  const QString run = costs_.choices.size() > 1 ? " for " + shown_.runs[0].letter : QString();
  QString text = QString("EP %1 %2 DeepEP %3 \u00d7 as fast%4")
                     .arg(best.ep)
                     .arg(best.kind == AllToAll::deep_ep ? "with" : "without")
                     .arg(gain.ratio, 0, 'f', 2)
                     .arg(run);
  if (is_long) text += rangeText(gain.range, 2);
  if (best.ep >= ClusterQuestion().ep) return text;  // the published runs have this degree
  return text + (is_long ? ", if it fits (memory is not modelled)" : ", if it fits");
}

QString ThisImbalancePanel::costText(bool with_range) const {
  QStringList costs;
  for (std::size_t run = 0; run < shown_.runs.size(); ++run)
    if (!shown_.runs[run].is_forced)
      costs << (shown_.runs.size() == 1 ? QString() : shown_.runs[run].letter + ' ') + lostText(run, with_range);
  return costs.isEmpty() ? QString() : QString("imbalance costs %1").arg(costs.join(", "));
}

void ThisImbalancePanel::addRow(const QString& name, const char* tip, const std::vector<const LiveCost*>& costs) {
  const int row = table_->rowCount();
  table_->setRowCount(row + 1);
  table_->setName(row, name, tip, row == 1);
  for (std::size_t degree = 0; degree < costs.size(); ++degree) {
    const LiveCost* first = &cost(0, degree);
    const LiveCost* best = std::ranges::max_element(first, first + kVariants, {}, &LiveCost::tokens_per_second);
    const QString speed = speedText(costs[degree]->tokens_per_second);
    const double change = costs[degree]->tokens_per_second / costs_.even[degree].tokens_per_second - 1;
    QString share("0 %");
    if (std::abs(change) >= 0.005) share = QString(change > 0 ? "+" : "") + withMinus(perCent(change));
    const QStringList forms = row > 0 ? QStringList{QString("%1 (%2)").arg(speed, share), speed} : QStringList{speed};
    table_->setFigure(row, to_int(degree) + 1, forms, tipOf(*costs[degree]), costs[degree] == best);
  }
}

// The balanced router, the load of each run, and the remedies of the selected run.
void ThisImbalancePanel::fillTable() {
  table_->setRowCount(0);
  const auto add = [this](const QString& name, const char* tip, auto cost_at) {
    std::vector<const LiveCost*> costs;
    for (std::size_t degree = 0; degree < costs_.even.size(); ++degree) costs.push_back(&cost_at(degree));
    addRow(name, tip, costs);
  };
  add("balanced router", kBalanced, [this](std::size_t degree) -> auto& { return costs_.even[degree]; });
  if (cluster_.routing == AskedRouting::forced)
    addPlainRow("forced balance", kForced,
                [this](auto degree) { return QStringList{speedText(costs_.even[degree].forced_tokens_per_second)}; });
  const bool several = shown_.runs.size() > 1;
  const QString letter = several ? shown_.runs[0].letter + ' ' : QString();
  for (std::size_t run = 0; run < shown_.runs.size(); ++run) {
    if (shown_.runs[run].is_forced) continue;
    add(several ? "load of " + shown_.runs[run].letter : QString(kVariantRows[0].name), kVariantRows[0].tip,
        [this, run](std::size_t degree) -> auto& { return cost(run, degree); });
    addRange(run);
    if (run == 0 && shown_.runs[0].loads.layers > 1)
      add(letter + QString("all as layer %1").arg(shown_.runs[0].loads.fullest()),
          "if all layers had the load of the one whose fullest rank is fullest at the chosen EP degree",
          [this](std::size_t degree) -> auto& { return costs_.fullest[degree * kVariants]; });
  }
  for (std::size_t variant = 1; variant < kVariants && !shown_.runs[0].is_forced; ++variant)
    add(letter + kVariantRows[variant].name, kVariantRows[variant].tip,
        [this, variant](std::size_t degree) -> auto& { return cost(0, degree, variant); });
  if (shown_.runs[0].is_forced)
    return note_->setTexts({"Balance is forced, no imbalance: round-robin, with fewer copies than a balanced router",
                            "Balance is forced: there is no imbalance"});
  const QString mean = QString("%1, experts in order; %2").arg(wayText(), shown_.runs[0].loads.text());
  const QString brackets = "in brackets: change against a balanced router";
  note_->setTexts({mean + "; " + brackets, brackets});
}

void ThisImbalancePanel::addPlainRow(const QString& name, const char* tip, auto forms_at) {
  const int row = table_->rowCount();
  table_->setRowCount(row + 1);
  table_->setName(row, name, tip);
  for (std::size_t degree = 0; degree < costs_.even.size(); ++degree)
    table_->setFigure(row, to_int(degree) + 1, forms_at(degree));
}

// Adds the range of the change in the row above.
void ThisImbalancePanel::addRange(std::size_t run) {
  addPlainRow(
      "  range, %", "of the change, over the numbers that the published runs do not determine", [&](auto degree) {
        const Band& range = costs_.against_even[run][degree].range;
        const QString both =
            withMinus(QString("%1 to %2").arg(100 * (range.low - 1), 0, 'f', 0).arg(100 * (range.high - 1), 0, 'f', 0));
        return QStringList{both, QString(both).replace(" to ", QStringLiteral("\u2026"))};
      });
}

QString ThisImbalancePanel::tipOf(const LiveCost& cost) const {
  QString tip = QString(
                    "modelled %1 tokens/s per GPU, between %2 and %3\nexperts of the fullest rank: %4 \u00d7 the mean\n"
                    "%5 copies per token, %6 over the network")
                    .arg(speedText(cost.tokens_per_second), speedText(cost.band.low), speedText(cost.band.high),
                         formatValue(cost.traffic.expert_rows_max_over_mean, 3),
                         formatValue(cost.traffic.copies_per_token, 3), formatValue(cost.traffic.network, 3));
  if (cost.gradients_sent > 0)
    tip += QString("\nnot included: the gradients of %1 replicas are sent in each layer").arg(cost.gradients_sent);
  return tip;
}

void ThisImbalancePanel::setCluster(const ClusterQuestion& cluster) {
  ep_ = cluster.ep;
  cluster_ = cluster;
  cluster_.ep = ClusterQuestion().ep;
  cluster_.live_load = {};
  cluster_.loads = {};
  cluster_.layer = 0;
  renew();
  emit answerChanged();
}

// The decision in the order of its parts: what is chosen, what DeepEP and MXFP8 gain there, what the imbalance costs,
// which EP would be faster. In a narrow window single numbers go before ranges.
QStringList ThisImbalancePanel::headline() const {
  if (!costs_.problem.empty()) return {QString::fromStdString(costs_.problem)};
  if (costs_.even.empty()) return computing_ ? QStringList{"Computing the cost of this imbalance..."} : QStringList();
  const ClusterQuestion& cluster = shown_.cluster;
  const QString chosen = QString("%1, %2, EP %3%4: ")
                             .arg(QString::fromStdString(cluster.hardware).toUpper(), cluster.mxfp8 ? "MXFP8" : "BF16")
                             .arg(ep_)
                             .arg(cluster.routing == AskedRouting::forced ? ", forced balance" : "");
  const auto form = [&](bool has_gains, bool has_costs, bool has_speed) {
    QStringList parts{gainsText(has_gains), costText(has_costs), fastestText(has_speed)};
    parts.removeAll(QString());
    return chosen + parts.join("; ");
  };
  return {form(true, true, true), form(true, false, true), form(true, false, false), form(false, false, false),
          chosen + gainsText(false)};
}

// "DeepEP gains (1.32 \u00d7, 1.10 to 1.46)"; of several runs one by one, or the range of all that have the same
// verdict.
QString ThisImbalancePanel::choiceText(const char* choice, Speedup StepChoices::*gain, bool is_long) const {
  QStringList texts;
  Speedup all;
  bool is_same = true;
  for (std::size_t run = 0; run < costs_.choices.size(); ++run) {
    if (costs_.choices.size() > 1 && shown_.runs[run].is_forced) continue;
    const Speedup& speedup = costs_.choices[run][chosenDegree()].*gain;
    if (std::isnan(speedup.ratio)) return QString("%1 not on this GPU").arg(choice);
    if (texts.isEmpty()) all = speedup;
    is_same = is_same && verbOf(speedup) == verbOf(all);
    all.range = {std::min(all.range.low, speedup.range.low), std::max(all.range.high, speedup.range.high)};
    texts << verbOf(speedup) + " for " + shown_.runs[run].letter + gainText(speedup, is_long);
  }
  const bool is_common = texts.size() == 1 || (is_same && !is_long);
  return QString("%1 ").arg(choice) + (is_common ? verbOf(all) + gainText(all, is_long) : texts.join(", "));
}

std::vector<RunChoices> ThisImbalancePanel::choicesOfRuns() const {
  if (costs_.choices.size() == 1) return {{{}, costs_.choices.front()}};
  std::vector<RunChoices> runs;
  for (std::size_t run = 0; run < costs_.choices.size(); ++run)
    if (run == 0 || !shown_.runs[run].is_forced) runs.push_back({shown_.runs[run].letter, costs_.choices[run]});
  return runs;
}

QString ThisImbalancePanel::gainsText(bool is_long) const {
  QStringList texts{choiceText("MXFP8", &StepChoices::mxfp8, is_long)};
  if (shown_.cluster.routing == AskedRouting::live)
    texts.prepend(choiceText("DeepEP", &StepChoices::deep_ep, is_long));
  else if (!shown_.runs.front().is_forced)  // the gain of forced balance is not that of a router
    texts << "for DeepEP choose this router";
  else
    texts << (is_long ? "for DeepEP open a log or a run with a trained router" : "for DeepEP open a trained router");
  if (std::ranges::any_of(shown_.runs, &Asked::is_fp4))
    texts << (is_long ? "FP4 has no published speed" : "no FP4 speed published");
  return texts.join("; ");
}

QStringList ThisImbalancePanel::about() const {
  if (costs_.even.empty()) return {};
  return {"DeepSeek-V3 671B, modelled, " + shown_.runs[0].loads.text(), "modelled"};
}

QString ThisImbalancePanel::status() const {
  const QString steps = costs_.even.empty() ? QString() : stepsText() + ", ";
  return steps +
         QString("DeepSeek-V3 671B on 256 %1s, %2, %3 experts")
             .arg(QString::fromStdString(cluster_.hardware).toUpper(), wayText(), cluster_.mxfp8 ? "MXFP8" : "BF16");
}

QString ThisImbalancePanel::stepsText() const {
  const std::int64_t step = shown_.runs[0].step;
  if (std::ranges::count(shown_.runs, step, &Asked::step) == std::ssize(shown_.runs))
    return QString("step %1").arg(formatCount(step));
  QStringList run_steps;
  for (const Asked& run : shown_.runs) run_steps << run.letter + ' ' + formatCount(run.step);
  return QString("steps %1").arg(listed(run_steps));
}

ValueTable ThisImbalancePanel::table() const {
  ValueTable table({"step", "run", "EP", "load", "node-limited", "replicas", "payload", "modelled [tokens/s/GPU]",
                    "band low [tokens/s/GPU]", "band high [tokens/s/GPU]", "lost against a balanced router [share]",
                    "experts of the fullest rank / mean:3", "copies per token:3"});
  const auto add = [&](const Asked* run, const std::string& load, const LiveCost& cost, const LiveCost& even) {
    table.add(run ? table_value(run->step) : TableValue(), run ? run->letter.toStdString() : std::string(),
              cost.live_case.ep, load, cost.live_case.node_limited, cost.live_case.balanced,
              std::string(payload_name(cost.live_case.payload)), cost.tokens_per_second, cost.band.low, cost.band.high,
              1 - cost.tokens_per_second / even.tokens_per_second, cost.traffic.expert_rows_max_over_mean,
              cost.traffic.copies_per_token);
  };
  for (std::size_t degree = 0; degree < costs_.even.size(); ++degree) {
    const LiveCost& even = costs_.even[degree];
    add(nullptr, "even", even, even);
    for (std::size_t run = 0; run < shown_.runs.size(); ++run)
      for (std::size_t variant = 0; variant < (run == 0 ? kVariants : 1); ++variant)
        add(&shown_.runs[run], "this run", cost(run, degree, variant), even);
  }
  for (std::size_t degree = 0; degree < costs_.even.size() && shown_.runs.front().loads.layers > 1; ++degree)
    add(&shown_.runs.front(), "all as the fullest layer", costs_.fullest[degree * kVariants], costs_.even[degree]);
  return table;
}

}  // namespace moescope
