#include "app/session/open_dialog.h"

#include <QCheckBox>
#include <QGridLayout>
#include <QPushButton>
#include <QUrl>

#include "app/session/settings.h"

namespace moescope {

namespace {

constexpr char kOpenFilters[] =
    "All that can be opened (*.moescope *.jsonl *.ndjson *.log *.out *.json *.csv *.tsv *tfevents* *.wandb mlflow.db "
    "*.safetensors *.npy *.npz *.pt *.pth *.gguf *.toml *.queue *.txt);;Recordings (*.moescope);;Training logs "
    "(*.jsonl *.ndjson *.log *.out *.txt *.json);;Tables (*.csv *.tsv);;TensorBoard events (*tfevents*);;Runs of W&B "
    "(*.wandb);;Stores of MLflow (*.db);;Tensors, routed experts, counts of experts (*.safetensors *.npy *.npz *.pt "
    "*.pth *.gguf *.json *.jsonl);;Run configs and lessons (*.toml);;Queues of candidates (*.queue);;All files (*)";

}  // namespace

// Uses Qt's dialog, since the desktop's dialog has no room for the check box.
OpenDialog::OpenDialog(const QString& kind, QWidget* parent)
    : QFileDialog(parent, "Open"), follow_(new QCheckBox("&Follow: read new steps while another program writes them")) {
  setObjectName("open_dialog");
  setAttribute(Qt::WA_DeleteOnClose);
  setOption(QFileDialog::DontUseNativeDialog);
  setFileMode(QFileDialog::ExistingFiles);
  setNameFilters(QString(kOpenFilters).split(";;"));
  for (const QString& filter : nameFilters())
    if (!kind.isEmpty() && filter.startsWith(kind)) selectNameFilter(filter);
  follow_->setObjectName("follow_files");
  follow_->setChecked(true);
  auto* folder = new QPushButton("Open this f&older");
  folder->setObjectName("open_folder");
  folder->setToolTip("Opens the shown folder: its runs, its checkpoint or its text");
  connect(folder, &QPushButton::clicked, this, [this] {
    emit chosen({directory().absolutePath()}, follow_->isChecked());
    close();
  });
  if (auto* grid = qobject_cast<QGridLayout*>(layout())) {
    const int row = grid->rowCount();
    grid->addWidget(follow_, row, 0, 1, grid->columnCount() - 1);
    grid->addWidget(folder, row, grid->columnCount() - 1);
  }
  setSidebarUrls(sidebarUrls() << QUrl::fromLocalFile(recordingsFolder()));
  connect(this, &QFileDialog::filesSelected, this,
          [this](const QStringList& paths) { emit chosen(paths, follow_->isChecked()); });
}

}  // namespace moescope
