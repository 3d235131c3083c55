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
  explicit OperandCostsPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;

 signals:
  void operandOpened(const OperandPlace& place, std::int64_t step);

 protected:
  std::optional<Provenance> kind() const override;
  QString status() const override;
  void showEvent(QShowEvent* event) override;

 private:
  // The active run, or B where that is run A and quantizes nothing; -1: no run.
  int shownRun() const;
  std::shared_ptr<const TelemetryFrame> frameOf(int run) const;
  void fill();
  void choose(const QModelIndex& index);
  void open(const QModelIndex& index);
  QString costliest() const;

  ConclusionLabel* conclusion_;
  OperandCostsModel* model_;
  QTableView* view_;
  std::shared_ptr<const TelemetryFrame> frame_;
};

}  // namespace moescope
