#include "widgets/panel/expert_colors.h"

#include <array>
#include <cmath>

#include "core/numerics/index.h"
#include "widgets/look/tokens.h"

namespace moescope {

namespace {

// The colour at a position 0..1 on the cycle.
QColor onCycle(double position) {
  const auto& anchors = colors(false).experts;
  const double at = (position - std::floor(position)) * anchors.size();
  const auto index = static_cast<std::size_t>(at) % anchors.size();
  const QColor a(anchors[index]), b(anchors[(index + 1) % anchors.size()]);
  const double t = at - std::floor(at);
  const auto mix = [t](int x, int y) { return to_int(std::lround(x + t * (y - x))); };
  return {mix(a.red(), b.red()), mix(a.green(), b.green()), mix(a.blue(), b.blue())};
}

QRgb shade(double position, int step, bool dark) {
  const QColor color = onCycle(position);
  constexpr std::array<int, 3> kLighter = {100, 128, 78};
  const int factor = kLighter[step % 3] + (dark ? 0 : 10);
  return color.lighter(factor).rgb();
}

}  // namespace

ExpertColors ExpertColors::byId(int n_experts, bool dark) {
  // The anchors, in steps of three on their cycle, then the further colours.
  const auto& anchors = moescope::colors(dark).experts;
  ExpertColors colors;
  for (std::size_t e = 0; e < static_cast<std::size_t>(n_experts); ++e) {
    const std::size_t place = e % (anchors.size() + kFurtherExperts.size());
    const bool is_anchor = place < anchors.size();
    colors.colors_.push_back(is_anchor ? anchors[place * 3 % anchors.size()] : kFurtherExperts[place - anchors.size()]);
  }
  return colors;
}

ExpertColors ExpertColors::inOrder(const std::vector<int>& order, bool dark) {
  ExpertColors colors;
  colors.colors_.resize(order.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    colors.colors_[order[place]] = shade(place / static_cast<double>(order.size()), to_int(place), dark);
  return colors;
}

QColor ExpertColors::colorOf(int expert) const {
  const std::size_t index = expert;
  return index < colors_.size() ? QColor(colors_[index]) : QColor(colors(false).plain_bar);
}

}  // namespace moescope
