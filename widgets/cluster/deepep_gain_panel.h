// Gain by DeepEP on a whole MoE layer: measured on 8 H200s (assets/calibration), the curve of the layer model through
// these points, and a point for the load of each open run.
#pragma once

#include <QComboBox>
#include <QTimer>
#include <optional>

#include "core/cluster/layer_model.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/xy_plot.h"

namespace moescope {

class DeepEPGainPanel : public Panel {
  Q_OBJECT

 public:
  explicit DeepEPGainPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;
  QString explain() const override;

 protected:
  Answer answer() const override;

 private:
  struct Question {
    std::string model;
    std::vector<std::vector<std::uint32_t>> loads;  // of the selected layer of each run; may be empty
    bool operator==(const Question&) const = default;
  };
  struct Answer {
    std::string model;
    LayerGains gains;
    std::vector<std::optional<LayerGain>> live;  // of each run
  };
  void refill();
  void ask();
  void draw();
  const LayerGain* selectedGain() const;

  enum Axes { by_copies, by_imbalance, time };  // entries of axis_
  Axes axes() const { return static_cast<Axes>(axis_->currentIndex()); }

  XyPlot* plot_;
  QComboBox *shape_, *axis_;
  Question question_;
  const History* run_ = nullptr;  // the first of the live points; only compared, never dereferenced
  std::optional<Answer> answer_;
  bool computing_ = false;
  QTimer pause_;  // pause before the next load, since a run in training has a new load at every step
  LatestWorker worker_;
};

}  // namespace moescope
