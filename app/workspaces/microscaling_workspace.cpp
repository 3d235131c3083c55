#include "app/workspaces/microscaling_workspace.h"

#include <QAction>
#include <QLineEdit>
#include <utility>

#include "app/look/icons.h"
#include "app/workspaces/missing.h"
#include "core/frame/frame.h"
#include "widgets/microscaling/operand_costs_panel.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensors_panel.h"

namespace moescope {

MicroscalingWorkspace::MicroscalingWorkspace(Selection* selection, QWidget* parent)
    : Workspace(selection, "Microscaling", parent) {
  tensor_lab_ = new TensorLab(selection_);
  connect(tensor_lab_, &TensorLab::readoutChanged, this, &Workspace::readoutChanged);
  QAction* find = tensor_lab_->browser()->filter()->addAction(QIcon(), QLineEdit::LeadingPosition);
  followPalette(this, [this, find] {
    find->setIcon(picturePixmap(Picture::search, palette().color(QPalette::PlaceholderText)));
  });
  lab_dock_ = addDock(tensor_lab_, "Tensors", "dock_tensor_lab");
  lab_dock_->setTitleBarWidget(new QWidget(lab_dock_));  // its panels have their own titles
  quant_error_ = addDock(new QuantizationErrorPanel(selection_), "dock_micro_quant_error");
  operand_costs_ = addDock(new OperandCostsPanel(selection_), "dock_micro_operand_costs");
  arrange();
  foldWithout(quant_error_, quantizationMissing);
  foldWithout(operand_costs_, [](const History& run) {
    return run_origin(run.info()) == RunOrigin::checkpoint ? QString() : quantizationMissing(run);
  });
  connect(selection_, &Selection::dataChanged, this, &MicroscalingWorkspace::bringUpError);
}

// Arranges the default layout: all docks as tabs in the whole room, since the laboratory alone fills a small screen.
void MicroscalingWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, lab_dock_);
  for (QDockWidget* dock : {quant_error_, operand_costs_}) tabifyDockWidget(lab_dock_, dock);
  for (QDockWidget* dock : docks()) dock->show();
  showTensorLab();
  shown_ = nullptr;
  bringUpError();
}

// When a run is opened, brings the quantization error of its operands to the front. For a checkpoint, which quantizes
// nothing, brings the costs that formats would have. The laboratory stays in front if it holds a tensor.
void MicroscalingWorkspace::bringUpError() {
  const History* history = selection_->history();
  if (std::exchange(shown_, history) == history || !history || !tensor_lab_->tensorName().isEmpty()) return;
  QDockWidget* first = run_origin(history->info()) == RunOrigin::checkpoint ? operand_costs_ : quant_error_;
  if (!first->isHidden()) first->raise();
}

void MicroscalingWorkspace::setDefaultSizes() {}

// Arranges nothing: one dock has all the room already.
void MicroscalingWorkspace::arrangeEssential() {}

void MicroscalingWorkspace::showTensorLab() {
  lab_dock_->show();
  lab_dock_->raise();
}

QList<Panel*> MicroscalingWorkspace::panels() const {
  QList<Panel*> panels = Workspace::panels();
  for (Panel* panel : tensor_lab_->panels()) panels << panel;
  return panels;
}

}  // namespace moescope
