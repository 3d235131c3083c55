// Bytes by link of one layer's dispatch, standard against de-duplicated and by payload; and the same per token over
// top_k, modelled with uniform routing.
#pragma once

#include <QComboBox>

#include "core/parallel/volumes.h"
#include "widgets/panel/layer_combo.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/band_bars.h"

namespace moescope {

class LinkBytesPanel : public Panel {
  Q_OBJECT

 public:
  explicit LinkBytesPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;

  struct Line {
    AllToAll way;
    Payload payload;
    double network, nvlink;  // bytes, of all ranks, one dispatch
  };
  const std::vector<Line>& lines() const { return lines_; }
  BandBars* plot() const { return plot_; }

 protected:
  QString status() const override;

 private:
  void refill();
  QStringList describe(int row) const;

  BandBars* plot_;
  std::vector<Line> lines_;
};

class BytesAgainstKPanel : public Panel {
  Q_OBJECT

 public:
  explicit BytesAgainstKPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;

  struct Line {
    int top_k;
    AllToAll way;
    double network, nvlink;  // bytes a token
  };
  const std::vector<Line>& lines() const { return lines_; }
  BandBars* plot() const { return plot_; }

 protected:
  QString status() const override;

 private:
  void refill();
  QStringList describe(int row) const;

  BandBars* plot_;
  QComboBox* payload_;
  std::vector<Line> lines_;
  std::vector<std::int64_t> of_;  // the run's figures that `lines_` were computed from
};

}  // namespace moescope
