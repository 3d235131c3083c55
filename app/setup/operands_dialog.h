// Recipes of single operands as a table: a combo box for each class of GEMMs and operand.
#pragma once

#include <QDialog>
#include <array>

#include "core/config/operand_recipes.h"

class QComboBox;

namespace moescope {

class OperandsDialog : public QDialog {
  Q_OBJECT

 public:
  explicit OperandsDialog(const QString& text, QWidget* parent = nullptr);  // unreadable text counts as empty
  QComboBox* choice(GemmClass gemm_class, Operand operand) const;
  QString text() const;

 signals:
  void chosen(QString text);

 private:
  std::array<std::array<QComboBox*, 3>, kNumGemmClasses> choices_{};
};

}  // namespace moescope
