// Histograms of the scores of chosen and rejected experts and of the margins of the choices, at one step, for one layer
// or all layers.
#pragma once

#include "widgets/panel/panel.h"
#include "widgets/plots/half_octave_plot.h"

namespace moescope {

class ScoresView : public QWidget {
  Q_OBJECT

 public:
  explicit ScoresView(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const;
  QStringList answers() const;  // how sure the router is, from long to short
  void setOneLayer(bool one);   // the chosen layer alone

 private:
  struct Counts {
    std::vector<std::uint32_t> chosen, rejected, margins;  // histograms, summed over layers with equal bins
    bool any = false;
  };
  Counts counts() const;
  QString whyNothing() const;

  Selection* selection_;
  bool one_layer_ = false;
  HalfOctavePlot *scores_, *margins_;
};

}  // namespace moescope
