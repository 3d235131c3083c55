#include "widgets/all_to_all/expert_placement_panel.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "core/parallel/replication.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/csv.h"
#include "widgets/panel/flat_combo.h"

namespace moescope {
namespace {

using Kind = PlacementChoice::Kind;
constexpr const char* kCounted = "contiguous";  // placement of recordings that do not state theirs
constexpr int kReplanSteps[] = {0, 10, 50, 100, 500};
constexpr double kBf16Bytes = 2;
constexpr double kWorthMoving = 0.05;  // of the mean: smaller gains of a placement are not named

QStringList placementNames() {
  return {"in order", "random", "balanced", "by hand"};
}

double overload(const Placement& placement, std::span<const std::uint64_t> load) {
  const std::vector<double> loads = rank_loads(placement, load);
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  return sum > 0 ? *std::ranges::max_element(loads) * static_cast<double>(loads.size()) / sum : 0;
}

}  // namespace

ExpertPlacementPanel::ExpertPlacementPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Expert placement", Provenance::counted, parent) {
  showAnswers();
  addControl(new LayerCombo(selection, this));
  auto* row = new QWidget(this);
  auto* layout = plainRow(row, 0);
  const QStringList names = placementNames();
  const QStringList tips{"Expert e on rank e R / E", "Shuffled, as many on each rank",
                         "By the rule of EPLB, DeepSeek's balancer for inference: the heaviest experts get replicas "
                         "in one more slot per rank, then all are packed by this step's load",
                         "Your own placement: drag experts from rank to rank in the picture"};
  for (std::size_t i = 0; i < kKinds; ++i) {
    buttons_[i] = new QToolButton(row);
    buttons_[i]->setText(names[static_cast<int>(i)]);
    buttons_[i]->setToolTip(tips[static_cast<int>(i)]);
    buttons_[i]->setCheckable(true);
    buttons_[i]->setProperty(kSwitchProperty, true);
    buttons_[i]->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    connect(buttons_[i], &QToolButton::clicked, this, [this, i] { choose(static_cast<Kind>(i)); });
    layout->addWidget(buttons_[i]);
  }
  planned_ = new FlatCombo(this);
  for (const int steps : kReplanSteps)
    planned_->addItem(steps == 0 ? QString("this step's load") : QString("load of %1 steps").arg(steps), steps);
  planned_->setAccessibleName("Load for the balanced placement");
  planned_->setToolTip(
      "The load that the balanced placement is planned from. A training does not know the load of the step\n"
      "it is about to take: it can plan every N steps from the load of the N steps before");
  connect(planned_, &QComboBox::activated, this, [this] { choose(Kind::balanced); });
  addControl(planned_);
  addBody(row, 0);
  note_ = new QLabel(this);
  note_->setWordWrap(true);
  addBody(note_, 0);
  strip_ = new PlacementStrip(this);
  strip_->refill = [this] { refill(); };
  followSelection(strip_);
  connect(strip_, &PlacementStrip::expertChosen, selection_, &Selection::setExpert);
  connect(strip_, &PlacementStrip::moved, this, &ExpertPlacementPanel::move);
  addBody(strip_);
}

void ExpertPlacementPanel::setAsked(const QString& placement) {
  asked_ = placement;
  strip_->markDirty();
}

QString ExpertPlacementPanel::shown() const {
  if (!asked_.isEmpty()) return asked_;
  const History* history = selection_->history();
  const auto counted =
      history && frame_ ? history->settings_at(frame_->step)->value(&ParallelConfig::placement) : std::nullopt;
  return QString::fromStdString(counted.value_or(kCounted));
}

PlacementChoice ExpertPlacementPanel::choice() const {
  try {
    return parse_placement_choice(shown().toStdString());
  } catch (const std::runtime_error&) {
    return {};  // the recording is damaged
  }
}

std::vector<std::uint64_t> ExpertPlacementPanel::load() const {
  if (!frame_) return {};
  const auto router = std::ranges::find(frame_->routers, selection_->layer(), &RouterFrame::layer);
  if (router == frame_->routers.end()) return {};
  return {router->tokens_per_expert.begin(), router->tokens_per_expert.end()};
}

std::int64_t ExpertPlacementPanel::placedSince() const {
  std::int64_t since = 0;
  for (const Marker& marker : selection_->history()->markers())
    if (marker.key == Setting(&ParallelConfig::placement).key() && marker.step <= frame_->step)
      since = std::max(since, marker.step);
  return since;
}

