#include "widgets/all_to_all/expert_placement_panel.h"

#include <QMouseEvent>
#include <QPainter>
#include <QScopedValueRollback>
#include <QStandardItemModel>
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "core/frame/router_stats.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/controls.h"
#include "widgets/plots/color_scale.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr double kLineRoom = 3;  // of a number to a line
constexpr double kGap = 0.12;    // between two columns, as a share of a column

using Kind = PlacementChoice::Kind;
constexpr const char* kCounted = "contiguous";          // placement of recordings that do not state theirs
constexpr int kDegrees[] = {2, 4, 8, 16, 32, 64, 128};  // EP degrees that a log without ranks can be shown at
constexpr int kManyExperts = 64;                        // from which on less than a node is not shown
constexpr int kRanksOfNode = 8;                         // of such a log
constexpr int kReplanSteps[] = {0, 10, 50, 100, 500};
constexpr double kBf16Bytes = 2;
constexpr double kMinNamedGain = 0.05;  // smallest gain that is named, as a share of the mean

QStringList placementNames(const PlacementChoice& chosen) {
  return {"in order", "random", chosen.has_replicas ? "balanced, replicas" : "balanced", "by hand"};
}

// Returns the ranks of the expert's replicas.
std::span<const std::int32_t> ranksOf(const Placement& placement, int expert) {
  const int first = placement.first_replica[expert];
  return std::span(placement.replica_rank).subspan(first, placement.first_replica[expert + 1] - first);
}

// Returns the rank of each expert, [E]; of an expert with replicas, the rank of the first.
std::vector<std::int32_t> firstRanks(const Placement& placement) {
  std::vector<std::int32_t> ranks;
  for (int e = 0; e < placement.n_experts(); ++e) ranks.push_back(ranksOf(placement, e).front());
  return ranks;
}

}  // namespace

PlacementStrip::PlacementStrip(QWidget* parent) : PlotFrame(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
}

void PlacementStrip::setPlacement(const Placement& placement, std::vector<std::uint64_t> load_E, int ranks_per_node,
                                  bool are_shares) {
  placement_ = placement;
  are_shares_ = are_shares;
  load_ = std::move(load_E);
  ranks_per_node_ = std::max(1, ranks_per_node);
  blocks_.clear();
  rank_load_.assign(placement.ranks, 0);
  for (int e = 0; e < placement.n_experts(); ++e) {
    const auto ranks = ranksOf(placement, e);
    const double share = static_cast<double>(load_[e]) / std::max<std::size_t>(1, ranks.size());
    for (const int rank : ranks) {
      double& height = rank_load_[rank];
      blocks_.push_back({e, rank, height, height + share});
      height += share;
    }
  }
  const auto fullest = std::ranges::max_element(rank_load_);
  mean_ = std::accumulate(rank_load_.begin(), rank_load_.end(), 0.0) / std::max<std::size_t>(1, rank_load_.size());
  top_ = rank_load_.empty() ? 1 : std::max({1.0, *fullest, 1.05 * mean_});
  for (const double load : other_.load_R) top_ = std::max(top_, load * mean_);
  if (mean_ > 0) top_ = mean_ * niceRange(0, top_ / mean_, false).high;
  fullest_ = rank_load_.empty() || *fullest <= 1.001 * mean_ ? -1 : to_int(fullest - rank_load_.begin());
}

void PlacementStrip::setChosen(int expert) {
  chosen_ = expert;
  update();
}

QMargins PlacementStrip::margins() const {
  return {axisLabelWidth(), withType(18), fontMetrics().horizontalAdvance("mean") + kSpace8,
          fontMetrics().height() + 6};
}

QPointF PlacementStrip::columnCentre(int rank) const {
  return {plotRect().left() + (rank + 0.5) * columnWidth(), plotRect().center().y() + 0.0};
}

QRectF PlacementStrip::rectOf(const Block& block) const {
  const double wide = columnWidth(), left_edge = plotRect().left() + block.rank * wide + wide * kGap / 2;
  const double top = axis().toPixel(block.to), bottom = axis().toPixel(block.from);
  return {left_edge, top, wide * (1 - kGap), bottom - top};
}

