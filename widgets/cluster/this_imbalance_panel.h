// Cost of the imbalance of the open runs to DeepSeek-V3 671B on the cluster of Time of a step, against a balanced
// router, by degree of expert parallelism, and the effect of remedies on the selected run. A step's time is the mean
// over the MoE layers of a run. Also computes what DeepEP and MXFP8 gain there, for the headline and DeepEPGainPanel.
#pragma once

#include <QLabel>

#include "widgets/cluster/cluster_question.h"
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
  // "EP 32, modelled: DeepEP gains 1.32 × (1.10 to 1.46), ...; the imbalance costs this run about 24 % of the
  // throughput", and over which layers and on which cluster this is, from long to short; empty if no run with loads is
  // open.
  QStringList headline() const;
  QStringList about() const;
  void setCluster(const ClusterQuestion& cluster);  // EP degree of the headline, and the cluster, without its routing
  void answerNow();  // computes the costs of the present loads at once, also if the panel is hidden
  // The selected run's step by EP degree; empty until they are computed.
  const std::vector<StepChoices>& choices() const { return costs_.choices; }

 signals:
  void answerChanged();

 protected:
  QString status() const override;
  void showEvent(QShowEvent* event) override;

 private:
  static constexpr std::size_t kVariants = kLiveVariants;
  // Loads of a run at a step, by rising imbalance: those of all its MoE layers or of some, and always of the fullest.
  struct Asked {
    const History* run = nullptr;  // only compared, never dereferenced
    QString letter;
    std::int64_t step = -1;
    std::size_t layers = 0;  // MoE layers of the run
    int fullest = -1;        // the layer with the largest overload
    bool is_forced = false;  // balance is forced
    std::vector<std::vector<std::uint32_t>> by_layer;
    bool operator==(const Asked&) const = default;
  };
  struct Question {
    ClusterQuestion cluster;  // without EP degree, routing and placement
    std::vector<Asked> runs;  // the selected run first
    bool operator==(const Question&) const = default;
  };
  Asked loadsOf(int place) const;
  Question presentQuestion() const;
  void renew();
  struct Costs {
    std::vector<LiveCost> even;               // of a balanced router, one for each EP degree
    std::vector<std::vector<LiveCost>> runs;  // one for each EP degree; of the selected run kVariants
    std::vector<LiveCost> fullest;            // of the selected run, if all layers had the load of its fullest
    std::vector<StepChoices> choices;         // of the selected run, one for each EP degree
    std::string problem;                      // why there are no costs; empty if there are
  };
  static Costs compute(const Question& question, const std::stop_token& stopped);
  static Costs computeOrProblem(const Question& question, const std::stop_token& stopped);
  void show(Costs costs, const Question& question);
  void say(const QString& notice);  // shows a notice in place of the table
  const LiveCost& cost(std::size_t run, std::size_t degree, std::size_t variant = 0) const;
  std::size_t chosenDegree() const;         // index of ep_
  QString lostText(std::size_t run) const;  // "about 24 %", at ep_
  void fillTable();
  void addRow(const QString& name, const char* tip, const std::vector<const LiveCost*>& costs);
  void addRange();
  QString clusterText() const;
  QString tipOf(const LiveCost& cost) const;
  QString layersText() const;  // "mean of 8 layers"

  FigureTable* table_;
  FittedLabel* note_;
  QLabel* notice_;
  int ep_ = 32;
  ClusterQuestion cluster_;
  QTimer pause_;  // pause before the next load, since a run in training has a new load at every step
  bool computing_ = false;
  Question question_, shown_;
  Costs costs_;  // of shown_; empty: nothing is shown
  LatestWorker worker_;
};

}  // namespace moescope