std::vector<std::uint64_t> ExpertPlacementPanel::plannedOf(const PlacementChoice& choice, std::int64_t step,
                                                           int n_experts) const {
  const std::int64_t every = choice.replan_every, planned_at = step / every * every;
  const std::int64_t since = tried_out_ ? 0 : placedSince();
  if (planned_at <= since) return {};
  const StepRange range{std::max(planned_at - every, since), planned_at - 1};
  const History& history = *selection_->history();
  const auto u = history.utilisation(selection_->layer(), edges_of(history.steps_in(range)));
  const auto of = load();
  const double mean = std::accumulate(of.begin(), of.end(), 0.0) / n_experts;
  std::vector<std::uint64_t> sum(static_cast<std::size_t>(n_experts));
  for (std::size_t i = 0; i < u.size(); ++i)
    if (u[i] > 0) sum[i % sum.size()] += static_cast<std::uint64_t>(std::llround(u[i] * mean));
  return sum;
}

Placement ExpertPlacementPanel::placed(const PlacementChoice& choice, std::int64_t step,
                                       std::span<const std::uint64_t> own_load) const {
  const int n_experts = static_cast<int>(own_load.size());
  if (choice.replan_every == 0) return place(choice, *site(), n_experts, own_load);
  return place(choice, *site(), n_experts, plannedOf(choice, step, n_experts));
}

// The bytes that adding up the replicas' gradients takes, which are not part of the dispatch.
QString ExpertPlacementPanel::costOfReplicas(const PlacementChoice& choice,
                                             std::span<const std::uint64_t> own_load) const {
  const Placement now = placed(choice, frame_->step, own_load);
  if (choice.kind != Kind::balanced || !now.replicated()) return {};
  const History& history = *selection_->history();
  const double hidden = history.settings_at(frame_->step)->value(&ModelConfig::moe_inter).value_or(0);
  const double expert = 3.0 * history.info().dim * hidden * kBf16Bytes;
  const auto bytes = [expert](int experts) {
    return expert > 0 ? QString(" (%1 in BF16)").arg(formatBytes(experts * expert)) : QString();
  };
  const int gradients = gradients_sent(now);
  QString text = QString("Replicas send the gradients of %1 experts to their ranks in each step%2")
                     .arg(gradients)
                     .arg(bytes(gradients));
  if (choice.replan_every == 0) return text + QLatin1Char('.');
  const std::int64_t planned_at = frame_->step / choice.replan_every * choice.replan_every;
  const int sent = experts_sent(placed(choice, planned_at - 1, own_load), now);
  return text + QString("; the plan of step %1 moved the weights of %2 to other ranks%3.")
                    .arg(planned_at)
                    .arg(sent)
                    .arg(bytes(sent));
}

std::optional<PlacementSite> ExpertPlacementPanel::site() const {
  const History* history = selection_->history();
  if (!history || !frame_) return std::nullopt;
  PlacementSite site{selection_->layer(), history->info().ranks, std::max(1, history->info().ranks_per_node), 1};
  const auto router = std::ranges::find(frame_->routers, site.layer, &RouterFrame::layer);
  if (router != frame_->routers.end() && router->volume.ranks > 0) {
    site.ranks = router->volume.ranks;
    site.ranks_per_node = std::max(1, router->volume.ranks_per_node);
  }
  site.n_groups = history->settings_at(frame_->step)->value(&RouterConfig::n_groups).value_or(1);
  if (site.ranks < 1) return std::nullopt;
  return site;
}

void ExpertPlacementPanel::refill() {
  const History* history = selection_->history();
  frame_ = history ? selection_->frame() : nullptr;
  strip_->setChosen(selection_->expert());
  const auto of = load();
  const auto where = site();
  for (QToolButton* button : buttons_) button->setEnabled(where && !of.empty());
  note_->setText({});
  if (!hasSteps(strip_)) return;
  if (of.empty() || !where) return strip_->setNotice(notInLogNotice(history->info(), "tokens per expert and ranks"));
  PlacementChoice now = choice();
  if (!placement_problem(now, static_cast<int>(of.size()), where->ranks).empty()) now = {};
  strip_->setNotice({});
  const auto counted = history->settings_at(frame_->step)->value(&ParallelConfig::placement).value_or(kCounted);
  tried_out_ = placement_choice_text(now) != counted;
  if (now.kind == Kind::balanced) planned_->setCurrentIndex(std::max(planned_->findData(now.replan_every), 0));
  const QStringList names = placementNames();
  for (std::size_t i = 0; i < kKinds; ++i) {
    const auto kind = static_cast<Kind>(i);
    const bool mine = kind == now.kind;
    const PlacementChoice tried =
        mine ? now : PlacementChoice{kind, {}, kind == Kind::balanced ? planned_->currentData().toInt() : 0};
    const double each = overloads_[i] = overload(placed(tried, frame_->step, of), of);
    buttons_[i]->setChecked(mine);
    buttons_[i]->setText(kind == Kind::by_hand && !mine
                             ? names[static_cast<int>(i)]
                             : QString("%1: %2").arg(names[static_cast<int>(i)]).arg(each, 0, 'f', 2));
  }
  note_->setText(costOfReplicas(now, of));
  note_->setVisible(!note_->text().isEmpty());
  strip_->setPlacement(placed(now, frame_->step, of), of, where->ranks_per_node);
}

