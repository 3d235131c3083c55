// Time of a training step on a cluster for a chosen configuration: modelled tokens/s/GPU with its band, and the parts
// of the step, or one layer on every rank.
#pragma once

#include <QComboBox>
#include <QTimer>
#include <optional>

#include "widgets/cluster/cluster_question.h"
#include "widgets/look/fitted_text.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/band_bars.h"

namespace moescope {

class LayerLanes;

class TimeOfAStepPanel : public Panel {
  Q_OBJECT

 public:
  explicit TimeOfAStepPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

  LayerLanes* lanes() const { return lanes_; }
  const std::optional<ClusterAnswer>& answered() const { return answer_; }
  int degree() const { return ep_->currentText().section(QLatin1Char(' '), 1).toInt(); }
  bool offers(int degree) const { return ep_->findText(QString("EP %1").arg(degree)) >= 0; }
  void setDegree(int degree);  // ignored if it is not offered
  void setPlacement(const PlacementChoice& placement);
  ClusterQuestion question() const;  // the question with the load of the selected layer and step

 signals:
  void degreeChosen(int degree);
  void placementChosen(QString placement);  // parallel.placement
  void clusterChosen();                     // one of the choices has changed

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  QComboBox* addChoice(QLayout* row, const QString& name, const QStringList& items, const QString& tip);
  void buildViews();
  bool showsLayer() const { return view_->currentIndex() == 1; }
  void markDirty();
  void buildChoices();
  void buildRouting(QLayout* row);
  void followRun();  // chooses "this router" if the run has loads, until the user has chosen a routing
  void chosen();
  void refill();
  void ask();
  void show(const ClusterAnswer& answer);
  std::vector<BandBars::Row> barRows() const;  // of answer_
  QStringList noteForms() const;
  QStringList splitForms() const;  // what is assumed on the tokens of tensor-parallel ranks

  BandBars* plot_;
  LayerLanes* lanes_;
  FittedLabel* split_;
  FittedLabel* note_ = nullptr;  // nullptr while the panel is being built
  QComboBox *view_, *hardware_, *recipe_, *way_, *payload_, *ep_, *routing_, *placement_;
  bool routing_is_chosen_ = false;  // by the user
  PlacementChoice shown_placement_;
  std::optional<ClusterQuestion> question_;
  const History* run_ = nullptr;  // of question_; only compared, never dereferenced
  std::optional<ClusterAnswer> answer_;
  QTimer pause_;  // pause before the next load, since a run in training has a new load at every step
  LatestWorker worker_;
};

}  // namespace moescope
