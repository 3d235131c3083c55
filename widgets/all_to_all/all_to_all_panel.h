// Communication cost of the routing of one layer: bytes from rank to rank, standard and de-duplicated.
#pragma once

#include <QComboBox>

#include "core/frame/volume_stats.h"
#include "core/parallel/volumes.h"
#include "widgets/all_to_all/rank_matrix.h"
#include "widgets/panel/panel.h"

namespace moescope {

class AllToAllPanel : public Panel {
  Q_OBJECT

 public:
  explicit AllToAllPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  void refill();
  void fillMatrix(const VolumeFrame& volume);
  void fillFigures(const VolumeFrame& volume);
  const VolumeFrame* volume(const TelemetryFrame* frame) const;  // volumes of the selected layer; nullptr: none
  bool deduplicated() const { return mode_->currentIndex() == 1; }
  Payload payload() const { return static_cast<Payload>(payload_->currentIndex()); }
  double bytesPerCopy() const;  // bytes of a token's row in the selected payload
  QStringList describe(int source, int destination) const;
  QStringList describeReceived(int rank) const;
  FigureTarget figure(FigureKey key) const;

  RankMatrix* view_;
  QComboBox *mode_, *payload_;
  std::shared_ptr<const TelemetryFrame> shown_;
};

}  // namespace moescope
