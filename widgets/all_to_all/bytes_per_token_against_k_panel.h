// Bytes by link of a token's dispatch for each top_k, from a model with uniform routing.
#pragma once

#include <QComboBox>

#include "core/parallel/volumes.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/band_bars.h"

namespace moescope {

class BytesPerTokenAgainstKPanel : public Panel {
  Q_OBJECT

 public:
  explicit BytesPerTokenAgainstKPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  struct Line {
    int top_k;
    AllToAll way;
    double network, nvlink;  // bytes per token
    double sum() const { return network + nvlink; }
  };
  void refill();
  QStringList describe(int row) const;

  BandBars* plot_;
  QComboBox* payload_;
  std::vector<Line> lines_;
  std::vector<std::int64_t> of_;  // figures of the run for which `lines_` were computed
};

}  // namespace moescope
