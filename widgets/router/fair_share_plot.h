// Share of a step's tokens that choose the selected expert, by the bias of the expert, and the bias that would give the
// expert its fair share. Quantile balancing cuts this distribution.
#pragma once

#include <optional>

#include "core/frame/specialisation.h"  // included before Qt, whose keyword `slots` is a name in it
#include "widgets/plots/curve_plot.h"
#include "widgets/selection/selection.h"

namespace moescope {

class FairSharePlot : public CurvePlot {
  Q_OBJECT

 public:
  explicit FairSharePlot(const Selection* selection, QWidget* parent = nullptr);
  // The bias that gives the fair share, as text; empty if it is not known.
  QString fairBiasText() const;

 private:
  // The distribution of the selected expert at the newest step that has one.
  struct Distribution {
    std::int64_t step = 0;
    int expert = 0, top_k = 0, n_experts = 0;
    std::vector<float> bias_for_share_Q;
    float bias = kNoValue;  // after the step's update
    double fair_bias() const { return bias_for_share_Q[kFairShare]; }
  };
  std::optional<Distribution> find() const;
  void fill();
  QStringList readoutOf(double bias) const;

  const Selection* selection_;
  std::optional<Distribution> shown_;
};

}  // namespace moescope
