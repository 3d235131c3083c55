#include "app/workspaces/microscaling_workspace.h"

#include <QAction>
#include <QLineEdit>
#include <utility>

#include "app/look/icons.h"
#include "app/workspaces/missing.h"
#include "core/frame/frame.h"
#include "widgets/microscaling/block_microscope_panel.h"
#include "widgets/microscaling/block_scale_map_panel.h"
#include "widgets/microscaling/block_scales_panel.h"
#include "widgets/microscaling/operand_costs_panel.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensors_panel.h"
#include "widgets/microscaling/what_if_panel.h"
#include "widgets/panel/verdict_line.h"

namespace moescope {

namespace {

constexpr double kErrorShare = 0.64, kErrorHeightShare = 0.46;  // shares of width and height

}  // namespace

MicroscalingWorkspace::MicroscalingWorkspace(Selection* selection, QWidget* parent)
    : Workspace(selection, "Microscaling", parent) {
  tensor_lab_ = new TensorLab(selection_, this);
  connect(tensor_lab_, &TensorLab::readoutChanged, this, &Workspace::readoutChanged);
  addOverPanels(tensor_lab_->verdict());
  QAction* find = tensor_lab_->browser()->filter()->addAction(QIcon(), QLineEdit::LeadingPosition);
  followPalette(this, [this, find] {
    find->setIcon(picturePixmap(Picture::search, palette().color(QPalette::PlaceholderText)));
  });
  error_ = addDock(new QuantizationErrorPanel(selection_), "dock_micro_quant_error");
  costs_ = addDock(new OperandCostsPanel(selection_), "dock_micro_operand_costs");
  tensors_ = addDock(tensor_lab_->browser(), "dock_micro_tensors");
  what_if_ = addDock(tensor_lab_->whatIf(), "dock_micro_what_if");
  auto* scales = new BlockScalesPanel(selection_);
  connect(tensor_lab_, &TensorLab::blockShown, scales, [this, scales] { scales->setLosses(tensor_lab_->losses()); });
  scales_ = addDock(scales, "dock_micro_scales");
  map_ = addDock(tensor_lab_->map(), "dock_micro_map");
  microscope_ = addDock(tensor_lab_->microscope(), "dock_micro_microscope");
  setEssential({error_, microscope_});
  arrange();
  const auto tensor_missing = [this](const History& run) {
    const bool may_capture = run_origin(run.info()) == RunOrigin::checkpoint || !tensor_lab_->tensorName().isEmpty();
    return may_capture ? QString() : quantizationMissing(run);
  };
  const auto model_missing = [](const History& run) {
    if (run_origin(run.info()) == RunOrigin::checkpoint) return QString();
    return run_origin(run.info()) == RunOrigin::log ? QString("model of the run") : quantizationMissing(run);
  };
  for (QDockWidget* dock : {error_, scales_}) foldWithout(dock, quantizationMissing, true);
  for (QDockWidget* dock : {tensors_, what_if_, map_}) foldWithout(dock, tensor_missing, true);
  foldWithout(costs_, model_missing, true);
  connect(selection_, &Selection::dataChanged, this, &MicroscalingWorkspace::bringUpError);
}

// Splits docks before it tabs them, since splitting takes a dock out of its tab group.
void MicroscalingWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, error_);
  splitDockWidget(error_, microscope_, Qt::Vertical);
  splitDockWidget(error_, scales_, Qt::Horizontal);
  for (QDockWidget* dock : {costs_, tensors_, what_if_}) tabifyDockWidget(error_, dock);
  tabifyDockWidget(scales_, map_);
  for (QDockWidget* dock : docks()) dock->show();
  error_->raise();
  scales_->raise();
  shown_ = {};
  bringUpError();
}

// When a run is opened, brings the quantization error of its operands and their scales to the front. For a checkpoint,
// which quantizes nothing, brings the costs that formats would have. A tensor that is open stays in front.
void MicroscalingWorkspace::bringUpError() {
  const History* history = selection_->history();
  if (isFolded(error_) && selection_->quantFrame()) foldAnew();  // formats were changed while the run trains
  if (!history || !tensor_lab_->tensorName().isEmpty()) return;
  QDockWidget* first = error_->isHidden() ? costs_ : error_;
  if (first->isHidden()) first = tensors_;
  // The panels of a new run may appear after its first data, so that the choice is part of what was shown.
  if (const std::pair shown{history, first}; std::exchange(shown_, shown) == shown) return;
  for (QDockWidget* dock : {first, scales_})
    if (!dock->isHidden()) dock->raise();
}

void MicroscalingWorkspace::setDefaultSizes() {
  const int left_width = qRound(kErrorShare * width()), upper = qRound(kErrorHeightShare * height());
  resizeDocks({error_, scales_}, {left_width, width() - left_width}, Qt::Horizontal);
  resizeDocks({error_, microscope_}, {upper, height() - upper}, Qt::Vertical);
}

bool MicroscalingWorkspace::foldsWithoutRun() const {
  return tensor_lab_->tensorName().isEmpty();
}

void MicroscalingWorkspace::showTensors() {
  for (QDockWidget* dock : {what_if_, tensors_, map_, microscope_}) bringIntoView(dock);
}

}  // namespace moescope
