// Cost of the open run's imbalance to DeepSeek-V3 671B on 256 B200s, against an even load, by degree of expert
// parallelism, and the effect of remedies.
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
  explicit ThisImbalancePanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;
  QString explain() const override;
  // "The load of layer 1 of this run in all layers would cost 41 % of the throughput at EP 32 (modelled)", and of which
  // layer and cluster this is, from long to short; empty if no run with loads is open.
  QStringList headline() const;
  QStringList about() const;

 signals:
  void answerChanged();

 protected:
  QString status() const override;
  Answer answer() const override;
  void showEvent(QShowEvent* event) override;

 private:
  static constexpr int kVariants = kLiveVariants;
  struct Asked {
    std::vector<std::uint32_t> load;
    std::int64_t step = -1;
    int layer = -1;
    QString place;           // "layer 1, the fullest of 8"
    bool is_forced = false;  // balance is forced
    bool operator==(const Asked&) const = default;
  };
  void renew();
  struct Costs {
    std::vector<LiveCost> even;  // of a perfectly even load, one for each EP degree
    std::vector<LiveCost> load;  // of live_cases(), kVariants for each EP degree
  };
  struct AnsweredCosts {
    const LiveCost &even, &load, &all_remedies;
  };
  void show(Costs costs, const Asked& question);
  void say(const QString& notice);  // shows a notice in place of the table
  AnsweredCosts answered() const;
  void fillColumn(int column);
  QString tipOf(const LiveCost& cost) const;
  QStringList noteForms() const;

  FigureTable* table_;
  FittedLabel* note_;
  QLabel* notice_;
  QTimer pause_;  // pause before the next load, since a run in training has a new load at every step
  bool computing_ = false;
  Asked question_, shown_;
  Costs costs_;
  LatestWorker worker_;
};

}  // namespace moescope
