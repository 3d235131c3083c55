// Where the time of a training step on a cluster goes, for a chosen configuration: modelled tokens/s/GPU with its band,
// and the parts of the step.
#pragma once

#include <QComboBox>
#include <QDoubleSpinBox>
#include <QLabel>
#include <QSlider>
#include <QTimer>
#include <optional>

#include "widgets/cluster/cluster_question.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/band_bars.h"

namespace moescope {

class TimeOfAStepPanel : public Panel {
  Q_OBJECT

 public:
  explicit TimeOfAStepPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;
  QVariantMap saveState() const override;
  void restoreState(const QVariantMap& state) override;

  void setHypothesis(Hypothesis hypothesis);
  const std::optional<ClusterAnswer>& answered() const { return answer_; }

 signals:
  void answerChanged();

 protected:
  QString status() const override;

 private:
  class ChoiceGrid;
  ClusterQuestion question() const;  // with the load of the layer and step on the screen
  void setQuestion(const ClusterQuestion& question);
  QComboBox* addChoice(ChoiceGrid* grid, const QString& name, const QStringList& items, const QString& tip);
  void buildChoices();
  void chosen();
  void refill();
  void ask();
  void show(const ClusterAnswer& answer);
  QString unitsOfRun() const;
  QStringList describe(int row) const;

  BandBars* plot_;
  QLabel* headline_ = nullptr;  // null while the choices are built
  QComboBox *model_, *hardware_, *recipe_, *way_, *payload_, *latent_, *ep_, *routing_, *placement_, *recompute_,
      *hypothesis_;
  QDoubleSpinBox* zipf_;
  QSlider* overlap_;
  QLabel* overlap_text_;
  std::optional<ClusterQuestion> asked_;
  std::optional<ClusterAnswer> answer_;
  QTimer pause_;  // before the next load: while training goes on, one comes with every step
  LatestWorker worker_;
};

}  // namespace moescope
