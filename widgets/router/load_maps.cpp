#include "widgets/router/load_maps.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/frame/coactivation.h"
#include "core/frame/router_stats.h"

namespace moescope {

std::vector<int> ExpertOrders::of(const History& history, int layer, std::span<const std::uint32_t> loads, int experts,
                                  int order) {
  if (order == by_cluster && std::ssize(clusters(history, layer)) == experts) return clusters(history, layer);
  std::vector<int> ids(experts);
  std::iota(ids.begin(), ids.end(), 0);
  if (order == by_load)
    std::ranges::stable_sort(ids, std::greater{}, [&](int e) { return e < std::ssize(loads) ? loads[e] : 0; });
  return ids;
}

const std::vector<int>& ExpertOrders::clusters(const History& history, int layer) {
  auto newest = history.specialisation_frame_at(history.steps().last);
  if (newest != frame_) orders_.clear();
  frame_ = std::move(newest);
  if (const auto known = orders_.find(layer); known != orders_.end()) return known->second;
  std::vector<int>& order = orders_[layer];
  if (!frame_) return order;
  const auto counts = std::ranges::find(frame_->specialisation, layer, &SpecialisationFrame::layer);
  if (counts == frame_->specialisation.end() || counts->together_EE.empty()) return order;
  const auto experts = static_cast<std::size_t>(std::lround(std::sqrt(counts->together_EE.size())));
  if (experts * experts == counts->together_EE.size())
    order = coactivation_order(counts->together_EE, static_cast<int>(experts));
  return order;
}

QString expertAtStep(const Selection& selection, std::int64_t step, int layer, int expert) {
  return QString("%1 %2, layer %3, expert %4").arg(selection.stepWord(), formatCount(step)).arg(layer).arg(expert);
}

QStringList loadReadout(const Selection& selection, std::int64_t step, int layer, int expert) {
  const auto frame = selection.history()->frame_at(step);
  const RouterFrame* router = find_router(frame.get(), layer);
  if (!router || expert >= std::ssize(router->tokens_per_expert)) return {};
  const auto& counts = router->tokens_per_expert;
  return {expertAtStep(selection, frame->step, layer, expert),
          QString("%1 tokens, utilisation %2")
              .arg(formatCount(counts[expert]), formatValue(utilisation(counts, expert), 3))};
}

void noteColumns(TimeHeatMap* map, const QString& summary) {
  const QString count = formatCount(map->stepsPerColumn());
  const QStringList notes{QString("%1 of %2 per column").arg(summary, count), QString("%1 per column").arg(count)};
  map->setStepNotes(map->stepsPerColumn() > 1 ? notes : QStringList());
}

}  // namespace moescope
