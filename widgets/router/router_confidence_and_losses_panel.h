// Confidence of the router, and its losses. Over time: entropy of a token's scores, dependence of the choice on the
// token, margin, auxiliary and z loss. At a step: histograms of scores and margins.
#pragma once

#include "widgets/panel/controls.h"
#include "widgets/panel/figures_panel.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/half_octave_plot.h"

namespace moescope {

// Histograms of the scores of chosen and rejected experts and of the margins of the choices, at one step, for one layer
// or all layers.
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

class RouterConfidenceAndLossesPanel : public FiguresPanel {
  Q_OBJECT

 public:
  explicit RouterConfidenceAndLossesPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override { return atAStep() ? scores_->table() : FiguresPanel::table(); }
  void showView(int view);  // 0: over time, 1: at a step

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  bool atAStep() const { return switch_->current() == 1; }

  ViewSwitch* switch_;
  QComboBox* layers_;
  ScoresView* scores_;
};

}  // namespace moescope
