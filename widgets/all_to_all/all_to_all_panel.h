// What the routing of one layer costs in communication: bytes from rank to rank, standard and de-duplicated.
#pragma once

#include <QComboBox>
#include <array>

#include "core/parallel/volumes.h"
#include "widgets/panel/layer_combo.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/plots/value_tile.h"

namespace moescope {

class AllToAllPanel : public Panel {
  Q_OBJECT

 public:
  explicit AllToAllPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;
  QVariantMap saveState() const override;
  void restoreState(const QVariantMap& state) override;

 protected:
  QString status() const override;

 private:
  void refill();
  void paintSums(QPainter& painter) const;
  std::shared_ptr<const TelemetryFrame> frame() const;
  const VolumeFrame* volume(const std::shared_ptr<const TelemetryFrame>& frame) const;  // of the layer, nullptr: none
  bool deduplicated() const { return mode_->currentIndex() == 1; }
  Payload payload() const { return static_cast<Payload>(payload_->currentIndex()); }
  double bytesPerCopy() const;  // a token's row in the chosen payload
  QString bytesRule() const;    // how the bytes are computed
  QStringList describe(int source, int destination) const;
  QString totalText(int which) const;
  FigureTarget totalFigure(int which) const;

  MatrixPlot* view_;
  QComboBox *mode_, *payload_;
  std::array<ValueTile*, 4> tiles_{};
  std::shared_ptr<const TelemetryFrame> shown_;
};

}  // namespace moescope
