// Costs of the quantized operands of a run: the effect of each operand alone on the gradient, measured in a copy of the
// run, the largest first. A checkpoint quantizes nothing itself; for it the panel shows the effect of a chosen format
// on its predictions, operand by operand.
#pragma once

#include <QComboBox>
#include <QPushButton>
#include <QStandardItemModel>
#include <QString>
#include <QStringList>
#include <QTableView>
#include <vector>

#include "core/files/text/value_table.h"
#include "core/frame/model_scans.h"
#include "widgets/panel/panel.h"

namespace moescope {

// The table of the effects of a number format on a checkpoint, operand by operand
// (core/checkpoints/ablation/scans.h).
struct MeasuredTwins {
  QString run;  // letter and name of the run
  PrecisionScan scan;
};

inline constexpr const char* kLongestDivergence = "0.000000 \u00b1 0.000000";

std::vector<Recipe> forwardRecipes();  // recipes whose forward passes differ, without fp32
void fillTwins(QStandardItemModel& model, const PrecisionScan& scan);
QStringList twinsAnswers(const PrecisionScan& scan);  // names the operand that costs most, from long to short
ValueTable twinsTable(const PrecisionScan& scan);

struct MeasuredOperands {
  QString run;  // letter and name of the run
  std::int64_t step = 0;
  OperandScan scan;
};

class OperandCostsPanel : public Panel {
  Q_OBJECT

 public:
  explicit OperandCostsPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

  // Shows the progress of a measurement that this panel or another panel requested.
  void showMeasuring(const QString& progress) { showState(progress, {}); }
  void showMeasured(std::shared_ptr<const MeasuredOperands> measured);  // nullptr: shows none
  void showTwins(std::shared_ptr<const MeasuredTwins> twins);           // of a checkpoint; nullptr: shows none
  void showRefused(const QString& reason) { showState({}, reason); }

 signals:
  void measurementRequested(int run, std::int64_t step);
  void twinsRequested(int run, Recipe recipe);
  void measurementCancelled();

 protected:
  std::optional<Provenance> kind() const override;
  QString status() const override;
  Answer answer() const override;
  void showEvent(QShowEvent* event) override;

 private:
  void showTable();
  void stretchBars();
  bool showsCheckpoint() const;
  Recipe recipe() const { return static_cast<Recipe>(recipe_->currentData().toInt()); }  // the chosen recipe
  Answer sayTwins() const;
  void measureOrCancel();
  void showButton();
  Answer sayMeasured() const;
  ValueTable tableOfEffects() const;
  int shownRun() const;  // place of the shown run; -1: there is none
  std::shared_ptr<const TelemetryFrame> frameOf(int run) const;
  void fill();
  void showState(const QString& progress, const QString& refused);

  QComboBox* recipe_;  // for a checkpoint
  QPushButton* measure_;
  QStandardItemModel *effects_, *twins_table_;
  std::optional<bool> shows_twins_;  // nullopt: no table was shown yet
  QTableView* view_;
  std::shared_ptr<const MeasuredOperands> measured_;
  std::shared_ptr<const MeasuredTwins> twins_;
  QString progress_, refused_;  // progress of a measurement, and why it was refused; empty: none
};

}  // namespace moescope
