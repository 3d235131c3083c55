// Costs of all quantized operands of a run at the cursor's step by layer and GEMM, the costliest first: either from a
// model of how their errors add up, or measured as the effect of each operand alone on the gradient in a copy of the
// run. A double click opens the tensor. A checkpoint quantizes nothing itself; for it the panel shows the effect of a
// chosen format on its predictions, operand by operand.
#pragma once

#include <QComboBox>
#include <QPushButton>
#include <QStandardItemModel>
#include <QTableView>
#include <QToolButton>
#include <array>

#include "core/frame/operand_costs.h"
#include "widgets/microscaling/precision_twins_table.h"
#include "widgets/panel/panel.h"

namespace moescope {

struct MeasuredOperands {
  QString run;  // letter and name of the run
  std::int64_t step = 0;
  OperandScan scan;
};

class OperandCostsPanel : public Panel {
  Q_OBJECT

 public:
  enum Basis { kModelled, kMeasured };
  explicit OperandCostsPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

  Basis basis() const { return bases_[kMeasured]->isChecked() ? kMeasured : kModelled; }
  void setBasis(Basis basis) { bases_[basis]->setChecked(true); }

  // Shows the progress of a measurement that this panel or another panel requested.
  void showMeasuring(const QString& progress);
  void showMeasured(std::shared_ptr<const MeasuredOperands> measured);  // nullptr: shows none
  void showTwins(std::shared_ptr<const MeasuredTwins> twins);           // of a checkpoint; nullptr: shows none
  void showRefused(const QString& reason);

 signals:
  void measurementRequested(int run, std::int64_t step);
  void twinsRequested(int run, Recipe recipe);
  void measurementCancelled();
  void operandOpened(const OperandPlace& place, std::int64_t step);

 protected:
  std::optional<Provenance> kind() const override;
  QString status() const override;
  Answer answer() const override;
  void showEvent(QShowEvent* event) override;

 private:
  enum class Contents : std::uint8_t { modelled, effects, twins };
  Contents contents() const;
  void showTable();
  void stretchBars();
  bool ofCheckpoint() const;
  Recipe recipe() const { return static_cast<Recipe>(recipe_->currentData().toInt()); }  // the chosen recipe
  Answer sayTwins() const;
  void measureOrCancel();
  void showButton();
  Answer sayMeasured() const;
  ValueTable tableOfEffects() const;
  int shownRun() const;  // place of the shown run; -1: there is none
  std::shared_ptr<const TelemetryFrame> frameOf(int run) const;
  void fill();
  void choose(const QModelIndex& index);
  void open(const QModelIndex& index);
  Answer costliest() const;
  OperandPlace placeAt(int row) const;
  QString onlyFormat() const;

  std::array<QToolButton*, 2> bases_{};  // buttons by Basis
  QWidget* basis_row_;
  QComboBox* recipe_;  // for a checkpoint
  QPushButton* measure_;
  QStandardItemModel *costs_table_, *effects_, *twins_table_;
  std::optional<Contents> shown_contents_;
  QTableView* view_;
  std::shared_ptr<const TelemetryFrame> frame_;
  std::vector<OperandCost> costs_;  // of frame_, the largest first
  std::shared_ptr<const MeasuredOperands> measured_;
  std::shared_ptr<const MeasuredTwins> twins_;
  QString progress_, refused_;  // progress of a measurement, and why it was refused; empty: none
};

}  // namespace moescope
