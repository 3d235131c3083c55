// The rank of each expert, the load of the fullest rank, and the effect of another placement.
#pragma once

#include <QComboBox>
#include <QLabel>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/cluster/ranks/placement.h"
#include "core/model/moe/expert_placement.h"
#include "widgets/look/fitted_text.h"
#include "widgets/panel/controls.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

// Experts stacked on the ranks that hold them, each as high as its share of the received tokens. The user can drag an
// expert to another rank, or move the chosen expert with Shift and the arrow keys.
class PlacementStrip : public PlotFrame {
  Q_OBJECT

 public:
  explicit PlacementStrip(QWidget* parent = nullptr);

  // `load_E`: tokens of each expert, or shares of unknown unit; its replicas take equal shares.
  void setPlacement(const Placement& placement, std::vector<std::uint64_t> load_E, int ranks_per_node, bool are_shares);
  // Marks the load of each rank over the mean in another run, under its own placement. Empty: no other run.
  struct OtherRun {
    QString letter;
    int color = 0;  // index of seriesColor
    std::vector<double> load_R;
  };
  void setOther(OtherRun other) { other_ = std::move(other); }
  void setChosen(int expert);  // selected expert; -1: none
  const Placement& placement() const { return placement_; }

 signals:
  void moved(int expert, int to_rank);
  void expertChosen(int expert);

 protected:
  QMargins margins() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  struct Block {
    int expert, rank;
    double from, to;  // tokens, from the bottom of the column
  };
  Axis axis() const { return axisUp(0, top_); }
  double columnWidth() const { return plotRect().width() / std::max(1.0, static_cast<double>(rank_load_.size())); }
  QPointF columnCentre(int rank) const;
  QRectF rectOf(const Block& block) const;
  QRectF clearPart(QRectF part, int rank) const;
  const Block* blockAt(QPoint position) const;
  int rankAt(QPoint position) const;  // -1: no rank is there
  QStringList describe(const Block& block) const;

  Placement placement_;
  std::vector<std::uint64_t> load_;
  std::vector<Block> blocks_;
  std::vector<double> rank_load_;
  OtherRun other_;
  int ranks_per_node_ = 8, chosen_ = -1, dragged_ = -1, fullest_ = -1;
  bool are_shares_ = false;
  double top_ = 1, mean_ = 0;
};

class ExpertPlacementPanel : public Panel {
  Q_OBJECT

 public:
  explicit ExpertPlacementPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

  // Sets the placement that the window shows (parallel.placement); empty: the placement of the recording.
  void setAsked(const QString& placement);
  // Sets the EP degree at which a log without ranks is shown, or the nearest one below it that divides its experts.
  void setDegree(int degree);
  void setLive(bool live) { live_ = live; }
  QString shown() const;  // the shown placement as a setting

 signals:
  void placementRequested(QString placement);  // parallel.placement
  void placementShown(PlacementChoice choice);
  void degreeChosen(int degree);

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  static constexpr std::size_t kKinds = 4;
  void refill();
  void assumeRanks(std::span<const std::uint64_t> load_E);
  QString overloadText(const PlacementChoice& choice, std::span<const std::uint64_t> load_E) const;
  void nameDegrees(const PlacementChoice& choice, std::span<const std::uint64_t> load_E);
  int otherRun() const;  // place of the run beside the selected one; -1: none
  std::vector<std::uint64_t> otherLoad() const;
  PlacementStrip::OtherRun otherRanks(const PlacementChoice& choice) const;
  QStringList layersForms(const PlacementChoice& choice) const;
  void move(int expert, int to_rank);
  void choose(PlacementChoice::Kind kind);
  std::optional<PlacementSite> site() const;
  std::vector<std::uint64_t> load() const { return loadIn(frame_.get()); }
  std::vector<std::uint64_t> loadIn(const TelemetryFrame* frame) const;  // of the selected layer
  bool haveShares() const;                                               // the log does not say of how many tokens
  PlacementChoice choice() const;
  // Returns the load of the steps from which the plan for `step` is made, [E]; empty if there is no plan yet.
  std::vector<std::uint64_t> plannedOf(const PlacementChoice& choice, std::int64_t step, int n_experts) const;
  std::int64_t placedSince() const;  // newest change of the placement with which copies were counted; 0: tried out
  std::int64_t firstPlan(const PlacementChoice& choice) const;  // step of the first plan after placedSince()
  QString noPlanYet(const PlacementChoice& choice) const;       // empty unless the step is before the first plan
  Placement placed(const PlacementChoice& choice, std::int64_t step, std::span<const std::uint64_t> own_load) const;
  QString costOfReplicas(const PlacementChoice& choice, std::span<const std::uint64_t> own_load) const;

  PlacementStrip* strip_;
  QLabel* note_;
  QComboBox* planned_;  // load that "balanced" uses
  ViewSwitch* kinds_;
  FittedLabel* layers_;   // fullest layers, beside the choice of the placement
  QWidget* degrees_row_;  // EP degrees of a log without ranks
  ViewSwitch* degrees_;
  int degree_ = 32, assumed_ranks_ = 32;  // chosen, and shown because it divides the experts
  bool is_rank_count_assumed_ = false;
  std::array<double, kKinds> overloads_{};  // fullest rank over the mean, for each kind
  std::shared_ptr<const TelemetryFrame> frame_;
  std::vector<std::uint64_t> other_load_;  // of the other run; may be empty
  QString entered_placement_;
  bool live_ = false, tried_out_ = false;
};

}  // namespace moescope
