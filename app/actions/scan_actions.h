// Measures, for the panels that ask for it: how much the format of each operand changes the gradient of a run or the
// predictions of a checkpoint, what a model loses without each expert, and how similar its experts are. A copy of the
// run, or the checkpoint, computes this in its own thread, so that neither training nor the screen waits.
#pragma once

#include <QTimer>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/actions/actions.h"
#include "core/checkpoints/ablation/scans.h"
#include "core/checkpoints/text_sources.h"
#include "core/numerics/recipes.h"
#include "core/recording/history/history.h"
#include "core/training/engine/retrain.h"
#include "widgets/panel/measured_experts.h"

namespace moescope {

class CoactivationPanel;
class ExpertPanel;
class MeasureButton;
class OperandCostsPanel;
class SpecialisationPanel;
struct MeasuredTwins;

// Measures a model in its own thread: a checkpoint with the texts of a run of it, which the recording of that run
// names, or the weights of a run of this program before some of its steps, with the run's held-out text.
class CheckpointScan {
 public:
  using Progress = std::function<bool(int done, int total)>;  // counts passes; returns false to stop
  // Called in the thread, once for each step. May throw std::exception.
  using Measure = std::function<void(CheckpointModel& model, const std::vector<LabelledText>& texts,
                                     const ComparedTexts& which, const Progress& progress)>;
  // Measures a checkpoint. Both constructors start the thread; the destructor stops it after the current pass or step.
  // Throws std::runtime_error if the recording does not name the texts.
  CheckpointScan(const History& run, Measure measure);
  // Measures a run, of which a copy trains up to the last of the ascending `steps`. `plan`: of the first.
  CheckpointScan(RecomputePlan plan, std::vector<std::int64_t> steps, Measure measure);
  // Measures the effect of each operand's format on the gradient at the step of the plan.
  CheckpointScan(RecomputePlan plan, std::shared_ptr<OperandScan> found);

  bool hasEnded() const { return has_ended_; }
  int passes() const { return passes_; }                 // 0: the model is being read, or the copy trains
  std::int64_t next_step() const { return next_step_; }  // next step of the copy
  std::int64_t last_step() const { return last_step_; }  // step up to which the copy trains; -1: a checkpoint is read
  int passes_done() const { return done_; }
  int measured() const { return measured_; }           // calls of Measure that have returned
  const std::string& error() const { return error_; }  // call once it is over; empty if there was no error

 private:
  void measureRun(const RecomputePlan& plan, const std::vector<std::int64_t>& steps, const std::stop_token& stop);
  void measure(CheckpointModel& model, const std::vector<LabelledText>& texts, Index length,
               const std::stop_token& stop);  // `length`: tokens of a piece
  void start(std::function<void(const std::stop_token&)> work);

  std::int64_t last_step_ = -1;
  Measure measure_;
  std::string error_;
  std::atomic<bool> has_ended_ = false;
  std::atomic<int> done_ = 0, passes_ = 0, measured_ = 0;
  std::atomic<std::int64_t> next_step_ = 0;
  std::jthread thread_;  // last, since it uses the other members
};

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
  void look();
  QString progressText() const;
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
  std::unique_ptr<CheckpointScan> scan_;
  Found found_;
  int shown_measurements_ = 0;  // number of measurements of scan_ that were shown
  std::uint64_t truncations_ = 0;
  std::shared_ptr<const MeasuredExperts> measured_experts_;
  std::shared_ptr<const MeasuredSimilarity> measured_similarity_;
};

}  // namespace moescope
