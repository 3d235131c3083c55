#include "widgets/panel/layer_combo.h"

#include <QSignalBlocker>
#include <algorithm>

namespace moescope {

LayerCombo::LayerCombo(Selection* selection, QWidget* parent) : FlatCombo(parent), selection_(selection) {
  setAccessibleName("Layer");
  setToolTip("The MoE layer that all panels show");
  connect(selection_, &Selection::focusChanged, this, &LayerCombo::synchronise);
  connect(selection_, &Selection::dataChanged, this, &LayerCombo::synchronise);
  connect(this, &QComboBox::activated, this, [this](int index) { selection_->setLayer(layers_[index]); });
  synchronise();
}

void LayerCombo::synchronise() {
  const History* history = selection_->history();
  const std::vector<int> layers = history ? history->info().moe_layers : std::vector<int>{};
  const QSignalBlocker quiet(this);
  if (layers != layers_) {
    layers_ = layers;
    clear();
    for (const int layer : layers_) addItem(QString("layer %1").arg(layer));
  }
  setEnabled(!layers_.empty());
  const auto place = std::ranges::find(layers_, selection_->layer());
  if (place != layers_.end() && currentIndex() != place - layers_.begin())
    setCurrentIndex(to_int(place - layers_.begin()));
  updateGeometry();  // FlatCombo does not call it, since the signals are blocked
}

}  // namespace moescope
