// The rank of each expert, the load of the fullest rank, and the effect of another placement.
#pragma once

#include <QComboBox>
#include <QLabel>
#include <QToolButton>
#include <array>
#include <optional>

#include "core/parallel/placement_choice.h"
#include "widgets/all_to_all/placement_strip.h"
#include "widgets/panel/layer_combo.h"
#include "widgets/panel/panel.h"

namespace moescope {

class ExpertPlacementPanel : public Panel {
  Q_OBJECT

 public:
  explicit ExpertPlacementPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

  // Sets the placement that the window shows (parallel.placement); empty: that of the recording.
  void setAsked(const QString& placement);
  void setLive(bool live) { live_ = live; }
  QString shown() const;  // the shown placement as a setting

 signals:
  void placementRequested(QString placement);  // parallel.placement

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  static constexpr std::size_t kKinds = 4;
  void refill();
  void move(int expert, int to_rank);
  void choose(PlacementChoice::Kind kind);
  std::optional<PlacementSite> site() const;
  std::vector<std::uint64_t> load() const;
  PlacementChoice choice() const;
  // [E]: load of the steps from which the plan for `step` is made; empty: there is no plan yet.
  std::vector<std::uint64_t> plannedOf(const PlacementChoice& choice, std::int64_t step, int n_experts) const;
  std::int64_t placedSince() const;  // step of the newest change of the placement in the counts
  Placement placed(const PlacementChoice& choice, std::int64_t step, std::span<const std::uint64_t> own_load) const;
  QString costOfReplicas(const PlacementChoice& choice, std::span<const std::uint64_t> own_load) const;

  PlacementStrip* strip_;
  QLabel* note_;
  QComboBox* planned_;  // load by which "balanced" places
  std::array<QToolButton*, kKinds> buttons_{};
  std::array<double, kKinds> overloads_{};  // fullest rank over the mean, for each kind
  std::shared_ptr<const TelemetryFrame> frame_;
  QString asked_;
  bool live_ = false, tried_out_ = false;
};

}  // namespace moescope