// The largest part of a block that neither the line of the other run nor that of the mean crosses.
QRectF PlacementStrip::clearPart(QRectF part, int rank) const {
  for (const double load : {1.0, rank < std::ssize(other_.load_R) ? other_.load_R[rank] : 1.0}) {
    const double y = axis().toPixel(load * mean_);
    if (y < part.top() || y > part.bottom()) continue;
    y - part.top() > part.bottom() - y ? part.setBottom(y - kLineRoom) : part.setTop(y + kLineRoom);
  }
  return part;
}

void PlacementStrip::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  const int line = fontMetrics().height();
  const double highest_load = mean_ > 0 ? top_ / mean_ : 1;
  const QString nodes = to_int(rank_load_.size()) > ranks_per_node_ ? "; vertical lines: nodes" : "",
                replicas = placement_.replicated() ? "; hatched: replicas" : "",
                other = other_.load_R.empty() ? "" : "; coloured lines: " + other_.letter;
  paintLeftAxis(painter, axisUp(0, highest_load),
                linearTicks(0, highest_load, std::max(2, plot.height() / withType(40))),
                "load of each rank / mean" + other + nodes + replicas +
                    "; shades only separate experts, which can be dragged to a rank");
  painter.setPen(palette().text().color());
  const int ranks = to_int(rank_load_.size());
  const int stride = labelStride(fontMetrics().horizontalAdvance("000"), columnWidth(), ranks);
  painter.drawText(QRectF(0, plot.bottom() + 3, 60, line), Qt::AlignLeft, "rank");
  for (int rank = 0; rank < ranks; rank += stride)
    painter.drawText(QRectF(columnCentre(rank).x() - 30, plot.bottom() + 3, 60, line), Qt::AlignCenter,
                     QString::number(rank));
}

void PlacementStrip::paintData(QPainter& painter) {
  const QRect plot = plotRect();
  const QColor edge = palette().base().color();
  for (const Block& block : blocks_) {
    const QRectF rect = rectOf(block);
    const Colors& c = colors(palette());
    QColor color(block.rank == fullest_ ? c.strong_bar : c.plain_bar);
    if (block.expert % 2) color = dark() ? color.darker(120) : color.lighter(112);
    painter.fillRect(rect, color);
    if (ranksOf(placement_, block.expert).size() > 1) painter.fillRect(rect, QBrush(edge, Qt::BDiagPattern));
    painter.setPen(QPen(edge, 1));
    painter.drawRect(rect);
    const QString number = QString::number(block.expert);
    const QRectF room = clearPart(rect, block.rank);
    if (room.height() < fontMetrics().height() || room.width() < fontMetrics().horizontalAdvance(number)) continue;
    painter.setPen(textOn(color.rgb()));
    painter.drawText(room, Qt::AlignCenter, number);
  }
  painter.setPen(QPen(mutedText(palette()), 0));
  for (int rank = ranks_per_node_; rank < to_int(rank_load_.size()); rank += ranks_per_node_) {
    const double x = plot.left() + rank * columnWidth();
    painter.drawLine(QPointF(x, plot.top() - 8), QPointF(x, plot.bottom()));
  }
  const double half_width = columnWidth() * (1 - kGap) / 2;
  for (int rank = 0; rank < std::min(to_int(other_.load_R.size()), to_int(rank_load_.size())); ++rank)
    for (const QPen& pen : {QPen(edge, 5), QPen(seriesColor(other_.color, dark()), 3)}) {
      painter.setPen(pen);
      const QPointF middle(columnCentre(rank).x(), axis().toPixel(other_.load_R[rank] * mean_));
      painter.drawLine(middle - QPointF(half_width, 0), middle + QPointF(half_width, 0));
    }
  const double y = axis().toPixel(mean_);
  painter.setPen(QPen(palette().text().color(), 1, Qt::DashLine));
  painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
  painter.drawText(QPointF(plot.right() + kSpace4, y + fontMetrics().capHeight() / 2.0), "mean");
}

