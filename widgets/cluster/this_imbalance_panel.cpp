#include "widgets/cluster/this_imbalance_panel.h"

#include <algorithm>
#include <cmath>

#include "core/frame/router_stats.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/metric_text.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr int kAnswerPauseMs = 3000;  // pause between two answers, each of which takes a core for a while
constexpr int kAnsweredEp = 32;
constexpr double kMinNamedShare = 0.01;  // smallest share of the throughput that is named

StepConfig askedConfig() {
  return published_b200_config(true, AllToAll::deep_ep);
}

// Rows of the table. Those behind the even load are variants of the run's load, which a run with forced balance lacks.
struct TableRow {
  const char *name, *tip;
};
constexpr TableRow kRows[] = {
    {"forced balance", "round-robin, as in the published runs: the experts of a token are on one rank"},
    {"even load", "a router that sends as many tokens to every expert; the percentages are of this throughput"},
    {"this load", "experts in order, BF16 tokens"},
    {"+ node-limited", "a token uses experts of 4 of 8 groups"},
    {"+ balanced placement", "experts with many tokens have replicas, and all are placed by this load"},
    {"+ MXFP8 tokens", "rows of E4M3 with E8M0 scales in the dispatch"},
    {"+ all three", "node-limited, balanced placement and MXFP8 tokens"}};
constexpr int kForcedRow = 0, kEvenRow = 1, kLoadRow = 2;

QString speedText(double tokens_per_second) {
  return formatCount(std::round(tokens_per_second));
}

// Returns the share of the throughput with an even load that this load loses.
double lostShare(const LiveCost& cost, const LiveCost& even) {
  return 1 - cost.tokens_per_second / even.tokens_per_second;
}

// "41 %": the model is not exact to a tenth of a per cent.
QString lostText(double lost) {
  return QString::number(100 * lost, 'f', 0) + QStringLiteral(" %");
}

// "layer 1, the fullest of 8".
QString placeOf(const TelemetryFrame& frame, int layer) {
  const auto fullness = [](const RouterFrame& router) { return max_vio(std::span(router.tokens_per_expert)); };
  const auto fullest = std::ranges::max_element(frame.routers, {}, fullness);
  const QString place = QString("layer %1").arg(layer);
  if (frame.routers.size() < 2) return place;
  if (fullest->layer == layer) return QString("%1, the fullest of %2").arg(place).arg(frame.routers.size());
  return QString("%1; the fullest is layer %2").arg(place).arg(fullest->layer);
}

}  // namespace

ThisImbalancePanel::ThisImbalancePanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Cost of this imbalance", Provenance::modelled, parent) {
  showAnswers();
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
  emit answerChanged();
}

// Computes one answer at a time, with a pause between two, since a run in training has a new load at every step.
void ThisImbalancePanel::renew() {
  if (!isVisible() || computing_) return;
  setProperty("busy", false);
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return say(noDataYetNotice(*selection_));
  const auto frame = selection_->frame();
  Asked question{{}, frame ? frame->step : -1, selection_->layer(), {}, false};
  if (const RouterFrame* router = find_router(frame.get(), question.layer)) question.load = router->tokens_per_expert;
  if (question.load.empty()) return say(notInLogNotice(history->info(), "tokens per expert"));
  question.place = placeOf(*frame, question.layer);
  question.is_forced = history->settings_at(frame->step)->holds(&RouterConfig::force_balance);
  if (question == question_) return;
  setProperty("busy", true);
  if (pause_.isActive()) return;  // renew() is called again after the pause
  question_ = question;
  computing_ = true;
  if (costs_.even.empty()) say("Computing...");
  worker_.start([this, question](std::stop_token stopped) {
    const StepConfig config = askedConfig();
    const std::vector<LiveCase> cases = live_cases(config);
    std::vector<LiveCase> plain_cases;
    for (std::size_t i = 0; i < cases.size(); i += kVariants) plain_cases.push_back(cases[i]);
    Costs costs{live_costs(config, Hypothesis::h2, {}, plain_cases),
                live_costs(config, Hypothesis::h2, question.load, cases)};
    if (stopped.stop_requested()) return;
    QMetaObject::invokeMethod(
        this, [this, question, costs = std::move(costs)] { show(costs, question); }, Qt::QueuedConnection);
  });
}

