#include "widgets/router/load_maps.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/frame/expert_map.h"
#include "core/frame/router_stats.h"
#include "widgets/panel/metric_text.h"

namespace moescope {

std::vector<int> ExpertOrders::orderOf(const History& history, int layer, std::span<const float> loads, int experts,
                                       int order) {
  if (order == by_cluster && std::ssize(clusters(history, layer)) == experts) return clusters(history, layer);
  std::vector<int> ids(experts);
  std::iota(ids.begin(), ids.end(), 0);
  if (order == by_load)
    std::ranges::stable_sort(ids, std::greater{}, [&](int e) { return e < std::ssize(loads) ? loads[e] : 0.0f; });
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
  const std::size_t experts = std::lround(std::sqrt(counts->together_EE.size()));
  if (experts * experts == counts->together_EE.size()) order = coactivation_order(counts->together_EE, to_int(experts));
  return order;
}

ValueTable expertTable(const Selection& selection, const TelemetryFrame* frame, int layer) {
  const bool are_shares = frame && std::ranges::any_of(frame->routers, [&](const RouterFrame& router) {
                            return moescope::are_shares(selection.history()->info(), router);
                          });
  ValueTable table({{selection.stepWord().toStdString()},
                    {"layer"},
                    {"expert"},
                    are_shares ? ValueColumn{"tokens", "share", 3} : ValueColumn{"tokens"},
                    {"load", kUtilisationUnit, 3},
                    {"gate mass", "share"},
                    {"score mass", "share"},
                    {"bias"}});
  for (const RouterFrame& router : frame ? frame->routers : std::vector<RouterFrame>{}) {
    if (layer != kWholeRun && router.layer != layer) continue;
    const auto value = [](const std::vector<float>& values, std::size_t e) {
      return e < values.size() ? values[e] : kNoValue;
    };
    const double sum = std::accumulate(router.tokens_per_expert.begin(), router.tokens_per_expert.end(), 0.0);
    for (std::size_t e = 0; e < router.tokens_per_expert.size(); ++e)
      table.add(frame->step, router.layer, e,
                are_shares ? unless_nan(router.tokens_per_expert[e] / sum) : table_value(router.tokens_per_expert[e]),
                utilisation(router.tokens_per_expert, e), value(router.gate_mass, e), value(router.score_mass, e),
                value(router.expert_bias, e));
  }
  return table;
}

QStringList expertReadout(const Selection& selection, std::int64_t step, int layer, int expert) {
  const auto frame = selection.history()->frame_at(step);
  const ValueTable table = expertTable(selection, frame.get(), layer);
  return expert >= 0 && static_cast<std::size_t>(expert) < table.rows() ? rowText(table, expert, 3) : QStringList();
}

void noteColumns(TimeHeatMap* map, const QString& summary) {
  const QString count = formatCount(map->stepsPerColumn());
  const QStringList notes{QString("%1 of %2 per column").arg(summary, count), QString("%1 per column").arg(count)};
  map->setStepNotes(map->stepsPerColumn() > 1 ? notes : QStringList());
}

}  // namespace moescope
