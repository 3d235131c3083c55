// Communication cost of the routing of one layer in two halves: who sends what to whom, and what de-duplication saves.
#pragma once

#include <QComboBox>
#include <QStringList>
#include <QWidget>
#include <vector>

#include "core/cluster/ranks/volumes.h"
#include "core/files/text/value_table.h"
#include "core/frame/router_stats.h"
#include "core/recording/history/history.h"
#include "widgets/look/fitted_text.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/band_bars.h"
#include "widgets/plots/line_plot.h"

namespace moescope {

class RankMatrix;

// What MPI sent in the all-to-alls of a step, beside the count from the routing, from long to short: "MPI sent 16.4 kB
// in this step, as counted; the slowest rank took 2.5 ms (measured)"; empty if the run trains in one process.
QStringList wireForms(const TelemetryFrame& frame, const History& history);

// What de-duplication saves: the bytes of one dispatch over the network and over NVLink, standard and with DeepEP.
class SavingView : public QWidget {
  Q_OBJECT

 public:
  explicit SavingView(Selection* selection, QWidget* parent = nullptr);

  // Shows the dispatch of one layer and the all-to-alls of the step.
  void setVolume(const VolumeFrame& volume, const TelemetryFrame& frame, const History& history, Payload payload);
  void setNotice(const QString& notice) { links_->setNotice(notice); }  // in place of the bars; empty: none
  BandBars* links() const { return links_; }
  ValueTable table() const;

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  struct Saving {
    int top_k = 0;
    LinkCopies standard, deep_ep;
    double saved = kNoValue;
  };
  void fillLinks();

  BandBars* links_;
  LinePlot* over_time_;
  FittedLabel* wire_;
  Saving saving_;
  double row_bytes_ = 0;  // bytes of a token's row
};

class AllToAllPanel : public Panel {
  Q_OBJECT

 public:
  explicit AllToAllPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;  // the values of the chosen view; of both: those of the matrix

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
  bool hasVolume() const { return volume(selection_->frame().get()) != nullptr; }
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
