#include "widgets/router/cluster_orders.h"

#include <algorithm>
#include <cmath>

#include "core/frame/coactivation.h"

namespace moescope {

const std::vector<int>& ClusterOrders::of(const History& history, int layer) {
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

}  // namespace moescope
