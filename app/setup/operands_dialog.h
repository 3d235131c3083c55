// A table of the recipes of single operands: a combo box for each class of GEMMs and each operand, and a line for
// entries that concern single layers or GEMMs.
#pragma once

#include <QDialog>
#include <array>

#include "core/config/operand_recipes.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QPushButton;

namespace moescope {

class OperandsDialog : public QDialog {
  Q_OBJECT

 public:
  explicit OperandsDialog(const QString& text, QWidget* parent = nullptr);  // unreadable text counts as empty
  QComboBox* choice(GemmClass gemm_class, OperandRole operand) const {
    return choices_[static_cast<std::size_t>(gemm_class)][static_cast<std::size_t>(operand)];
  }
  QLineEdit* single() const { return single_; }  // line for entries that concern single layers or GEMMs
  QString text() const;

 signals:
  void chosen(QString text);

 private:
  void checkSingle();

  std::array<std::array<QComboBox*, 3>, kNumGemmClasses> choices_{};
  QLineEdit* single_ = nullptr;
  QLabel* problem_ = nullptr;
  QPushButton* ok_ = nullptr;
};

}  // namespace moescope