void PlacementStrip::paintOverlay(QPainter& painter) {
  painter.setPen(QPen(palette().text().color(), 2));
  for (const Block& block : blocks_)
    if (block.expert == (dragged_ >= 0 ? dragged_ : chosen_)) painter.drawRect(rectOf(block));
  const int target = rankAt(mouse_);
  if (dragged_ >= 0 && target >= 0) {
    painter.setPen(QPen(palette().text().color(), 2, Qt::DashLine));
    const QRect plot = plotRect();
    painter.drawRect(
        QRectF(plot.left() + target * columnWidth() + 1, plot.top() - 6, columnWidth() - 2, plot.height() + 6));
    return paintReadout(painter, readoutBeside(mouse_, {QString("expert %1 to rank %2").arg(dragged_).arg(target)}));
  }
  PlotFrame::paintOverlay(painter);
}

QStringList PlacementStrip::readoutAt(QPoint position) const {
  const Block* block = blockAt(position);
  return block ? describe(*block) : QStringList();
}

const PlacementStrip::Block* PlacementStrip::blockAt(QPoint position) const {
  for (const Block& block : blocks_)
    if (rectOf(block).contains(position)) return &block;
  return nullptr;
}

int PlacementStrip::rankAt(QPoint position) const {
  const QRect plot = plotRect();
  if (position.x() < plot.left() || position.x() >= plot.right() || rank_load_.empty()) return -1;
  const int rank = static_cast<int>((position.x() - plot.left()) / columnWidth());
  return std::clamp(rank, 0, to_int(rank_load_.size()) - 1);
}

QStringList PlacementStrip::describe(const Block& block) const {
  const double load = rank_load_[block.rank];
  const auto amount = [this](double tokens) {
    const QString copies = are_shares_ ? QString() : countedText(std::llround(tokens), "copy") + ", ";
    return copies + QString("%1 \u00d7 the mean").arg(mean_ > 0 ? tokens / mean_ : 0, 0, 'f', 2);
  };
  const std::size_t replicas = ranksOf(placement_, block.expert).size();
  QStringList lines{
      QString("expert %1 on rank %2: %3").arg(block.expert).arg(block.rank).arg(amount(block.to - block.from))};
  if (replicas > 1) lines << QString("one of %1 replicas, which take its tokens in turn").arg(replicas);
  lines << QString("rank %1: %2").arg(block.rank).arg(amount(load));
  if (block.rank < std::ssize(other_.load_R))
    lines << QString("%1: %2 \u00d7 the mean").arg(other_.letter).arg(other_.load_R[block.rank], 0, 'f', 2);
  return lines;
}

void PlacementStrip::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return PlotFrame::mousePressEvent(event);
  mouse_ = event->pos();
  const Block* block = blockAt(mouse_);
  dragged_ = block ? block->expert : -1;
  if (block) emit expertChosen(block->expert);
  update();
}

void PlacementStrip::mouseMoveEvent(QMouseEvent* event) {
  PlotFrame::mouseMoveEvent(event);
  const Qt::CursorShape hovering = blockAt(mouse_) ? Qt::OpenHandCursor : Qt::ArrowCursor;
  setCursor(dragged_ >= 0 ? Qt::ClosedHandCursor : hovering);
}

void PlacementStrip::mouseReleaseEvent(QMouseEvent* event) {
  const int expert = std::exchange(dragged_, -1), rank = rankAt(event->pos());
  update();
  if (expert < 0 || rank < 0) return;
  const bool is_unmoved =
      std::ranges::any_of(blocks_, [&](const Block& block) { return block.expert == expert && block.rank == rank; });
  if (!is_unmoved) emit moved(expert, rank);
}

void PlacementStrip::keyPressEvent(QKeyEvent* event) {
  const int step = arrowOf(event).x();
  const int experts = to_int(load_.size()), ranks = to_int(rank_load_.size());
  if (step == 0 || experts == 0) return PlotFrame::keyPressEvent(event);
  if (!(event->modifiers() & Qt::ShiftModifier))
    return emit expertChosen(chosen_ < 0 ? 0 : std::clamp(chosen_ + step, 0, experts - 1));
  const auto block = std::ranges::find(blocks_, chosen_, &Block::expert);
  if (block == blocks_.end()) return;
  const int rank = block->rank + step;
  if (rank >= 0 && rank < ranks) emit moved(chosen_, rank);
}

