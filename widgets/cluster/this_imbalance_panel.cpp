#include "widgets/cluster/this_imbalance_panel.h"

#include <QTimer>
#include <algorithm>
#include <cmath>

#include "core/numerics/processor.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/metric_text.h"

namespace moescope {
namespace {

constexpr int kAnswerPauseMs = 3000;  // pause between two answers, each of which takes a core for a while
constexpr int kAnsweredEp = 32;
constexpr double kMinNamedShare = 0.01;  // smallest share of the throughput that is named

StepConfig askedConfig() {
  return published_b200_config(true, AllToAll::deep_ep);
}

// Returns the lost share of the throughput, compared with forced balance and BF16 tokens at the same EP degree.
double lostOf(const LiveCost& cost, const LiveCost& first_of_row) {
  return 1 - cost.tokens_per_second / first_of_row.forced_tokens_per_second;
}

// Returns the bytes that a GPU sends in a step, over all MoE layers, to add up the replicas' gradients in BF16.
double replicaBytes(const LiveCost& cost) {
  const ModelShape shape = askedConfig().shape;
  const double expert = 3.0 * (shape.row_dim() * shape.moe_inter) * 2;
  return cost.gradients_sent * expert * shape.n_moe_layers() / cost.live_case.ep;
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
  table_ = new FigureTable(
      {"EP", "forced\nbalance", "this\nrouter", "node-\nlimited", "balanced\nplacement", "MXFP8\ntokens", "all\nthree"},
      this);
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
}

// Computes one answer at a time, with a pause between two, since a run in training has a new load at every step.
void ThisImbalancePanel::renew() {
  if (!isVisible() || computing_) return;
  setProperty("busy", false);
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return say(noDataYetNotice(*selection_));
  const auto frame = selection_->frame();
  Asked question{{},
                 frame ? frame->step : -1,
                 selection_->layer(),
                 QString::fromStdString(multiplied_by(history->info().kernels))};
  if (const RouterFrame* router = find_router(frame.get(), question.layer)) question.load = router->tokens_per_expert;
  if (question.load.empty()) return say(notInLogNotice(history->info(), "tokens per expert"));
  if (question == question_) return;
  setProperty("busy", true);
  if (pause_.isActive()) return;  // renew() is called again after the pause
  question_ = question;
  computing_ = true;
  if (costs_.empty()) say("Computing...");
  worker_.start([this, question](std::stop_token stopped) {
    const StepConfig config = askedConfig();
    const std::vector<LiveCase> cases = live_cases(config);
    std::vector<LiveCost> costs = live_costs(config, Hypothesis::h2, question.load, cases);
    const auto answered = std::ranges::find(cases, kAnsweredEp, &LiveCase::ep);
    costs.push_back(live_costs(config, Hypothesis::h2, {}, {&*answered, 1}).front());
    if (stopped.stop_requested()) return;
    QMetaObject::invokeMethod(
        this, [this, question, costs = std::move(costs)] { show(costs, question); }, Qt::QueuedConnection);
  });
}

void ThisImbalancePanel::show(std::vector<LiveCost> costs, const Asked& question) {
  even_ = costs.back();
  costs.pop_back();
  costs_ = std::move(costs);
  shown_ = question;
  computing_ = false;
  update();  // repaints the header as well, which names the step
  setProperty("busy", false);
  pause_.start();
  const int rows = to_int(costs_.size()) / kVariants;
  table_->setRowCount(rows);
  for (int row = 0; row < rows; ++row) fillRow(row);
  note_->setTexts(noteForms());
  say({});
  renew();  // a new load may have arrived
}

void ThisImbalancePanel::fillRow(int row) {
  const LiveCost* first = &costs_[static_cast<std::size_t>(row) * kVariants];
  table_->setFigure(row, 0, {QString::number(first->live_case.ep)}, "expert-parallel ranks, in nodes of 8", true);
  table_->setFigure(row, 1, {formatCount(std::round(first->forced_tokens_per_second))},
                    "forced round-robin, experts in order, BF16 tokens");
  const LiveCost* best = std::ranges::max_element(first, first + kVariants, {}, &LiveCost::tokens_per_second);
  for (int v = 0; v < kVariants; ++v) {
    const LiveCost& cost = first[v];
    const QString speed = formatCount(std::round(cost.tokens_per_second));
    const double lost = lostOf(cost, *first);
    const QString change = QString::number(-100 * lost, 'f', 0) + QStringLiteral(" %");
    const QString signed_change = lost < 0 ? QLatin1Char('+') + change : withMinus(change);
    table_->setFigure(row, v + 2, {QStringLiteral("%1 (%2)").arg(speed, signed_change), signed_change}, tipOf(cost),
                      &cost == best);
  }
}

QString ThisImbalancePanel::tipOf(const LiveCost& cost) const {
  QString tip =
      QString(
          "modelled %1 tokens/s per GPU, between %2 and %3\nexperts of the fullest rank: %4 \u00d7 the mean\n"
          "%5 copies per token, %6 over the network")
          .arg(formatCount(std::round(cost.tokens_per_second)), formatCount(std::round(cost.band.low)),
               formatCount(std::round(cost.band.high)), formatValue(cost.traffic.expert_rows_max_over_mean, 3),
               formatValue(cost.traffic.copies_per_token, 3), formatValue(cost.traffic.network, 3));
  if (cost.gradients_sent > 0)
    tip += QString(
               "\nnot included: replicas send the gradients of %1 experts to their ranks in each layer and step,\n%2 a "
               "GPU in BF16")
               .arg(cost.gradients_sent)
               .arg(formatBytes(replicaBytes(cost)));
  return tip;
}

QStringList ThisImbalancePanel::noteForms() const {
  const QString figures = "tokens/s per GPU and the change against forced balance";
  const QString how = figures + QString("; MXFP8 experts, DeepEP");
  const QString load =
      how + QString("; load %1, cost modelled with fitted numbers").arg(measuredWhere(selection_->history()));
  return {shown_.units.isEmpty() ? load : load + QString("; the run's GEMMs: %1").arg(shown_.units), load, how,
          figures};
}

// The answer is for the EP degree of the published runs: what this load costs beyond an even load, which has a cost,
// too, because a router sends the copies of a token to several ranks, and forced round-robin to one.
Panel::Answer ThisImbalancePanel::answer() const {
  if (costs_.empty() || !notice_->text().isEmpty()) return {};
  const auto as_logged_at =
      std::ranges::find(costs_, kAnsweredEp, [](const LiveCost& cost) { return cost.live_case.ep; });
  const LiveCost &as_logged = *as_logged_at, &all = *(as_logged_at + kVariants - 1);
  const QString question = "What does the imbalance cost?", at = QString(" at EP %1").arg(as_logged.live_case.ep);
  const double lost_now = lostOf(as_logged, as_logged), lost_then = lostOf(all, as_logged),
               lost_even = lostOf(even_, as_logged);
  if (lost_now < kMinNamedShare) return {question, {QString("Almost nothing") + at, "Almost nothing"}};
  const QString lost =
      QString("%1 of the throughput").arg(formatPercent(std::max(0.0, lost_now - lost_even))) + at +
      QString(": this load loses %1, an even load %2").arg(formatPercent(lost_now), formatPercent(lost_even));
  const QString remainder = lost_then < kMinNamedShare
                                ? QString("almost none with all three remedies")
                                : QString("%1 with all three remedies").arg(formatPercent(lost_then));
  return {question, {lost + QStringLiteral("; ") + remainder, lost}};
}

QString ThisImbalancePanel::status() const {
  if (costs_.empty()) return QString("671B on 256 GPUs");
  return QString("671B on 256 GPUs, layer %1, step %2").arg(shown_.layer).arg(formatCount(shown_.step));
}

ValueTable ThisImbalancePanel::table() const {
  ValueTable table({{"step"},
                    {"layer"},
                    {"EP"},
                    {"node-limited"},
                    {"balanced placement"},
                    {"payload"},
                    {"modelled", "tokens/s/GPU"},
                    {"band low", "tokens/s/GPU"},
                    {"band high", "tokens/s/GPU"},
                    {"forced balance", "tokens/s/GPU"},
                    {"lost", "share"},
                    {"experts of the fullest rank / mean", "", 3},
                    {"copies per token", "", 3}});
  for (const LiveCost& cost : costs_)
    table.add(shown_.step, shown_.layer, cost.live_case.ep, cost.live_case.node_limited, cost.live_case.balanced,
              std::string(payload_name(cost.live_case.payload)), cost.tokens_per_second, cost.band.low, cost.band.high,
              cost.forced_tokens_per_second, cost.lost(), cost.traffic.expert_rows_max_over_mean,
              cost.traffic.copies_per_token);
  return table;
}

QString ThisImbalancePanel::explain() const {
  return explanation({measuredWhere(selection_->history())});
}

}  // namespace moescope
