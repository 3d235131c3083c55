#include "widgets/cluster/this_imbalance_panel.h"

#include <QHeaderView>
#include <algorithm>
#include <cmath>
#include <ranges>

#include "core/cluster/ranks/routing_patterns.h"
#include "core/frame/router_stats.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/metric_text.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr int kAnswerPauseMs = 6000;     // pause between two answers, each of which takes a core for a while
constexpr std::size_t kMaxLayers = 8;    // layers of a run whose costs are computed
constexpr double kMinNamedShare = 0.01;  // smallest share of the throughput that is named
constexpr std::size_t kReplicas = 2, kAllRemedies = 4;  // indices of kVariantRows
constexpr double kMuchFuller = 1.2;                     // ratio of two fullest ranks that is explained
constexpr int kAboveTable = 76;  // height of header, answer, note and margins, pixels at the usual font size
constexpr const char* kCluster = "DeepSeek-V3 671B on 256 B200s, DeepEP and MXFP8";

StepConfig askedConfig() {
  return published_b200_config(true, AllToAll::deep_ep);
}

constexpr const char* kBalanced =
    "a router that sends as many tokens to every expert; the percentages are of this throughput";
struct TableRow {
  const char *name, *tip;
};
constexpr TableRow kVariantRows[] = {
    {"this load", "experts in order, BF16 tokens"},
    {"+ node-limited",
     "a token uses experts of 4 of 8 groups, so that no group gets more than a quarter of the copies; what this "
     "changes in the loss is not counted"},
    {"+ replicas",
     "experts with many tokens have replicas in one more slot per rank, and all are placed by this load, "
     "which a training does not know beforehand; memory and gradient sums are not counted"},
    {"+ MXFP8 tokens", "rows of E4M3 with E8M0 scales in the dispatch; their error is not counted"},
    {"+ all three", "node-limited, replicas and MXFP8 tokens"}};

// Two significant digits: the model is not more exact. Shares are those of the shown speeds.
double shownSpeed(double tokens_per_second) {
  const double unit = std::pow(10, std::floor(std::log10(tokens_per_second)) - 1);
  return unit * std::round(tokens_per_second / unit);
}

QString speedText(double tokens_per_second) {
  return formatCount(shownSpeed(tokens_per_second));
}

double changeOf(const LiveCost& cost, const LiveCost& even) {
  return shownSpeed(cost.tokens_per_second) / shownSpeed(even.tokens_per_second) - 1;
}

QString perCent(double share) {
  return QString::number(100 * share, 'f', 0) + QStringLiteral(" %");
}

}  // namespace

ThisImbalancePanel::ThisImbalancePanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Cost of this imbalance", Provenance::modelled, parent) {
  for (FittedLabel** label : {&note_, &cause_}) {
    *label = new FittedLabel(this);
    (*label)->setRole(QPalette::PlaceholderText);
    followFont(*label, [shown = *label] { shown->setFont(typeFont(Type::caption)); });
  }
  addBody(note_, 0);
  notice_ = new QLabel(this);
  notice_->setWordWrap(true);
  notice_->setAlignment(Qt::AlignCenter);
  notice_->setForegroundRole(QPalette::PlaceholderText);
  addBody(notice_);
  table_ = new FigureTable({"tokens/s per GPU", "EP 8", "EP 16", "EP 32", "EP 64", "EP 128"}, this);
  table_->setAccessibleName(title());
  addBody(table_);
  addBody(cause_, 0);
  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged, &Selection::focusChanged})
    connect(selection_, signal, this, [this] { renew(); });
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
  cause_->setVisible(notice.isEmpty());
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
  loads.is_forced = run.settings_at(frame->step)->holds(&RouterConfig::force_balance);
  std::vector<const RouterFrame*> routers;
  for (const RouterFrame& router : frame->routers)
    if (!router.tokens_per_expert.empty()) routers.push_back(&router);
  std::ranges::sort(routers, {}, [](const auto* router) { return max_vio(std::span(router->tokens_per_expert)); });
  loads.layers = routers.size();
  if (!routers.empty()) loads.fullest = routers.back()->layer;
  const std::size_t layer_count = std::min(loads.layers, kMaxLayers);
  for (std::size_t i = 1; i <= layer_count; ++i)
    loads.by_layer.push_back(routers[i * loads.layers / layer_count - 1]->tokens_per_expert);
  return loads;
}