void ThisImbalancePanel::show(Costs costs, const Asked& question) {
  costs_ = std::move(costs);
  shown_ = question;
  computing_ = false;
  update();  // repaints the header as well, which names the step
  setProperty("busy", false);
  pause_.start();
  table_->setRowCount(question.is_forced ? kLoadRow : to_int(std::size(kRows)));
  for (int row = 0; row < table_->rowCount(); ++row)
    table_->setName(row, kRows[row].name, kRows[row].tip, row == kLoadRow);
  for (int column = 0; column < std::ssize(costs_.even); ++column) fillColumn(column);
  note_->setTexts(noteForms());
  say({});
  renew();  // a new load may have arrived
}

void ThisImbalancePanel::fillColumn(int column) {
  const LiveCost& even = costs_.even[column];
  const LiveCost* first = &costs_.load[static_cast<std::size_t>(column) * kVariants];
  const LiveCost* best = std::ranges::max_element(first, first + kVariants, {}, &LiveCost::tokens_per_second);
  for (int row = 0; row < table_->rowCount(); ++row) {
    const LiveCost& cost = row < kLoadRow ? even : first[row - kLoadRow];
    const double speed = row == kForcedRow ? even.forced_tokens_per_second : cost.tokens_per_second;
    const QString per_cent = QString::number(100 * (speed / even.tokens_per_second - 1), 'f', 0) + QStringLiteral(" %");
    const QString change = per_cent.startsWith(QLatin1Char('-')) ? withMinus(per_cent) : QLatin1Char('+') + per_cent;
    const QStringList forms = row == kEvenRow ? QStringList{speedText(speed)}
                                              : QStringList{QString("%1 (%2)").arg(speedText(speed), change), change};
    table_->setFigure(row, column + 1, forms, row == kForcedRow ? kRows[row].tip : tipOf(cost), &cost == best);
  }
}

QString ThisImbalancePanel::tipOf(const LiveCost& cost) const {
  QString tip = QString(
                    "modelled %1 tokens/s per GPU, between %2 and %3\nexperts of the fullest rank: %4 \u00d7 the mean\n"
                    "%5 copies per token, %6 over the network")
                    .arg(speedText(cost.tokens_per_second), speedText(cost.band.low), speedText(cost.band.high),
                         formatValue(cost.traffic.expert_rows_max_over_mean, 3),
                         formatValue(cost.traffic.copies_per_token, 3), formatValue(cost.traffic.network, 3));
  if (cost.gradients_sent > 0)
    tip += QString("\nnot included: replicas send the gradients of %1 experts in each layer").arg(cost.gradients_sent);
  return tip;
}

QStringList ThisImbalancePanel::noteForms() const {
  const QString figures = "in brackets: change against an even load at this EP degree";
  const QString how = figures + QString("; MXFP8 experts, DeepEP");
  return {how + QString("; load %1, some numbers fitted").arg(measuredWhere(selection_->history())), how, figures};
}

// The costs at the EP degree of the published runs.
ThisImbalancePanel::AnsweredCosts ThisImbalancePanel::answered() const {
  const auto even = std::ranges::find(costs_.even, kAnsweredEp, [](const LiveCost& cost) { return cost.live_case.ep; });
  const LiveCost* load = &costs_.load[(even - costs_.even.begin()) * kVariants];
  return {*even, load[0], load[kVariants - 1]};
}

