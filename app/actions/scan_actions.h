// Measures, for the panels that ask for it: how much the format of each operand changes the gradient of a run or the
// predictions of a checkpoint, what a model loses without each expert, and how similar its experts are. A copy of the
// run, or the checkpoint, computes this in its own thread, so that neither training nor the screen waits.
#pragma once

#include <QTimer>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/actions/actions.h"
#include "app/session/checkpoint_scan.h"
#include "core/numerics/recipes.h"
#include "core/training/engine/retrain.h"
#include "widgets/panel/measured_experts.h"

namespace moescope {

class CoactivationPanel;
class ExpertPanel;
class MeasureButton;
class OperandCostsPanel;
class SpecialisationPanel;
struct MeasuredTwins;

class ScanActions : public Actions {
  Q_OBJECT

 public:
  explicit ScanActions(const Context& context);

 private:
  enum class Subject { operands, removal, similarity };
  void ask(int run, std::int64_t step);
  void start(int run, std::int64_t step);
  void startTwins(int run, Recipe recipe);
  void startRemoval(int run, std::vector<std::int64_t> steps);
  void startSimilarity(int run, std::int64_t step);
  void begin(int run, const QString& what, Subject subject);
  void launch(const std::function<void()>& make);        // calls `make`, which creates a scan, and polls the scan
  using Found = std::function<void(std::size_t index)>;  // shows and keeps the figures of this index
  void startScan(const std::function<std::unique_ptr<CheckpointScan>()>& scan, Found found);
  template <typename Figures>
  using MeasureFigures = std::function<Figures(CheckpointModel& model, const std::vector<LabelledText>& texts,
                                               const ComparedTexts& which, const CheckpointScan::Progress& progress)>;
  // Measures a checkpoint, or a copy of a run with its weights before each of `steps`, which are in ascending order.
  // `add` keeps and shows the figures of a step.
  template <typename Figures>
  void startOnExperts(int run, std::vector<std::int64_t> steps, MeasureFigures<Figures> measure_figures,
                      std::function<void(std::int64_t step, const Figures& figures)> add);
  void showRecorded();
  std::uint64_t truncations() const;  // sum over the open runs; rises with every rewind
  void forgetAfterRewind();
  void keep(const char* kind, std::int64_t step, const std::string& data);
  void showTwins(const std::shared_ptr<const MeasuredTwins>& measured);
  void showExperts(std::shared_ptr<const MeasuredExperts> measured);
  void showSimilarity(std::shared_ptr<const MeasuredSimilarity> measured);
  std::shared_ptr<const MeasuredTwins> recordedTwins() const;
  // Returns the figures in the markers of the kind, from the first run that has any; nullptr if no run has any.
  template <typename Figures>
  std::shared_ptr<const Measured<Figures>> recordedFigures(
      const char* kind, std::optional<Figures> (*read)(const std::string& json)) const;
  void stop(const QString& reason);
  void look() {
    if (scan_) return lookAtScan();
    if (checkpoint_) lookAtCheckpoint();
  }
  void lookAtScan();
  void lookAtCheckpoint();
  QString progressOfCheckpoint() const;
  void showProgress(const QString& progress);
  std::vector<MeasureButton*> buttons() const;  // buttons of the panels that show the progress; empty for operand
                                                // costs, whose panels show it themselves

  QList<OperandCostsPanel*> panels_;
  QList<SpecialisationPanel*> specialisation_;
  QList<CoactivationPanel*> coactivation_;
  QList<ExpertPanel*> experts_;
  QTimer timer_;
  int place_ = 0;                        // place of the measured run
  QString run_, what_;                   // label of the measured run; measurement: "Leaving out experts"
  Subject subject_ = Subject::operands;  // decides which panels show the progress
  // At most one of the two is set.
  std::unique_ptr<RecomputedScan> scan_;
  std::unique_ptr<CheckpointScan> checkpoint_;
  Found found_;
  int shown_measurements_ = 0;  // number of measurements of checkpoint_ that were shown
  std::uint64_t truncations_ = 0;
  std::shared_ptr<const MeasuredExperts> measured_experts_;
  std::shared_ptr<const MeasuredSimilarity> measured_similarity_;
};

}  // namespace moescope
