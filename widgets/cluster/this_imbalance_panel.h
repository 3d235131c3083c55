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
  // "B200, MXFP8, EP 32: DeepEP gains (1.32 ×, 1.10 to 1.46); MXFP8 gains (1.06 ×, 1.05 to 1.15); imbalance costs 24 %
  // (20 to 28 %); EP 8 without DeepEP ...", and of what this is, from long to short; empty if no run with loads is
  // open.
  QStringList headline() const;
  QStringList about() const;
  void setCluster(const ClusterQuestion& cluster);  // EP degree of the headline, cluster, routing and placement
  void answerNow();  // computes the costs of the present loads at once, also if the panel is hidden
  // The selected run's step by EP degree; empty until they are computed.
  const std::vector<StepChoices>& choices() const { return costs_.choices.front(); }
  std::vector<RunChoices> choicesOfRuns() const;  // those of the selected run first; without those of forced balance
  int lines() const { return lines_; }            // of the table

 signals:
  void answerChanged();

 protected:
  QString status() const override;
  void showEvent(QShowEvent* event) override;

 private:
  static constexpr std::size_t kVariants = kLiveVariants;
  // Loads of a run at a step.
  struct Asked {
    const History* run = nullptr;  // only compared, never dereferenced
    QString letter;
    std::int64_t step = -1;
    bool is_forced = false, is_fp4 = false;  // balance, format of the experts
    LayerLoads loads;
    bool operator==(const Asked&) const = default;
  };
  struct Question {
    ClusterQuestion cluster;  // without EP degree and loads
    std::vector<Asked> runs;  // the selected run first
    bool operator==(const Question&) const = default;
  };
  Asked loadsOf(int place) const;
  Question presentQuestion() const;
  void renew();
  // The fastest EP degree and all-to-all, with the chosen experts.
  struct Fastest {
    int ep = 0;
    AllToAll kind = AllToAll::standard;
    double tokens_per_second = 0;
    std::vector<Speedup> gains;  // over each EP degree with the chosen all-to-all
  };
  static Fastest fastestOf(const StepConfig& config, const std::vector<TrafficByKind>& traffic);
  struct Costs {
    std::vector<LiveCost> even;                        // of a balanced router, one for each EP degree
    std::vector<std::vector<LiveCost>> runs;           // one for each EP degree; of the selected run kVariants
    std::vector<LiveCost> fullest;                     // of the selected run, if all layers had the load of its fullest
    std::vector<std::vector<Speedup>> against_even;    // of runs by EP degree: speed over that of a balanced router
    std::vector<std::vector<StepChoices>> choices{1};  // of runs by EP degree; of a forced balance one of all runs
    Fastest fastest;                                   // of the choices of the selected run
    std::string problem;                               // why there are no costs; empty if there are
  };
  static Costs compute(const Question& question, const std::stop_token& stopped);
  static Costs computeOrProblem(const Question& question, const std::stop_token& stopped);
  void show(Costs costs, const Question& question);
  void say(const QString& notice);  // shows a notice in place of the table
  const LiveCost& cost(std::size_t run, std::size_t degree, std::size_t variant = 0) const;
  std::size_t chosenDegree() const;                          // index of ep_
  QString lostText(std::size_t run, bool with_range) const;  // "24 % (20 to 28 %)", at ep_
  QString fastestText(bool is_long) const;
  QString choiceText(const char* choice, Speedup StepChoices::*gain, bool is_long) const;
  QString gainsText(bool is_long) const;
  QString costText(bool with_range) const;
  QString stepsText() const;  // "step 697"
  void fillTable();
  void addRow(const QString& name, const char* tip, const std::vector<const LiveCost*>& costs);
  void addRange(std::size_t run);
  void addPlainRow(const QString& name, const char* tip, auto forms_at);  // forms_at(degree)
  QString wayText() const { return cluster_.all_to_all == AllToAll::deep_ep ? "DeepEP" : "standard all-to-all"; }
  QString tipOf(const LiveCost& cost) const;

  FigureTable* table_;
  FittedLabel* note_;
  QLabel* notice_;
  int ep_ = 32, lines_ = 0;
  ClusterQuestion cluster_;
  QTimer pause_;  // pause before the next load, since a run in training has a new load at every step
  bool computing_ = false;
  Question question_, shown_;
  Costs costs_;  // of shown_; empty: nothing is shown
  LatestWorker worker_;
};

}  // namespace moescope