// Computes one answer at a time, with a pause between two, since a run in training has a new load at every step. Costs
// of other runs than the present ones are not shown.
void ThisImbalancePanel::renew() {
  if (!isVisible()) return;
  const History* history = selection_->history();
  Question question;
  if (history) question.push_back(loadsOf(selection_->run()));
  const bool has_load = history && !question.front().by_layer.empty();
  for (int place = 0; place < std::ssize(selection_->histories()); ++place)
    if (place != selection_->run() && !selection_->isNoiseTwin(place)) question.push_back(loadsOf(place));
  std::erase_if(question, [](const Asked& run) { return run.by_layer.empty(); });
  const bool of_same_runs = std::ranges::equal(question, question_, {}, &Asked::run, &Asked::run);
  if (!of_same_runs || !has_load) costs_ = {};
  setProperty("busy", has_load && (computing_ || question != shown_ || costs_.even.empty()));
  if (!has_load) question_ = {};
  if (!history || history->steps().empty()) return say(noDataYetNotice(*selection_));
  if (!has_load) return say(notInLogNotice(history->info(), "tokens per expert"));
  if (of_same_runs && (computing_ || pause_.isActive() || question == question_)) return;
  question_ = question;
  computing_ = true;
  // No row has to be scrolled, and no panel moves when the rows come: header, balanced router, runs, remedies
  // and the cause below them.
  const int lines = 2 + to_int(question.size() + kVariants) + (question.front().layers > 1);
  setMinimumHeight(withType(kAboveTable, fontMetrics()) + lines * table_->verticalHeader()->defaultSectionSize());
  if (costs_.even.empty()) say("Computing...");
  worker_.start([this, question](std::stop_token stopped) {
    Costs costs = compute(question, stopped);
    if (stopped.stop_requested()) return;
    QMetaObject::invokeMethod(
        this, [this, question, costs = std::move(costs)] { show(costs, question); }, Qt::QueuedConnection);
  });
}