ExpertPlacementPanel::ExpertPlacementPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Expert placement", Provenance::counted, parent) {
  showAnswers();
  addControl(new LayerCombo(selection, this));
  degrees_row_ = new QWidget(this);
  auto* degrees_layout = plainRow(degrees_row_, kSpace8);
  degrees_ = new ViewSwitch(QStringList(to_int(std::size(kDegrees)), QString()), this);
  degrees_->setToolTip(
      "Fullest rank / mean with the placement chosen below, if as many ranks share the experts; at most one rank for "
      "each expert");
  connect(degrees_, &ViewSwitch::clicked, this, [this](int index) { setDegree(kDegrees[index]); });
  degrees_layout->addWidget(new QLabel("EP degree"));
  degrees_layout->addWidget(degrees_);
  degrees_layout->addStretch();
  addBody(degrees_row_, 0);
  auto* row = new QWidget(this);
  auto* layout = plainRow(row, kSpace8);
  kinds_ = new ViewSwitch(placementNames({}), this);
  const QStringList tips{"Expert e on rank e R / E", "Random order, the same number of experts on each rank",
                         "By the rule of EPLB, DeepSeek's balancer for inference: the experts with the highest load "
                         "get replicas, one more expert per rank, then all experts are packed by this step's load",
                         "Your own placement: drag experts from rank to rank in the picture"};
  for (int i = 0; i < tips.size(); ++i) kinds_->button(i)->setToolTip(tips[i]);
  connect(kinds_, &ViewSwitch::clicked, this, [this](int kind) { choose(static_cast<Kind>(kind)); });
  layers_ = new FittedLabel(this);
  layers_->setRole(QPalette::PlaceholderText);
  layout->addWidget(new QLabel("Placement"));
  layout->addWidget(kinds_);
  layout->addWidget(layers_, 1);
  planned_ = new FlatCombo(this);
  for (const int steps : kReplanSteps)
    planned_->addItem(steps == 0 ? QString("this step's load") : QString("load of %1 steps").arg(steps), steps);
  planned_->setAccessibleName("Load for the balanced placement");
  planned_->setToolTip(
      "Load from which the balanced placement is planned. A training does not know the load of its next step\n"
      "yet: it can plan every N steps from the load of the N steps before, if the log has one there");
  connect(planned_, &QComboBox::activated, this, [this] { choose(Kind::balanced); });
  addControl(planned_);
  addBody(row, 0);
  note_ = new QLabel(this);
  note_->setWordWrap(true);
  connect(note_, &QLabel::linkActivated, this, &Panel::manualRequested);
  addBody(note_, 0);
  strip_ = new PlacementStrip(this);
  strip_->refill = [this] { refill(); };
  followSelection(strip_);
  connect(strip_, &PlacementStrip::expertChosen, selection_, &Selection::setExpert);
  connect(strip_, &PlacementStrip::moved, this, &ExpertPlacementPanel::move);
  addBody(strip_);
}

void ExpertPlacementPanel::setAsked(const QString& placement) {
  entered_placement_ = placement;
  strip_->markDirty();
  emit placementShown(choice());
}

void ExpertPlacementPanel::setDegree(int degree) {
  if (std::exchange(degree_, degree) == degree) return;
  strip_->markDirty();
  emit degreeChosen(degree);
}

QString ExpertPlacementPanel::shown() const {
  if (!entered_placement_.isEmpty()) return entered_placement_;
  const History* history = selection_->history();
  const auto counted =
      history ? history->settings_at(selection_->step())->value(&ParallelConfig::placement) : std::nullopt;
  return QString::fromStdString(counted.value_or(kCounted));
}

PlacementChoice ExpertPlacementPanel::choice() const {
  try {
    return parse_placement_choice(shown().toStdString());
  } catch (const std::runtime_error&) {
    return {};  // the recording is damaged
  }
}

std::vector<std::uint64_t> ExpertPlacementPanel::loadIn(const TelemetryFrame* frame) const {
  const RouterFrame* router = find_router(frame, selection_->layer());
  if (!router) return {};
  return {router->tokens_per_expert.begin(), router->tokens_per_expert.end()};
}

bool ExpertPlacementPanel::haveShares() const {
  const RouterFrame* router = find_router(frame_.get(), selection_->layer());
  return router && are_shares(selection_->history()->info(), *router);
}

