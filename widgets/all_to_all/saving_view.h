// What de-duplication saves: the bytes of one dispatch over the network and over NVLink, standard and with DeepEP.
#pragma once

#include <QWidget>

#include "core/cluster/ranks/volumes.h"
#include "core/files/text/value_table.h"
#include "core/recording/history/history.h"
#include "widgets/look/fitted_text.h"
#include "widgets/plots/band_bars.h"

namespace moescope {

class SavingView : public QWidget {
  Q_OBJECT

 public:
  explicit SavingView(QWidget* parent = nullptr);

  // Shows the dispatch of one layer and the all-to-alls of the step.
  void setVolume(const VolumeFrame& volume, const TelemetryFrame& frame, const History& history, Payload payload);
  void setNotice(const QString& notice) { links_->setNotice(notice); }  // in place of the bars; empty: none
  BandBars* links() const { return links_; }
  ValueTable table() const;

 private:
  struct Saving {
    int top_k = 0;
    LinkCopies standard, deep_ep;
    double saved = kNoValue;
  };
  void fillLinks();

  BandBars* links_;
  FittedLabel* wire_;
  Saving saving_;
  double row_bytes_ = 0;  // bytes of a token's row
};

}  // namespace moescope
