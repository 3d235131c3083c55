// Histograms of the scores of chosen and rejected experts and of the margins of the choices, at one step, for one layer
// or all layers.
#pragma once

#include <QComboBox>

#include "widgets/panel/panel.h"
#include "widgets/plots/half_octave_plot.h"

namespace moescope {

class ScoresAndMarginsPanel : public Panel {
  Q_OBJECT

 public:
  explicit ScoresAndMarginsPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  struct Counts {
    std::vector<std::uint32_t> chosen, rejected, margins;  // histograms, summed over layers with equal bins
    bool any = false;
  };
  Counts counts() const;
  QString whyNothing() const;

  QComboBox* layers_;
  HalfOctavePlot *scores_, *margins_;
};

}  // namespace moescope