// The load of the other shown run in the same layer; empty if it has other experts.
std::vector<std::uint64_t> ExpertPlacementPanel::otherLoad() const {
  const int place = otherRun();
  if (place < 0 || !frame_) return {};
  const auto other = loadIn(selection_->frameOf(place).get());
  return other.size() == load().size() ? other : std::vector<std::uint64_t>();
}

int ExpertPlacementPanel::otherRun() const {
  const int place = comparedRun(*selection_);
  return place == selection_->run() ? 0 : place;
}

// "2.39", or "A 2.39, B 1.35" with the load of another run. Plans are made from the steps of the selected run.
QString ExpertPlacementPanel::overloadText(const PlacementChoice& choice, std::span<const std::uint64_t> load_E) const {
  const auto overload = [&](std::span<const std::uint64_t> load) {
    return QString::number(rank_imbalance(placed(choice, frame_->step, load), load), 'f', 2);
  };
  if (other_load_.empty() || choice.replan_every > 0) return overload(load_E);
  return QString("%1 %2, %3 %4")
      .arg(runLetter(*selection_, selection_->run()), overload(load_E), runLetter(*selection_, otherRun()),
           overload(other_load_));
}

PlacementStrip::OtherRun ExpertPlacementPanel::otherRanks(const PlacementChoice& choice) const {
  if (other_load_.empty() || choice.replan_every > 0) return {};
  std::vector<double> load_R = rank_loads(placed(choice, frame_->step, other_load_), other_load_);
  const double mean = std::accumulate(load_R.begin(), load_R.end(), 0.0) / static_cast<double>(load_R.size());
  for (double& load : load_R) load /= std::max(mean, 1e-9);
  return {runLetter(*selection_, otherRun()), runColor(*selection_, otherRun()), std::move(load_R)};
}

// What the numbers of the choices are, and those of the most even and the fullest layer: "A 1.31 to 4.95 (layer 1)".
QStringList ExpertPlacementPanel::layersForms(const PlacementChoice& choice) const {
  QStringList ranges, largest;
  for (const int run : {selection_->run(), other_load_.empty() ? -1 : otherRun()}) {
    const auto frame = run < 0 || choice.replan_every > 0 ? nullptr : selection_->frameOf(run);
    std::map<double, int> layers;  // fullest rank over the mean -> layer
    for (const RouterFrame& router : frame ? frame->routers : std::vector<RouterFrame>()) {
      const std::vector<std::uint64_t> load_E(router.tokens_per_expert.begin(), router.tokens_per_expert.end());
      PlacementSite layer_site = *site();
      layer_site.layer = router.layer;
      if (router.layer < 0 || load_E.size() != load().size()) continue;
      layers.emplace(rank_imbalance(place(choice, layer_site, to_int(load_E.size()), load_E), load_E), router.layer);
    }
    if (layers.size() < 2) continue;
    const QString letter = selection_->histories().size() > 1 ? runLetter(*selection_, run) + ' ' : QString(),
                  fullest =
                      QString("%1 (layer %2)").arg(layers.rbegin()->first, 0, 'f', 2).arg(layers.rbegin()->second);
    ranges << letter + QString::number(layers.begin()->first, 'f', 2) + " to " + fullest;
    largest << letter + fullest;
  }
  const QString figure = "fullest rank / mean";
  if (ranges.isEmpty()) return {figure};
  return {figure + "; all layers: " + ranges.join(", "), figure + "; fullest layer: " + largest.join(", "), figure};
}

std::int64_t ExpertPlacementPanel::placedSince() const {
  std::int64_t last_step = 0;
  if (tried_out_) return last_step;
  for (const Marker& marker : selection_->history()->markers())
    if (marker.key == Setting(&ParallelConfig::placement).key() && marker.step <= frame_->step)
      last_step = std::max(last_step, marker.step);
  return last_step;
}

std::int64_t ExpertPlacementPanel::firstPlan(const PlacementChoice& choice) const {
  return (placedSince() / choice.replan_every + 1) * choice.replan_every;
}

QString ExpertPlacementPanel::noPlanYet(const PlacementChoice& choice) const {
  if (choice.kind != Kind::balanced || choice.replan_every == 0 || frame_->step >= firstPlan(choice)) return {};
  return QString("No plan yet: the first is made in step %1").arg(firstPlan(choice));
}

