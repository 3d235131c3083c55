#include "widgets/panel/operand_combos.h"

#include <QSignalBlocker>
#include <QStandardItemModel>
#include <algorithm>
#include <utility>

#include "widgets/panel/tensor_text.h"

namespace moescope {
namespace {

OperandChoices choicesOf(const Selection& selection) {
  OperandChoices choices{{}, selection.tensor().gemm_class()};
  if (const auto frame = selection.quantFrame())
    for (const QuantFrame& quant : frame->quants) ++choices.operands[static_cast<std::size_t>(quant.gemm_class())];
  return choices;
}

}  // namespace

GemmClassCombo::GemmClassCombo(Selection* selection, QWidget* parent, bool brief)
    : FlatCombo(parent), selection_(selection) {
  setAccessibleName("Class of GEMMs");
  setToolTip("Class of weights; each has a number format of its own");
  for (int i = 0; i < kNumQuantClasses; ++i)
    addItem(brief ? gemmClassBrief(static_cast<GemmClass>(i)) : gemmClassLabel(static_cast<GemmClass>(i)));
  connect(this, &QComboBox::activated, this, &GemmClassCombo::choose);
  connect(selection_, &Selection::changed, this, &GemmClassCombo::synchronise);
  synchronise();
}

void GemmClassCombo::synchronise() {
  const OperandChoices choices = choicesOf(*selection_);
  if (std::exchange(choices_, choices) == choices) return;
  auto* items = static_cast<QStandardItemModel*>(model());
  for (int i = 0; i < count(); ++i) {
    const bool is_quantized = choices.operands[i] > 0;
    items->item(i)->setEnabled(is_quantized);
    setItemData(i, is_quantized ? QVariant() : QString("not quantized in this run"), Qt::ToolTipRole);
  }
  setCurrentIndex(static_cast<int>(selection_->tensor().gemm_class()));
}

// Selects the first operand of the class, in the selected layer if there is one.
void GemmClassCombo::choose(int index) {
  const auto frame = selection_->quantFrame();
  const auto chosen = static_cast<GemmClass>(index);
  const auto places = frame ? operandsOf(*frame, chosen) : std::vector<OperandPlace>{};
  if (places.empty()) return;
  OperandPlace place = places.front();
  const std::vector<int> layers = layersOf(*frame, chosen);
  place.layer = std::ranges::count(layers, selection_->layer()) > 0 ? selection_->layer() : layers.front();
  selection_->setTensor(place);
}

OperandCombo::OperandCombo(Selection* selection, Part part, QWidget* parent)
    : FlatCombo(parent), selection_(selection), part_(part) {
  setAccessibleName(part == tensor ? "Tensor" : "Layer");
  setToolTip(part == tensor ? operandTerms() : "The layer of the tensor; a MoE layer is then shown in all panels");
  connect(this, &QComboBox::activated, this,
          [this](int index) { selection_->setTensor(changed(selection_->tensor(), places_[index])); });
  connect(selection_, &Selection::changed, this, &OperandCombo::synchronise);
  synchronise();
}

OperandPlace OperandCombo::changed(const OperandPlace& place, const OperandPlace& chosen) const {
  OperandPlace result = part_ == tensor ? chosen : place;
  result.layer = part_ == tensor ? place.layer : chosen.layer;
  return result;
}

void OperandCombo::synchronise() {
  const OperandChoices choices = choicesOf(*selection_);
  if (std::exchange(choices_, choices) != choices) {
    const QSignalBlocker quiet(this);
    const auto frame = selection_->quantFrame();
    places_.clear();
    if (frame && part_ == tensor) places_ = operandsOf(*frame, choices.gemm_class);
    if (frame && part_ == layer)
      for (const int number : layersOf(*frame, choices.gemm_class)) places_.push_back({number});
    clear();
    for (const OperandPlace& place : places_) addItem(part_ == tensor ? tensorName(place) : layerName(place.layer));
  }
  setVisible(!places_.empty());
  const OperandPlace current = selection_->tensor();
  const auto is_current = [&](const OperandPlace& place) { return changed(current, place) == current; };
  setCurrentIndex(to_int(std::ranges::find_if(places_, is_current) - places_.begin()));
}

}  // namespace moescope
