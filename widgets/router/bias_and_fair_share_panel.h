// Share of a step's tokens that choose an expert, by the bias of the expert, and the bias that would give the expert
// its fair share. Quantile balancing cuts this distribution.
#pragma once

#include <optional>

#include "widgets/panel/panel.h"
#include "widgets/plots/curve_plot.h"

namespace moescope {

class BiasAndFairSharePanel : public Panel {
  Q_OBJECT

 public:
  explicit BiasAndFairSharePanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  // The distribution of a layer at the newest step that has one, and the shown expert.
  struct Shown {
    std::int64_t step = 0;
    int layer = 0, top_k = 0, n_experts = 0, expert = 0;
    std::vector<float> bias_for_share_EQ;
    std::vector<float> bias_E;  // after the step's update; may be empty
    std::span<const float> of(int e) const;
    double fair_bias(int e) const;
  };
  std::optional<Shown> find() const;
  void refill();
  QStringList describe(double bias) const;

  CurvePlot* plot_;
  std::optional<Shown> shown_;
};

}  // namespace moescope