ThisImbalancePanel::Costs ThisImbalancePanel::compute(const Question& question, const std::stop_token& stopped) {
  const StepConfig config = askedConfig();
  const std::vector<LiveCase> cases = live_cases(config);
  std::vector<LiveCase> plain_cases;
  for (std::size_t i = 0; i < cases.size(); i += kVariants) plain_cases.push_back(cases[i]);
  static const std::vector<LiveCost> even = live_costs(config, Hypothesis::h2, {}, plain_cases);
  const int n_experts = to_int(config.shape.n_experts);
  Costs costs{even, {}, {}};
  for (const Asked& run : question) {
    std::vector<std::vector<LiveCost>> of_layers;
    for (const auto& load : run.by_layer) {
      if (stopped.stop_requested()) return costs;
      of_layers.push_back(
          live_costs(config, Hypothesis::h2, load_in_order(load, n_experts), costs.runs.empty() ? cases : plain_cases));
    }
    if (costs.runs.empty()) costs.fullest = of_layers.back();
    costs.runs.push_back(mean_costs(of_layers));
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
  fillTable();
  say({});
  renew();  // a new load may have arrived
}

const LiveCost& ThisImbalancePanel::cost(std::size_t run, std::size_t degree, std::size_t variant) const {
  return costs_.runs[run][run == 0 ? degree * kVariants + variant : degree];
}

QString ThisImbalancePanel::lostText(std::size_t run) const {
  const auto at_degree = std::ranges::find(costs_.even, ep_, [](const LiveCost& cost) { return cost.live_case.ep; });
  const auto degree = static_cast<std::size_t>(at_degree - costs_.even.begin());
  const double lost = -changeOf(cost(run, degree), costs_.even[degree]);
  if (shown_[run].is_forced) return "nothing (balance is forced)";
  return lost < kMinNamedShare ? QString("almost nothing") : QString("about %1").arg(perCent(lost));
}

void ThisImbalancePanel::addRow(const QString& name, const char* tip, const std::vector<const LiveCost*>& costs) {
  const int row = table_->rowCount();
  table_->setRowCount(row + 1);
  table_->setName(row, name, tip, row == 1);
  for (std::size_t degree = 0; degree < costs.size(); ++degree) {
    const LiveCost* first = &cost(0, degree);
    const LiveCost* best = std::ranges::max_element(first, first + kVariants, {}, &LiveCost::tokens_per_second);
    const QString speed = speedText(costs[degree]->tokens_per_second);
    const double change = changeOf(*costs[degree], costs_.even[degree]);
    QString share("0 %");
    if (std::abs(change) >= 0.005) share = QString(change > 0 ? "+" : "") + withMinus(perCent(change));
    QStringList forms{speed};
    if (row > 0) forms = {QString("%1 (%2)").arg(speed, share), speed};
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
  const bool several = shown_.size() > 1;
  const QString letter = several ? shown_[0].letter + ' ' : QString();
  for (std::size_t run = 0; run < shown_.size(); ++run) {
    if (shown_[run].is_forced) continue;
    add(several ? "load of " + shown_[run].letter : QString(kVariantRows[0].name), kVariantRows[0].tip,
        [this, run](std::size_t degree) -> auto& { return cost(run, degree); });
    if (run == 0 && shown_[0].layers > 1)
      add(letter + QString("all as layer %1").arg(shown_[0].fullest), "if all layers had the load of the fullest one",
          [this](std::size_t degree) -> auto& { return costs_.fullest[degree * kVariants]; });
  }
  for (std::size_t variant = 1; variant < kVariants && !shown_[0].is_forced; ++variant)
    add(letter + kVariantRows[variant].name, kVariantRows[variant].tip,
        [this, variant](std::size_t degree) -> auto& { return cost(0, degree, variant); });
  fillCause();
  QString mean = QString("Experts in order; ") + layersText();
  if (shown_[0].is_forced) return note_->setTexts({QString("Balance is forced: there is no imbalance")});
  const int experts = to_int(shown_[0].by_layer[0].size()), model_experts = to_int(askedConfig().shape.n_experts);
  if (experts < costs_.even.back().live_case.ep)
    mean += QString("; above EP %1 an expert is on several ranks").arg(experts);
  QString plan_words = " are planned from this step's load";
  if (experts < model_experts)
    plan_words += QString(" for %1 experts (%2 in place of each)").arg(model_experts).arg(model_experts / experts);
  note_->setTexts({mean + "; in brackets: change against a balanced router; replicas" + plan_words,
                   mean + "; replicas" + plan_words, "Replicas" + plan_words, mean});
}

// With a limit on nodes, replicas stay on the node of their group. Says where this makes the fullest rank of all three
// remedies much fuller than that of replicas alone.
void ThisImbalancePanel::fillCause() {
  const auto fullest = [this](int degree, std::size_t variant) {
    return cost(0, degree, variant).traffic.expert_rows_max_over_mean;
  };
  const auto ratio = [&](int degree) { return fullest(degree, kAllRemedies) / fullest(degree, kReplicas); };
  const int degree = std::ranges::max(std::views::iota(0, to_int(costs_.even.size())), {}, ratio);
  if (shown_[0].is_forced || ratio(degree) < kMuchFuller) return cause_->setTexts({});
  const int ep = costs_.even[degree].live_case.ep;
  const QString figures =
      QString("fullest rank %1 \u00d7 the mean (+ replicas: %2 \u00d7)")
          .arg(formatValue(fullest(degree, kAllRemedies), 3), formatValue(fullest(degree, kReplicas), 3));
  cause_->setTexts(
      {QString("+ all three at EP %1: replicas stay on the node of their group of experts; %2").arg(ep).arg(figures),
       QString("+ all three, EP %1: replicas stay on their node; %2").arg(ep).arg(figures),
       QString("+ all three, EP %1: %2").arg(ep).arg(figures)});
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

QString ThisImbalancePanel::layersText() const {
  const Asked& run = shown_.front();
  if (run.layers == 1) return QString("layer %1").arg(run.fullest);
  const QString sampled = run.layers > run.by_layer.size() ? QString("%1 of ").arg(run.by_layer.size()) : QString();
  return QString("mean of %1%2 layers").arg(sampled).arg(run.layers);
}

void ThisImbalancePanel::setDegree(int ep) {
  ep_ = ep;
  emit answerChanged();
}

QStringList ThisImbalancePanel::headline() const {
  if (costs_.even.empty()) return computing_ ? QStringList{"Computing the cost of this imbalance..."} : QStringList();
  if (std::ranges::all_of(shown_, &Asked::is_forced))
    return {"Balance is forced: no throughput is lost to imbalance (modelled)"};
  QStringList costs;
  for (std::size_t run = 0; run < shown_.size(); ++run)
    costs << (shown_.size() == 1 ? QString("this run") : shown_[run].letter) + ' ' + lostText(run);
  const QString sentence("The imbalance costs %1 of the throughput at EP %2 (experts in order, modelled)");
  return {sentence.arg(listed(costs)).arg(ep_), sentence.arg(costs.front()).arg(ep_)};
}

QStringList ThisImbalancePanel::about() const {
  if (costs_.even.empty()) return {};
  return {QString("%1; %2").arg(layersText(), kCluster), layersText()};
}

QString ThisImbalancePanel::status() const {
  if (costs_.even.empty()) return kCluster;
  QStringList steps;
  for (const Asked& run : shown_) steps << formatCount(run.step);
  steps.removeDuplicates();
  return QString("step %1, %2, %3").arg(listed(steps), kCluster, layersText());
}

ValueTable ThisImbalancePanel::table() const {
  ValueTable table({"step", "run", "EP", "load", "node-limited", "replicas", "payload", "modelled [tokens/s/GPU]",
                    "band low [tokens/s/GPU]", "band high [tokens/s/GPU]", "lost against a balanced router [share]",
                    "experts of the fullest rank / mean:3", "copies per token:3"});
  const auto add = [&](const Asked* run, const LiveCost& cost, const LiveCost& even) {
    table.add(run ? table_value(run->step) : TableValue(), run ? run->letter.toStdString() : std::string(),
              cost.live_case.ep, std::string(run ? "this run" : "even"), cost.live_case.node_limited,
              cost.live_case.balanced, std::string(payload_name(cost.live_case.payload)), cost.tokens_per_second,
              cost.band.low, cost.band.high, 1 - cost.tokens_per_second / even.tokens_per_second,
              cost.traffic.expert_rows_max_over_mean, cost.traffic.copies_per_token);
  };
  for (std::size_t degree = 0; degree < costs_.even.size(); ++degree) {
    const LiveCost& even = costs_.even[degree];
    add(nullptr, even, even);
    for (std::size_t run = 0; run < shown_.size(); ++run)
      for (std::size_t variant = 0; variant < (run == 0 ? kVariants : 1); ++variant)
        add(&shown_[run], cost(run, degree, variant), even);
  }
  return table;
}

QString ThisImbalancePanel::explain() const {
  return explanation({measuredWhere(selection_->history())});
}

}  // namespace moescope
