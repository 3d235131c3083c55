// Which operand hurts: all quantized operands of a run at the cursor's step by layer and GEMM, costliest first. A
// double click opens the tensor.
#pragma once

#include <QTableView>

#include "widgets/panel/conclusion_label.h"
#include "widgets/panel/panel.h"

namespace moescope {

class OperandCostsModel;

class OperandCostsPanel : public Panel {
  Q_OBJECT

 public:
  enum class Of {
    active_run,   // B where that is run A and quantizes nothing
    compared_run  // if that is run A, the one beside it with the lowest SQNR
  };
  explicit OperandCostsPanel(Selection* selection, Of of = Of::active_run, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;

 signals:
  void operandOpened(const OperandPlace& place, std::int64_t step);

 protected:
  std::optional<Provenance> kind() const override;
  QString status() const override;
  void showEvent(QShowEvent* event) override;

 private:
  int shownRun() const;  // -1: there is none
  std::shared_ptr<const TelemetryFrame> frameOf(int run) const;
  void fill();
  void choose(const QModelIndex& index);
  void open(const QModelIndex& index);
  QString costliest() const;

  Of of_;
  ConclusionLabel* conclusion_;
  OperandCostsModel* model_;
  QTableView* view_;
  std::shared_ptr<const TelemetryFrame> frame_;
};

}  // namespace moescope
