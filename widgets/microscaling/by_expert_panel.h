// A captured operand of the routed experts, expert by expert: statistics of the quantization of each expert's rows.
#pragma once

#include <QLabel>
#include <QTableWidget>

#include "core/model/layers/operand_tap.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"

namespace moescope {

class ByExpertPanel : public Panel {
  Q_OBJECT

 public:
  explicit ByExpertPanel(Selection* selection, QWidget* parent = nullptr);

  void setCaptured(std::shared_ptr<const CapturedOperand> captured);  // shows a notice for nullptr or without experts
  void setCurrent(int expert);                                        // selected expert; -1: all

  ValueTable table() const override;

 signals:
  void expertChosen(int expert);  // -1: all

 protected:
  std::optional<Provenance> kind() const override;
  QString status() const override;
  Answer answer() const override;

 private:
  void fitColumns();
  void deliver(int request, const QuantSums& all, std::vector<QuantSums> experts);
  void fillRow(int row, const QString& name, std::size_t rows, const QuantSums& sums);

  std::shared_ptr<const CapturedOperand> captured_;
  QTableWidget* table_;
  QLabel* notice_;
  int request_ = 0;
  struct WorstExpert {
    int expert = -1;  // expert named in the answer; -1: no expert has figures
    double db = 0, all_db = 0;
  };
  WorstExpert worst_;
  LatestWorker worker_;
};

}  // namespace moescope