void ExpertPlacementPanel::choose(PlacementChoice::Kind kind) {
  if (kind == Kind::by_hand &&
      choice().kind != Kind::by_hand) {  // starts from the shown placement, which can be dragged further
    const Placement seen = strip_->placement();
    PlacementChoice by_hand{Kind::by_hand, {}};
    for (int e = 0; e < seen.n_experts(); ++e)
      by_hand.by_hand[selection_->layer()].push_back(
          seen.replica_rank[static_cast<std::size_t>(seen.first_replica[static_cast<std::size_t>(e)])]);
    emit placementRequested(QString::fromStdString(placement_choice_text(by_hand)));
  } else if (kind != Kind::by_hand) {
    const int every = kind == Kind::balanced ? planned_->currentData().toInt() : 0;
    emit placementRequested(QString::fromStdString(placement_choice_text({kind, {}, every})));
  }
  strip_->markDirty();
}

// Other layers keep their placement by hand. Of an expert with replicas, the one that is dragged stays.
void ExpertPlacementPanel::move(int expert, int to_rank) {
  PlacementChoice next = choice();
  if (next.kind != Kind::by_hand) next = {Kind::by_hand, {}};
  const Placement seen = strip_->placement();
  std::vector<std::int32_t>& ranks = next.by_hand[selection_->layer()];
  ranks.clear();
  for (int e = 0; e < seen.n_experts(); ++e)
    ranks.push_back(seen.replica_rank[static_cast<std::size_t>(seen.first_replica[static_cast<std::size_t>(e)])]);
  ranks[static_cast<std::size_t>(expert)] = to_rank;
  emit placementRequested(QString::fromStdString(placement_choice_text(next)));
}

QString ExpertPlacementPanel::status() const {
  if (!frame_) return {};
  const QString tried = live_ ? QString("copies are counted with it from the next step on")
                              : QString("only the load follows it, the copies do not");
  return tried_out_ ? timeStatus(frame_->step, true) + QStringLiteral(", ") + tried : timeStatus(frame_->step, true);
}

Panel::Answer ExpertPlacementPanel::answer() const {
  if (!frame_ || !strip_->notice().isEmpty() || load().empty()) return {};
  const auto shown = static_cast<std::size_t>(choice().kind), balanced = static_cast<std::size_t>(Kind::balanced);
  const QString now = QString::number(overloads_[shown], 'f', 2), question = QString("Would another placement help?");
  if (shown == balanced)
    return {question,
            {QString("This one is balanced: the fullest rank gets %1 \u00d7 the mean").arg(now),
             QString("Balanced: %1 \u00d7 the mean").arg(now)}};
  if (overloads_[balanced] + kWorthMoving > overloads_[shown])
    return {question,
            {QString("No: the fullest rank gets %1 \u00d7 the mean").arg(now), QString("No: %1 \u00d7").arg(now)}};
  const QString then = QString::number(overloads_[balanced], 'f', 2);
  return {question,
          {QString("Yes: balanced, the fullest rank gets %1 instead of %2 \u00d7 the mean").arg(then, now),
           QString("Yes: balanced %1 instead of %2").arg(then, now)}};
}

QString ExpertPlacementPanel::csv() const {
  QString text = QStringLiteral("layer,expert,replica,rank,copies\n");
  const Placement& seen = strip_->placement();
  const auto of = load();
  for (int e = 0; e < seen.n_experts() && e < static_cast<int>(of.size()); ++e) {
    const int first = seen.first_replica[static_cast<std::size_t>(e)];
    const int replicas = seen.first_replica[static_cast<std::size_t>(e) + 1] - first;
    for (int r = 0; r < replicas; ++r)
      text += csvRow(selection_->layer(), e, r, seen.replica_rank[static_cast<std::size_t>(first + r)],
                     digits(static_cast<double>(of[static_cast<std::size_t>(e)]) / replicas, 10));
  }
  return text;
}

}  // namespace moescope
