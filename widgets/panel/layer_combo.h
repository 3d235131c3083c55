// Chooses the MoE layer that all panels show: follows and sets Selection::layer().
#pragma once

#include "widgets/panel/flat_combo.h"
#include "widgets/selection/selection.h"

namespace moescope {

class LayerCombo : public FlatCombo {
  Q_OBJECT

 public:
  explicit LayerCombo(Selection* selection, QWidget* parent = nullptr);

 private:
  void synchronise();

  Selection* selection_;
  std::vector<int> layers_;
};

}  // namespace moescope
