// Combo boxes that select the operand of the number-format panels: class of GEMMs, operand, layer. They list the
// operands in the newest statistics.
#pragma once

#include <array>
#include <vector>

#include "widgets/panel/controls.h"
#include "widgets/selection/selection.h"

namespace moescope {

// Numbers of quantized operands by class, and the selected class. The lists depend on them.
struct OperandChoices {
  std::array<int, kNumQuantClasses> operands{};
  GemmClass gemm_class{};
  bool operator==(const OperandChoices&) const = default;
};

class GemmClassCombo : public FlatCombo {
  Q_OBJECT

 public:
  // `brief`: short names such as "routed" for "routed experts".
  explicit GemmClassCombo(Selection* selection, QWidget* parent = nullptr, bool brief = false);

 private:
  void synchronise();
  void choose(int index);

  Selection* selection_;
  OperandChoices choices_;
};

// Chooses the weight, operand and direction, or the layer.
class OperandCombo : public FlatCombo {
  Q_OBJECT

 public:
  enum Part { tensor, layer };
  explicit OperandCombo(Selection* selection, Part part, QWidget* parent = nullptr);

 private:
  void synchronise();
  // `place` with the part of `chosen`.
  OperandPlace changed(const OperandPlace& place, const OperandPlace& chosen) const;

  Selection* selection_;
  Part part_;
  OperandChoices choices_;
  std::vector<OperandPlace> places_;  // of the items
};

}  // namespace moescope
