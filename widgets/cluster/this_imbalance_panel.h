// Cost of the open run's imbalance to DeepSeek-V3 671B on 256 B200s, by degree of expert parallelism, and the effect of
// remedies.
#pragma once

#include <QLabel>

#include "core/cluster/published_runs.h"
#include "widgets/look/fitted_text.h"
#include "widgets/panel/figure_table.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"

namespace moescope {

class ThisImbalancePanel : public Panel {
  Q_OBJECT

 public:
  // Columns of the table: no remedy, node-limited, balanced placement, MXFP8 payload, all three remedies.
  static constexpr int kVariants = kLiveVariants;

  explicit ThisImbalancePanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;
  QString explain() const override;

 protected:
  QString status() const override;
  Answer answer() const override;
  void showEvent(QShowEvent* event) override;

 private:
  struct Asked {
    std::vector<std::uint32_t> load;
    std::int64_t step = -1;
    int layer = -1;
    QString units;  // matrix units of the run's GEMMs; empty: not named in its log
    bool operator==(const Asked&) const = default;
  };
  void renew();
  void show(std::vector<LiveCost> costs, const Asked& question);
  void say(const QString& notice);  // shows a notice in place of the table
  void fillRow(int row);
  QString tipOf(const LiveCost& cost) const;
  QStringList noteForms() const;

  FigureTable* table_;
  FittedLabel* note_;
  QLabel* notice_;
  QTimer pause_;  // pause before the next load, since a run in training has a new load at every step
  bool computing_ = false;
  Asked question_, shown_;
  std::vector<LiveCost> costs_;
  LiveCost even_;  // of a perfectly even load, for the answer  // costs of live_cases(), a row for each EP degree
  LatestWorker worker_;
};

}  // namespace moescope
