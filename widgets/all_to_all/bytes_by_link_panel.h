// Bytes by link of the dispatch of one layer, standard and de-duplicated, for each payload.
#pragma once

#include "core/parallel/volumes.h"
#include "widgets/panel/layer_combo.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/band_bars.h"

namespace moescope {

class BytesByLinkPanel : public Panel {
  Q_OBJECT

 public:
  explicit BytesByLinkPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  struct Line {
    AllToAll way;
    Payload payload;
    double network, nvlink;  // bytes of all ranks in one dispatch
  };
  void refill();
  QStringList describe(int row) const;

  BandBars* plot_;
  std::vector<Line> lines_;
};

}  // namespace moescope