std::vector<std::uint64_t> ExpertPlacementPanel::plannedOf(const PlacementChoice& choice, std::int64_t step,
                                                           int n_experts) const {
  const std::int64_t interval = choice.replan_every, planned_at = step / interval * interval;
  const std::int64_t first_step = placedSince();
  if (step < firstPlan(choice)) return {};
  const StepRange range{std::max(planned_at - interval, first_step), planned_at - 1};
  const History& history = *selection_->history();
  const auto u = history.utilisation(selection_->layer(), edges_of(history.steps_in(range)));
  const auto loads = load();
  const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / n_experts;
  std::vector<std::uint64_t> sum(n_experts);
  for (std::size_t i = 0; i < u.size(); ++i)
    if (u[i] > 0) sum[i % sum.size()] += std::llround(u[i] * mean);
  if (std::ranges::count(sum, 0u) == n_experts) return {};  // a log may have no load in so few steps
  return sum;
}

Placement ExpertPlacementPanel::placed(const PlacementChoice& choice, std::int64_t step,
                                       std::span<const std::uint64_t> own_load) const {
  const int n_experts = to_int(own_load.size());
  if (choice.replan_every == 0) return place(choice, *site(), n_experts, own_load);
  return place(choice, *site(), n_experts, plannedOf(choice, step, n_experts));
}

// Describes the bytes for adding up the gradients of replicas and for moving weights, which are not part of the
// dispatch.
QString ExpertPlacementPanel::costOfReplicas(const PlacementChoice& choice,
                                             std::span<const std::uint64_t> own_load) const {
  if (!noPlanYet(choice).isEmpty()) return "Before the first plan the experts are in order, without replicas.";
  const Placement placement = placed(choice, frame_->step, own_load);
  if (choice.kind != Kind::balanced || placement.replicated() != choice.has_replicas) return {};
  const History& history = *selection_->history();
  const double hidden = history.settings_at(frame_->step)->value(&ModelConfig::moe_inter).value_or(0);
  const double expert = 3.0 * history.info().dim * hidden * kBf16Bytes;
  const auto bytes = [expert](int experts) {
    return expert > 0 ? QString(" (%1 in BF16)").arg(formatBytes(experts * expert)) : QString();
  };
  const int gradients = gradients_sent(placement);
  const QString sums = QString("The gradients of %1 are sent to other ranks in each step%2")
                           .arg(countedText(gradients, "replica"), bytes(gradients));
  if (choice.replan_every == 0) return sums + QLatin1Char('.');
  const std::int64_t planned_at = frame_->step / choice.replan_every * choice.replan_every;
  const int sent = experts_sent(placed(choice, planned_at - 1, own_load), placement);
  return QString("%1 plan of step %2 %3 the weights of %4 to other ranks%5.")
      .arg(choice.has_replicas ? sums + "; the" : QString("The"))
      .arg(planned_at)
      .arg(tried_out_ ? "would have moved" : "moved", countedText(sent, "slot"), bytes(sent));
}

std::optional<PlacementSite> ExpertPlacementPanel::site() const {
  const History* history = selection_->history();
  if (!history || !frame_) return std::nullopt;
  PlacementSite site{selection_->layer(), history->info().ranks, std::max(1, history->info().ranks_per_node), 1};
  if (const RouterFrame* router = find_router(frame_.get(), site.layer); router && router->volume.ranks > 0) {
    site.ranks = router->volume.ranks;
    site.ranks_per_node = std::max(1, router->volume.ranks_per_node);
  }
  if (is_rank_count_assumed_) site = {site.layer, assumed_ranks_, kRanksOfNode, 1};
  site.n_groups = history->settings_at(frame_->step)->value(&RouterConfig::n_groups).value_or(1);
  if (site.ranks < 1) return std::nullopt;
  return site;
}

// A log without ranks is shown at a degree that divides its experts; each button says how full the fullest rank would
// be.
void ExpertPlacementPanel::assumeRanks(std::span<const std::uint64_t> load_E) {
  is_rank_count_assumed_ = false;
  const auto known = site();
  is_rank_count_assumed_ = frame_ && !load_E.empty() && !known;
  degrees_row_->setVisible(is_rank_count_assumed_);
  if (!is_rank_count_assumed_) return;
  const int n_experts = to_int(load_E.size());
  int shown = -1;
  for (int i = 0; i < to_int(std::size(kDegrees)); ++i) {
    const bool fits = n_experts % kDegrees[i] == 0 && (n_experts < kManyExperts || kDegrees[i] >= kRanksOfNode);
    degrees_->button(i)->setVisible(fits);
    if (fits && (shown < 0 || kDegrees[i] <= degree_)) shown = i;
  }
  if (shown < 0) return;
  degrees_->setCurrent(shown);
  assumed_ranks_ = kDegrees[shown];
}

