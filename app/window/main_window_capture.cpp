// From a cell of the quantization-error matrix to the tensor behind it.
#include <QFileDialog>
#include <QStatusBar>

#include "app/session/capture_desk.h"
#include "app/window/main_window.h"
#include "app/workspaces/microscaling_workspace.h"
#include "widgets/microscaling/quant_error_panel.h"
#include "widgets/microscaling/tensor_lab.h"

namespace moescope {

void MainWindow::connectCapture() {
  capture_desk_ = new CaptureDesk(&session_, &selection_, microscaling_->tensorLab(), this);
  for (Workspace* each : workspaces())
    for (QuantErrorPanel* matrix : each->findChildren<QuantErrorPanel*>())
      connect(matrix, &QuantErrorPanel::operandOpened, capture_desk_, &CaptureDesk::open);
  connect(capture_desk_, &CaptureDesk::shown, this, [this] {
    showWorkspace(microscaling_);
    microscaling_->showTensorLab();
    clock_.wake();
  });
  connect(capture_desk_, &CaptureDesk::saveRequested, this, [this] {
    const QString path =
        QFileDialog::getSaveFileName(this, "Save tensor", "operand.safetensors", "Tensors (*.safetensors)");
    if (path.isEmpty()) return;
    guarded([&] {
      capture_desk_->save(path);
      statusBar()->showMessage("saved " + path, 5000);
    });
  });
}

}  // namespace moescope
