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

OperandCombo::OperandCombo(Selection* selection, QWidget* parent) : FlatCombo(parent), selection_(selection) {
  setAccessibleName("Tensor");
  setToolTip("Weight, operand of its GEMM, direction");
  connect(this, &QComboBox::activated, this, [this](int index) {
    OperandPlace place = places_[index];
    place.layer = selection_->tensor().layer;
    selection_->setTensor(place);
  });
  connect(selection_, &Selection::changed, this, &OperandCombo::synchronise);
  synchronise();
}

void OperandCombo::synchronise() {
  const OperandChoices choices = choicesOf(*selection_);
  if (std::exchange(choices_, choices) != choices) {
    const QSignalBlocker quiet(this);
    const auto frame = selection_->quantFrame();
    places_ = frame ? operandsOf(*frame, choices.gemm_class) : std::vector<OperandPlace>{};
    clear();
    for (const OperandPlace& place : places_) addItem(tensorName(place));
  }
  setVisible(!places_.empty());
  OperandPlace current = selection_->tensor();
  current.layer = 0;
  setCurrentIndex(to_int(std::ranges::find(places_, current) - places_.begin()));
}

OperandLayerCombo::OperandLayerCombo(Selection* selection, QWidget* parent) : FlatCombo(parent), selection_(selection) {
  setAccessibleName("Layer");
  setToolTip("The layer of the tensor; a MoE layer is then shown in all panels");
  connect(this, &QComboBox::activated, this, [this](int index) {
    OperandPlace place = selection_->tensor();
    place.layer = layers_[index];
    selection_->setTensor(place);
  });
  connect(selection_, &Selection::changed, this, &OperandLayerCombo::synchronise);
  synchronise();
}

void OperandLayerCombo::synchronise() {
  const OperandChoices choices = choicesOf(*selection_);
  if (std::exchange(choices_, choices) != choices) {
    const QSignalBlocker quiet(this);
    const auto frame = selection_->quantFrame();
    layers_ = frame ? layersOf(*frame, choices.gemm_class) : std::vector<int>{};
    clear();
    for (const int layer : layers_) addItem(layerName(layer));
  }
  setVisible(!layers_.empty());
  setCurrentIndex(to_int(std::ranges::find(layers_, selection_->tensor().layer) - layers_.begin()));
}

}  // namespace moescope