// Names how full the fullest rank is at each degree; experts that were placed by hand have ranks at one degree only.
void ExpertPlacementPanel::nameDegrees(const PlacementChoice& choice, std::span<const std::uint64_t> load_E) {
  for (int i = 0; i < to_int(std::size(kDegrees)); ++i) {
    const QScopedValueRollback<int> at_degree(assumed_ranks_, kDegrees[i]);
    const bool is_placed =
        !degrees_->button(i)->isHidden() && (choice.kind != Kind::by_hand || i == degrees_->current());
    const QString name = QString("EP %1").arg(kDegrees[i]);
    degrees_->setName(i, is_placed ? QString("%1: %2").arg(name, overloadText(choice, load_E)) : name);
  }
}

void ExpertPlacementPanel::refill() {
  const History* history = selection_->history();
  frame_ = selection_->frame();
  strip_->setChosen(selection_->expert());
  const auto loads = load();
  assumeRanks(loads);
  const auto ranks = site();
  kinds_->setEnabled(ranks && !loads.empty());
  note_->setText({});
  if (!hasSteps(strip_)) return;
  if (loads.empty() || !ranks) return strip_->setNotice(notInLogNotice(history->info(), "tokens per expert"));
  PlacementChoice chosen = choice();
  if (!placement_problem(chosen, to_int(loads.size()), ranks->ranks).empty()) chosen = {};
  strip_->setNotice({});
  const auto counted = history->settings_at(frame_->step)->value(&ParallelConfig::placement).value_or(kCounted);
  tried_out_ = placement_choice_text(chosen) != counted;
  if (chosen.kind == Kind::balanced) planned_->setCurrentIndex(std::max(planned_->findData(chosen.replan_every), 0));
  auto* plans = qobject_cast<QStandardItemModel*>(planned_->model());
  for (int i = 1; i < planned_->count() && !live_; ++i) {
    const PlacementChoice plan{Kind::balanced, {}, planned_->itemData(i).toInt()};
    plans->item(i)->setEnabled(!plannedOf(plan, frame_->step, to_int(loads.size())).empty());
  }
  const QStringList names = placementNames(chosen);
  other_load_ = otherLoad();
  if (is_rank_count_assumed_) nameDegrees(chosen, loads);
  kinds_->setCurrent(static_cast<int>(chosen.kind));
  for (int i = 0; i < names.size(); ++i) {
    const auto kind = static_cast<Kind>(i);
    const bool is_chosen = kind == chosen.kind;
    const int replan_every = kind == Kind::balanced ? planned_->currentData().toInt() : 0;
    const PlacementChoice tried = is_chosen ? chosen : PlacementChoice{kind, {}, replan_every};
    overloads_[i] = rank_imbalance(placed(tried, frame_->step, loads), loads);
    kinds_->setName(i, kind == Kind::by_hand && !is_chosen
                           ? names[i]
                           : QString("%1: %2").arg(names[i], overloadText(tried, loads)));
  }
  QString note = costOfReplicas(chosen, loads);
  if (is_rank_count_assumed_ && note.isEmpty()) {
    note =
        "A log without <a href='file-formats.md'>\"volume\"</a> does not say which rank sent a token: bytes by link "
        "and "
        "the share saved by de-duplication are not known";
    if (assumed_ranks_ != degree_)
      note += QString("; EP %1 of <i>Cluster</i> does not divide the experts").arg(degree_);
  }
  note_->setText(note);
  note_->setVisible(!note_->text().isEmpty());
  layers_->setTexts(layersForms(chosen));
  strip_->setOther(otherRanks(chosen));
  strip_->setPlacement(placed(chosen, frame_->step, loads), loads, ranks->ranks_per_node, haveShares());
}

