// Combo boxes that select the operand of the number-format panels: class of GEMMs, operand, layer. They list the
// operands in the newest statistics.
#pragma once

#include <array>
#include <vector>

#include "widgets/panel/flat_combo.h"
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

class OperandCombo : public FlatCombo {
  Q_OBJECT

 public:
  explicit OperandCombo(Selection* selection, QWidget* parent = nullptr);

 private:
  void synchronise();

  Selection* selection_;
  OperandChoices choices_;
  std::vector<OperandPlace> places_;
};

class OperandLayerCombo : public FlatCombo {
  Q_OBJECT

 public:
  explicit OperandLayerCombo(Selection* selection, QWidget* parent = nullptr);

 private:
  void synchronise();

  Selection* selection_;
  OperandChoices choices_;
  std::vector<int> layers_;
};

}  // namespace moescope
