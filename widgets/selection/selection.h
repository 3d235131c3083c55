// The selection of the user, shared by all panels, so that no panel depends on another.
#pragma once

#include <QObject>
#include <QString>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/recording/history/history.h"

namespace moescope {

class Selection : public QObject {
  Q_OBJECT

 public:
  explicit Selection(QObject* parent = nullptr);

  // Data
  void setHistories(std::vector<std::shared_ptr<const History>> histories);
  const QString& opening() const { return opening_; }  // "Reading run.moescope"; empty: nothing is being opened
  void setOpening(const QString& what) {
    if (std::exchange(opening_, what) != what) emit dataChanged();
  }
  const History* history() const;  // history of the active run; nullptr: no run is open
  const std::vector<std::shared_ptr<const History>>& histories() const { return histories_; }
  int run() const { return run_; }
  void setRun(int run);
  // Sets which runs are noise twins of run A.
  void setNoiseTwins(std::vector<bool> twins) {
    if (std::exchange(noise_twins_, twins) != twins) emit dataChanged();
  }
  const std::vector<bool>& noiseTwins() const { return noise_twins_; }
  bool isNoiseTwin(int run) const { return run < std::ssize(noise_twins_) && noise_twins_[run]; }

  // Time. `follow` keeps the cursor and the right edge on the newest step.
  std::int64_t step() const { return step_; }  // the cursor's step
  // Sets the cursor to the step of the run that is nearest to `step`. Follows new steps if it is the newest, else stops
  // following.
  void setStep(std::int64_t step);
  void moveStep(std::int64_t steps);  // moves the cursor, at least to the next step of the run
  bool following() const { return following_; }
  void setFollowing(bool follow);
  QString stepWord() const;                   // "step"; "batch" for a checkpoint, whose steps are batches of text
  QString stepCount(int steps) const;         // "50 steps"; "50 batches" for a checkpoint
  int loadsIn(StepRange steps) const;         // loads of the active run in them; 0: every step has one
  QString windowText(StepRange steps) const;  // rangeText(), or "5 loads, steps 1,300 to 1,380"
  QString rangeText(StepRange steps) const;   // "steps 951 to 1,000", "step 7"; "batches 0 to 6" for a checkpoint
  // Runs whose numbers of tokens in a step differ are aligned by tokens (token_ratio() in gap_track.h). The steps of
  // the selection are those of the active run; these give the places of another run.
  bool isByTokens() const;
  std::int64_t stepOf(const History& run, std::int64_t step) const;
  // Step that is shown of an open run: that at the cursor, or its last one.
  std::int64_t shownStepOf(const History& run) const;
  // Last step of the windows of loads of the active run: that at the cursor, or, while new steps arrive, the last step
  // of its verdict, so that all figures of a window agree.
  std::int64_t windowStep() const;
  void setVerdictSteps(std::vector<std::int64_t> steps);  // of the open runs, in their order
  std::vector<std::int64_t> edgesOf(const History& run, std::vector<std::int64_t> edges) const;  // edges of bins
  bool growing() const { return growing_; }  // whether new steps arrive
  void setGrowing(bool growing) {
    if (std::exchange(growing_, growing) != growing) emit timeChanged();
  }
  StepRange range() const { return range_; }  // visible range of all time axes
  void setRange(StepRange range);             // zooms or pans
  bool showsAll() const { return range_is_all_; }
  void fitRange();  // shows all steps and follows new ones

  // Layer, expert and tensor
  int layer() const { return layer_; }  // index among all layers; a MoE layer
  void setLayer(int layer);             // selects a layer for the user: panels of the worst layer then show this layer
  void showLayer(int layer);            // selects a layer without layerChosen()
  bool isLayerChosen() const { return layer_is_chosen_; }  // the user selected this layer or an expert of it
  int expert() const { return expert_; }                   // -1: none
  void setExpert(int expert);
  // The selected operand. Its layer follows layer(), except for operands of dense layers and the head; selecting an
  // operand of a MoE layer selects that layer.
  const OperandPlace& tensor() const { return tensor_; }
  void setTensor(OperandPlace tensor);

  // The newest frames at or before step() with arrays and with quantization statistics; nullptr if there is none. They
  // are unpacked once for all panels.
  std::shared_ptr<const TelemetryFrame> frame() const { return frames().frame; }
  std::shared_ptr<const TelemetryFrame> quantFrame() const { return frames().quant_frame; }
  // While the cursor follows the active run, quantFrame() stays at this step, that of an operand whose values are
  // shown, so that all figures of the operand are of one step; -1: it is the newest.
  void holdQuants(std::int64_t step);
  // The newest frame with arrays of the run at `place`, at or before its shownStepOf(); nullptr if there is none.
  std::shared_ptr<const TelemetryFrame> frameOf(int place) const;

  // Step of the crosshair that the time axes share; -1 if there is no crosshair.
  std::int64_t hoverStep() const { return hover_step_; }
  void setHoverStep(std::int64_t step) {
    if (std::exchange(hover_step_, step) != step) emit hoverStepChanged();
  }

  // Estimated time of the first step of the open runs, for panels that wait for that step; nullopt if it is not known.
  std::optional<double> firstStepSeconds() const { return first_step_seconds_; }
  void setFirstStepSeconds(std::optional<double> seconds) { first_step_seconds_ = seconds; }

  // Called by the frame clock: moves cursor and range when following, and emits dataChanged for new frames.
  void refresh();

 signals:
  void dataChanged();   // new frames or another history
  void timeChanged();   // cursor or range
  void layerChosen();   // the user selected a layer, possibly the selected one
  void focusChanged();  // run, layer, expert or tensor
  void changed();       // data, time or focus
  void hoverStepChanged();

 private:
  void moveTensorToLayer();
  // Moves cursor and range, clamped to the existing steps. Returns true if they changed and timeChanged was emitted.
  bool moveTime(std::int64_t step, StepRange range);

  std::vector<std::shared_ptr<const History>> histories_;
  std::vector<bool> noise_twins_;
  QString opening_;
  int run_ = 0;
  std::int64_t step_ = 0;
  std::vector<std::int64_t> verdict_steps_;
  bool following_ = true, growing_ = false;
  StepRange range_;
  bool range_is_all_ = true;
  int layer_ = 0;
  bool layer_is_chosen_ = false;
  int expert_ = -1;
  OperandPlace tensor_;
  std::int64_t hover_step_ = -1;
  std::uint64_t seen_sequence_ = 0;
  std::optional<double> first_step_seconds_;
  std::int64_t held_quants_ = -1;

  struct FrameCache {
    const History* history = nullptr;
    std::uint64_t sequence = 0;
    std::int64_t step = -1;
    std::shared_ptr<const TelemetryFrame> frame, quant_frame;
  };
  const FrameCache& frames() const;
  mutable FrameCache frames_;
};

}  // namespace moescope