Panel::Answer ThisImbalancePanel::answer() const {
  if (costs_.even.empty() || !notice_->text().isEmpty()) return {};
  if (shown_.is_forced)
    return {{},
            {QString("Nothing: balance is forced in this run, so that its load is even by construction"),
             QString("Nothing: balance is forced")}};
  const auto& [even, load, all] = answered();
  const double lost = lostShare(load, even);
  const QString at = QString(" at EP %1").arg(kAnsweredEp);
  if (lost < kMinNamedShare) return {{}, {QString("Almost nothing") + at, "Almost nothing"}};
  const QString share = QString("%1 of the throughput").arg(lostText(lost)) + at;
  const QString speeds = share + QString(": %1 tokens/s per GPU, with an even load %2")
                                     .arg(speedText(load.tokens_per_second), speedText(even.tokens_per_second));
  return {{}, {speeds + QString(", with all three remedies %1").arg(speedText(all.tokens_per_second)), speeds, share}};
}

QStringList ThisImbalancePanel::headline() const {
  if (computing_ && costs_.even.empty()) return {"Computing the cost of this imbalance..."};  // keeps the line's place
  if (costs_.even.empty() || !notice_->text().isEmpty()) return {};
  const QString run = selection_->histories().size() > 1 ? runLetter(*selection_, selection_->run()) : "this run";
  if (shown_.is_forced)
    return {QString("No imbalance: balance is forced in %1, so that its load is even by construction").arg(run),
            QString("No imbalance: balance is forced in %1").arg(run)};
  const auto& [even, load, all] = answered();
  const double lost = lostShare(load, even);
  const QString share = lost < kMinNamedShare ? QString("almost no") : lostText(lost) + " of the";
  const QString cost = QString("would cost %1 throughput at EP %2 (modelled)").arg(share).arg(kAnsweredEp);
  return {QString("The load of layer %1 of %2 in all layers %3").arg(shown_.layer).arg(run, cost),
          QString("The load of layer %1 in all layers %2").arg(shown_.layer).arg(cost)};
}

QStringList ThisImbalancePanel::about() const {
  const QString cluster = "671B on 256 B200s";
  if (costs_.even.empty()) return {};
  if (shown_.is_forced) return {cluster};
  return {QString("%1; %2").arg(shown_.place, cluster), shown_.place, cluster};
}

QString ThisImbalancePanel::status() const {
  const QString cluster = "671B on 256 GPUs";
  if (costs_.even.empty() || shown_.is_forced) return cluster;
  return QString("%1, load of %2, step %3").arg(cluster, shown_.place, formatCount(shown_.step));
}

ValueTable ThisImbalancePanel::table() const {
  ValueTable table({{"step"},
                    {"layer"},
                    {"EP"},
                    {"load"},
                    {"node-limited"},
                    {"balanced placement"},
                    {"payload"},
                    {"modelled", "tokens/s/GPU"},
                    {"band low", "tokens/s/GPU"},
                    {"band high", "tokens/s/GPU"},
                    {"forced balance", "tokens/s/GPU"},
                    {"lost against an even load", "share"},
                    {"experts of the fullest rank / mean", "", 3},
                    {"copies per token", "", 3}});
  const auto add = [&](const char* load, const LiveCost& cost, const LiveCost& even) {
    table.add(shown_.step, shown_.layer, cost.live_case.ep, std::string(load), cost.live_case.node_limited,
              cost.live_case.balanced, std::string(payload_name(cost.live_case.payload)), cost.tokens_per_second,
              cost.band.low, cost.band.high, cost.forced_tokens_per_second, lostShare(cost, even),
              cost.traffic.expert_rows_max_over_mean, cost.traffic.copies_per_token);
  };
  for (std::size_t i = 0; i < costs_.even.size(); ++i) {
    add("even", costs_.even[i], costs_.even[i]);
    for (std::size_t v = 0; v < kVariants && !shown_.is_forced; ++v)
      add("this run", costs_.load[i * kVariants + v], costs_.even[i]);
  }
  return table;
}

QString ThisImbalancePanel::explain() const {
  return explanation({measuredWhere(selection_->history())});
}

}  // namespace moescope
