// The load of every expert, 1 = fair, on a diverging log2 scale. Over time: the experts of each layer over steps, the
// layers below each other, with the mean of the last 50 steps as bars. All layers: layers x experts over these steps or
// at one step, with the MaxVio of each layer as bars. One layer: the experts of the chosen layer over steps.
#pragma once

#include <QComboBox>
#include <QStackedWidget>

#include "core/recording/history/router_window.h"
#include "widgets/panel/controls.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/router/layer_stack_map.h"
#include "widgets/router/load_maps.h"

namespace moescope {

class ExpertLoadPanel : public Panel {
  Q_OBJECT

 public:
  enum View { over_time, all_layers, one_layer };

  explicit ExpertLoadPanel(Selection* selection, QWidget* parent = nullptr)
      : ExpertLoadPanel(selection, all_layers, parent) {}
  ExpertLoadPanel(Selection* selection, View view, QWidget* parent = nullptr);
  ValueTable table() const override;
  QString explain() const override { return explanation({QString::number(kWindowSteps)}); }

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  View view() const { return static_cast<View>(switch_->current()); }
  void showView();
  void buildMatrix();
  void buildStack();
  void buildControls(View view);
  void markDirty();
  bool hasLoads();  // true if the run has loads; otherwise both views show why not
  void refillMatrix();
  void addOtherRun();
  void refillStack();
  void markCurrent();
  void paintNumbers(QPainter& painter) const;
  void paintMaxVio(QPainter& painter) const;
  QStringList describeInStack(int row, std::int64_t step) const;
  QStringList loadOfOthers(int layer, int expert, std::int64_t step) const;
  QString columnText(int layer, int expert, std::int64_t step) const;
  ValueTable tableOfLayer() const;
  ValueTable tableOfWindow() const;
  Summary summary() const { return summary_->currentIndex() == 0 ? Summary::mean : Summary::farthest; }
  int limit() const;
  std::vector<std::uint8_t> stackCodes(StepRange range, int bins) const;
  // The selected layer, or the layers that fit: the selected layer and the most uneven layers.
  std::vector<int> shownLayers();
  Answer answerOfLayers() const;
  Answer answerOfLayer() const;
  bool showsOneStep() const { return view() == all_layers && span_->currentIndex() == 1; }
  const RouterWindow& window() const;  // window up to the cursor's step, or this step alone
  int expertAt(int row, int column) const { return order_[row][column]; }
  std::vector<int> orderOf(const LayerWindow& load, int columns);

  QStackedWidget* views_;
  ViewSwitch* switch_;
  MatrixPlot* matrix_;
  LayerStackMap* stack_;
  QComboBox *layer_, *sort_, *span_, *summary_;
  std::shared_ptr<const TelemetryFrame> frame_;
  ExpertOrders orders_;
  RouterWindow loads_;                   // the rows of the map of all layers
  std::vector<int> run_of_row_;          // place of the run in each of these rows
  std::vector<std::vector<int>> order_;  // [row][column] -> expert
  // The layers of the stack. They are kept for the same run and number of layers while the selected layer is among
  // them, so that they do not jump.
  struct Shown {
    const History* history = nullptr;
    int chosen = -1, max_layers = 0;
    std::vector<int> layers;
  };
  Shown shown_;
  struct Window {
    const History* history = nullptr;
    std::uint64_t sequence = 0;
    std::int64_t step = -1;
    bool one_step = false;
    RouterWindow loads;
  };
  mutable Window window_;
};

}  // namespace moescope
