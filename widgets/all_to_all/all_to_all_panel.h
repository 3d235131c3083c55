// Communication cost of the routing of one layer in two halves: who sends what to whom, and what de-duplication saves.
#pragma once

#include <QComboBox>
#include <vector>

#include "core/cluster/ranks/volumes.h"
#include "core/frame/router_stats.h"
#include "widgets/panel/panel.h"

namespace moescope {

class RankMatrix;
class SavingView;

class AllToAllPanel : public Panel {
  Q_OBJECT

 public:
  explicit AllToAllPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;  // the values of the chosen view; of both halves: those of the matrix

 protected:
  QString status() const override;
  Answer answer() const override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  enum View { kBoth, kMatrix, kSaving };
  void buildChoices();
  void showHalves();  // both beside each other, or one if the panel is narrow
  void refill();
  void fillMatrix(const VolumeFrame& volume);
  void fillFigures(const VolumeFrame& volume);
  void namePayloads();
  bool hasVolume() const;
  const VolumeFrame* volume(const TelemetryFrame* frame) const;  // volumes of the selected layer; nullptr: none
  bool deduplicated() const { return mode_->currentIndex() == 1; }
  const std::vector<std::uint32_t>& copiesOf(const VolumeFrame& volume) const {
    return deduplicated() ? volume.distinct_RR : volume.copies_RR;
  }
  Payload payload() const { return static_cast<Payload>(payload_->currentIndex()); }
  // Bytes of the row of a token in the selected payload.
  double bytesPerCopy() const { return bytes_per_token(payload(), selection_->history()->info().dim); }
  QStringList describeReceived(int rank) const;
  QString expertsOf(int rank, int ranks) const;  // ": experts 6 and 7"; empty if they are not placed in order
  FigureTarget figure(FigureKey key) const;

  RankMatrix* matrix_;
  SavingView* saving_;
  QComboBox *view_, *mode_, *payload_;
  std::shared_ptr<const TelemetryFrame> shown_;
};

}  // namespace moescope
