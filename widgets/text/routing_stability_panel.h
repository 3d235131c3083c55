// Share of the probe text's routing that is the same as at an earlier step: over steps, layer by layer over steps, or
// at one step for all layers.
#pragma once

#include <QComboBox>
#include <QStackedWidget>
#include <functional>
#include <memory>
#include <vector>

#include "core/findings/comparison/stability_track.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/band_bars.h"
#include "widgets/plots/line_plot.h"
#include "widgets/plots/time_heat_map.h"

namespace moescope {

class RoutingStabilityPanel : public Panel {
  Q_OBJECT

 public:
  explicit RoutingStabilityPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

 protected:
  QString status() const override;
  Answer answer() const override;
  FigureTarget target(const MetricInfo& info) const override;

 private:
  enum View { over_steps, by_layer, at_the_step };
  using HistoryPtr = std::shared_ptr<const History>;

  bool wholeSets() const { return figure_->currentIndex() == 0; }
  float baseline() const;
  QString valueCaption() const { return wholeSets() ? QString("tokens unchanged") : QString("choices unchanged"); }
  EarlierStep earlier() const;
  HistoryPtr active() const;
  void markAll();
  QString whyNoTrack() const;  // why there is nothing to draw; empty if there is something
  void bringUpToDate();
  void deliver(StabilityTrack track, const HistoryPtr& history);
  void refillLines();
  void refillLayers();
  void refillBars();
  LineSeries series(const QString& label, int color, std::function<float(const StabilityPoint&)> value,
                    std::function<int(const StabilityPoint&)> layer) const;
  FigureTarget figure(int layer, std::int64_t step) const;
  QStringList describeLayer(int row, std::int64_t step) const;

  QComboBox *view_, *figure_, *against_;
  QStackedWidget* stack_;
  LinePlot* lines_;
  TimeHeatMap* layers_;
  BandBars* bars_;
  std::int64_t pinned_ = -1;

  StabilityTrack track_;
  HistoryPtr track_of_;
  int track_version_ = 0;  // counts changes of track_
  bool busy_ = false;
  LatestWorker worker_;
};

}  // namespace moescope
