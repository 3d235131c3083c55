#include "app/setup/folder_runs_dialog.h"

#include <QDateTime>
#include <QDialogButtonBox>
#include <QFileInfo>
#include <QHeaderView>
#include <QLabel>
#include <QLocale>
#include <QPushButton>
#include <QTreeWidget>
#include <QVBoxLayout>
#include <algorithm>
#include <chrono>

#include "app/look/dialog_parts.h"
#include "app/session/run_session.h"
#include "widgets/plots/axis.h"

namespace moescope {

namespace {

enum Column { kName, kKind, kSize, kChanged, kColumns };
constexpr int kMaxModels = 2;  // most models that are run on the same texts
const QString kModel = QStringLiteral("model");

QDateTime timeOf(std::filesystem::file_time_type time) {
  const auto modified =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::file_clock::to_sys(time).time_since_epoch());
  return QDateTime::fromMSecsSinceEpoch(modified.count());
}

}  // namespace

FolderRunsDialog::FolderRunsDialog(const QString& folder, const std::vector<RunFile>& runs,
                                   const std::vector<CheckpointFolder>& models, QWidget* parent)
    : QDialog(parent), folder_(QFileInfo(folder).absoluteFilePath()) {
  setAttribute(Qt::WA_DeleteOnClose);
  setObjectName("folder_runs_dialog");
  QString what = QString("Runs and models");
  if (runs.empty()) what = QString("Models");
  if (models.empty()) what = QString("Runs");
  setWindowTitle(QString("%1 in %2").arg(what, QDir(folder).dirName()));
  table_ = new QTreeWidget;
  table_->setObjectName("folder_runs");
  table_->setAccessibleName("Runs in the folder, the newest first, and models");
  table_->setRootIsDecorated(false);
  table_->setUniformRowHeights(true);
  table_->setColumnCount(kColumns);
  table_->setHeaderLabels({runs.empty() ? QString("model") : QString("run"), "kind", "size", "last change"});
  table_->headerItem()->setTextAlignment(kSize, Qt::AlignRight);
  for (const RunFile& run : runs)
    addRow(QString::fromStdString(run.path), QString(file_kind_name(run.kind)), run.bytes, timeOf(run.last_change));
  for (const CheckpointFolder& model : models) addRow(model.path, kModel, model.bytes, model.last_change);
  table_->setCurrentItem(table_->topLevelItem(0));
  table_->header()->setStretchLastSection(false);
  table_->header()->setSectionResizeMode(QHeaderView::ResizeToContents);
  table_->header()->setSectionResizeMode(kName, QHeaderView::Stretch);
  note_ = quietText();
  note_->setObjectName("folder_runs_note");
  QDialogButtonBox* buttons = dialogButtons(this, {}, &open_);
  auto* text = buttons->addButton("&Train on its text", QDialogButtonBox::ActionRole);
  text->setToolTip("All files of the folder are the text that a new run learns from");
  auto* column = dialogColumn(this, windowTitle());
  column->addWidget(table_, 1);
  column->addWidget(note_);
  column->addWidget(buttons);
  open_->setDefault(true);  // set after the button was added to the dialog
  resize(620, 340);

  connect(table_, &QTreeWidget::itemChanged, this, &FolderRunsDialog::showChecked);
  connect(table_, &QTreeWidget::itemDoubleClicked, this, [this](const QTreeWidgetItem* row) {
    emit chosen({row->data(kName, Qt::UserRole).toString()});
    accept();
  });
  connect(buttons, &QDialogButtonBox::accepted, this, [this] {
    emit chosen(checked());
    accept();
  });
  connect(text, &QPushButton::clicked, this, &FolderRunsDialog::textWanted);
  connect(text, &QPushButton::clicked, this, &QDialog::accept);
  showChecked();
}

void FolderRunsDialog::addRow(const QString& path, const QString& kind, double bytes, const QDateTime& changed) {
  const QString absolute = QFileInfo(path).absoluteFilePath();
  auto* row = new QTreeWidgetItem(table_, {folder_.relativeFilePath(absolute), kind, formatBytes(bytes),
                                           QLocale().toString(changed, QLocale::ShortFormat)});
  row->setTextAlignment(kSize, Qt::AlignRight);
  row->setData(kName, Qt::UserRole, absolute);
  row->setToolTip(kName, QDir::toNativeSeparators(absolute));
  row->setCheckState(kName, table_->topLevelItemCount() == 1 ? Qt::Checked : Qt::Unchecked);
}

QStringList FolderRunsDialog::checked() const {
  QStringList paths;
  for (int i = 0; i < table_->topLevelItemCount(); ++i)
    if (const QTreeWidgetItem* row = table_->topLevelItem(i); row->checkState(kName) == Qt::Checked)
      paths << row->data(kName, Qt::UserRole).toString();
  return paths;
}

void FolderRunsDialog::showChecked() {
  const QStringList paths = checked();
  const auto n = paths.size(), models = std::ranges::count_if(paths, isCheckpoint);
  const bool only_models = models > 0 && models == n;
  const auto max_selected = only_models ? qsizetype{kMaxModels} : qsizetype{kMaxRuns};
  open_->setText(n > 1 ? QString("&Open %1 side by side").arg(n) : QString("&Open"));
  open_->setEnabled(n >= 1 && n <= max_selected && (models == 0 || only_models));
  if (models > 0 && !only_models) return note_->setText("Runs and models are not opened together.");
  if (only_models)
    return note_->setText(
        "Asks for texts to run through the model. Two models are run on the same texts, the first as run A.");
  note_->setText(
      n > kMaxRuns ? QString("%1 are chosen; at most %2 runs can be open side by side.").arg(n).arg(kMaxRuns)
                   : QString("Choose up to %1 runs to open them side by side; the first one is run A.").arg(kMaxRuns));
}

}  // namespace moescope