void ExpertPlacementPanel::choose(PlacementChoice::Kind kind) {
  PlacementChoice next{kind, {}, kind == Kind::balanced ? planned_->currentData().toInt() : 0};
  // The placement by hand starts as the shown placement, which can then be changed by dragging.
  if (kind == Kind::by_hand) next.by_hand[selection_->layer()] = firstRanks(strip_->placement());
  if (kind != Kind::by_hand || choice().kind != Kind::by_hand)
    emit placementRequested(QString::fromStdString(placement_choice_text(next)));
  strip_->markDirty();
}

// Places an expert by hand. The placement by hand of other layers is kept. Replicas are given up: the dragged expert is
// on `to_rank` only, other experts on the rank of their first replica.
void ExpertPlacementPanel::move(int expert, int to_rank) {
  PlacementChoice next = choice();
  if (next.kind != Kind::by_hand) next = {Kind::by_hand, {}};
  std::vector<std::int32_t>& ranks = next.by_hand[selection_->layer()] = firstRanks(strip_->placement());
  ranks[expert] = to_rank;
  emit placementRequested(QString::fromStdString(placement_choice_text(next)));
}

QString ExpertPlacementPanel::status() const {
  if (!frame_) return {};
  const QString tried = live_ && choice().replan_every == 0 ? QString("copies use this placement from the next step on")
                                                            : QString("tried on the load");
  const bool several = selection_->histories().size() > 1;
  const QString run = several ? runLetter(*selection_, selection_->run()) + ", " : QString();
  const QString ranks = is_rank_count_assumed_ ? QString("EP %1 assumed, ").arg(assumed_ranks_) : QString();
  const int place = other_load_.empty() ? -1 : otherRun();
  QString other = place < 0 ? QString() : ownStep(*selection_, *selection_->histories()[place]);
  if (!other.isEmpty()) other.prepend(", " + runLetter(*selection_, place) + ' ');
  return run + ranks + timeStatus(frame_->step, true) + other + (tried_out_ ? ", " + tried : QString());
}

Panel::Answer ExpertPlacementPanel::answer() const {
  if (!frame_ || !strip_->notice().isEmpty() || load().empty()) return {};
  const auto shown = static_cast<std::size_t>(choice().kind), balanced = static_cast<std::size_t>(Kind::balanced);
  const QString question = "Would another placement help?", present = QString::number(overloads_[shown], 'f', 2);
  const int replan_every = planned_->currentData().toInt();
  if (const QString none = noPlanYet({Kind::balanced, {}, replan_every}); !none.isEmpty())
    return {question, {none, none.section(':', 0, 0)}};
  if (shown != balanced && overloads_[balanced] + kMinNamedGain > overloads_[shown])
    return {
        question,
        {QString("No: the fullest rank gets %1 \u00d7 the mean").arg(present), QString("No: %1 \u00d7").arg(present)}};
  const QString plan = replan_every == 0 ? QString("this step's load, which a training does not know beforehand")
                                         : QString("the load of %1 steps").arg(replan_every);
  const QString with = choice().has_replicas ? "With" : "Without", best = QString::number(overloads_[balanced], 'f', 2);
  const QString multiple = (shown == balanced ? best : best + " instead of " + present) + QString(" \u00d7 the mean");
  return {question,
          {QString("%1 replicas, planned from %2: in this batch the fullest rank gets %3").arg(with, plan, multiple),
           QString("%1 replicas: %2").arg(with, multiple), multiple}};
}

ValueTable ExpertPlacementPanel::table() const {
  const bool have_shares = haveShares();
  ValueTable table({{"layer"}, {"expert"}, {"replica"}, {"rank"}, {"load", have_shares ? "share" : "copies"}});
  const Placement& placement = strip_->placement();
  const auto load_E = load();
  const double unit = have_shares ? std::accumulate(load_E.begin(), load_E.end(), 0.0) : 1;
  for (int e = 0; e < placement.n_experts() && e < to_int(load_E.size()); ++e) {
    const auto ranks = ranksOf(placement, e);
    for (std::size_t replica = 0; replica < ranks.size(); ++replica)
      table.add(selection_->layer(), e, replica, ranks[replica], load_E[e] / unit / static_cast<double>(ranks.size()));
  }
  return table;
}

}  // namespace moescope
