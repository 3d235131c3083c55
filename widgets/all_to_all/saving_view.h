// What de-duplication saves: the bytes of one dispatch over the network and over NVLink, standard and with DeepEP, and
// the share that DeepEP saves for other numbers of experts per token.
#pragma once

#include <QWidget>
#include <functional>

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
  void setNotice(const QString& notice);  // in place of the bars; empty: none
  BandBars* links() const { return links_; }
  ValueTable table() const;

 private:
  struct Saving {
    int top_k = 0;
    LinkCopies standard, deep_ep;
    double saved = kNoValue;
  };
  static Saving savingOf(const VolumeFrame& volume, int top_k);
  void model(const RunInfo& info, const VolumeFrame& volume);
  void fillLinks();
  void fillModelled();

  BandBars *links_, *modelled_;
  FittedLabel* wire_;
  Saving saving_;
  std::vector<Saving> by_top_k_;     // with uniform routing, as many tokens as in a step
  std::vector<std::int64_t> shape_;  // experts, ranks, ranks of a node, tokens and top_k of `by_top_k_`
  double row_bytes_ = 0;             // bytes of a token's row
};

}  // namespace moescope
