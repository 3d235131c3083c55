#include "app/session/folder_runs_dialog.h"

#include <QDateTime>
#include <QDialogButtonBox>
#include <QDir>
#include <QFileInfo>
#include <QHeaderView>
#include <QLabel>
#include <QLocale>
#include <QPushButton>
#include <QTreeWidget>
#include <QVBoxLayout>
#include <chrono>

#include "app/session/run_session.h"
#include "widgets/look/style.h"
#include "widgets/plots/axis.h"

namespace moescope {

namespace {

enum Column { kName, kKind, kSize, kChanged, kColumns };

QString timeText(std::filesystem::file_time_type time) {
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::file_clock::to_sys(time).time_since_epoch());
  return QLocale().toString(QDateTime::fromMSecsSinceEpoch(since.count()), QLocale::ShortFormat);
}

}  // namespace

FolderRunsDialog::FolderRunsDialog(const QString& folder, const std::vector<RunFile>& runs, QWidget* parent)
    : QDialog(parent) {
  setAttribute(Qt::WA_DeleteOnClose);
  setObjectName("folder_runs_dialog");
  setWindowTitle(QString("Runs in %1").arg(QDir(folder).dirName()));
  table_ = new QTreeWidget;
  table_->setObjectName("folder_runs");
  table_->setAccessibleName("Runs in the folder, the newest first");
  table_->setRootIsDecorated(false);
  table_->setUniformRowHeights(true);
  table_->setColumnCount(kColumns);
  table_->setHeaderLabels({"run", "kind", "size", "last change"});
  table_->headerItem()->setTextAlignment(kSize, Qt::AlignRight);
  const QDir of = QFileInfo(folder).absoluteFilePath();
  for (const RunFile& run : runs) {
    const QString path = QFileInfo(QString::fromStdString(run.path)).absoluteFilePath();
    auto* row = new QTreeWidgetItem(table_, {of.relativeFilePath(path), QString(file_kind_name(run.kind)),
                                             formatBytes(static_cast<double>(run.bytes)), timeText(run.last_change)});
    row->setTextAlignment(kSize, Qt::AlignRight);
    row->setData(kName, Qt::UserRole, path);
    row->setToolTip(kName, QDir::toNativeSeparators(path));
    row->setCheckState(kName, table_->topLevelItemCount() == 1 ? Qt::Checked : Qt::Unchecked);
  }
  table_->setCurrentItem(table_->topLevelItem(0));
  table_->header()->setStretchLastSection(false);
  table_->header()->setSectionResizeMode(QHeaderView::ResizeToContents);
  table_->header()->setSectionResizeMode(kName, QHeaderView::Stretch);
  note_ = new QLabel;
  note_->setObjectName("folder_runs_note");
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Cancel);
  open_ = buttons->addButton(QString(), QDialogButtonBox::AcceptRole);
  auto* text = buttons->addButton("&Train on its text", QDialogButtonBox::ActionRole);
  text->setToolTip("All files of the folder are the text that a new run learns from");
  auto* column = new QVBoxLayout(this);
  column->addWidget(table_, 1);
  column->addWidget(note_);
  column->addWidget(buttons);
  open_->setProperty(kPrimaryProperty, true);
  open_->setDefault(true);  // set after the button was added to the dialog
  resize(620, 340);

  connect(table_, &QTreeWidget::itemChanged, this, &FolderRunsDialog::showChecked);
  connect(table_, &QTreeWidget::itemDoubleClicked, this, [this](const QTreeWidgetItem* row) {
    emit chosen({row->data(kName, Qt::UserRole).toString()});
    accept();
  });
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  connect(buttons, &QDialogButtonBox::accepted, this, [this] {
    emit chosen(checked());
    accept();
  });
  connect(text, &QPushButton::clicked, this, [this] {
    emit textWanted();
    accept();
  });
  showChecked();
}

QStringList FolderRunsDialog::checked() const {
  QStringList paths;
  for (int i = 0; i < table_->topLevelItemCount(); ++i)
    if (const QTreeWidgetItem* row = table_->topLevelItem(i); row->checkState(kName) == Qt::Checked)
      paths << row->data(kName, Qt::UserRole).toString();
  return paths;
}

void FolderRunsDialog::showChecked() {
  const auto n = checked().size();
  open_->setText(n > 1 ? QString("&Open %1 side by side").arg(n) : QString("&Open"));
  open_->setEnabled(n >= 1 && n <= kMaxRuns);
  note_->setText(n > kMaxRuns
                     ? QString("%1 are chosen; at most %2 runs are open together.").arg(n).arg(kMaxRuns)
                     : QString("Several open side by side, at most %1; the first one is run A.").arg(kMaxRuns));
}

}  // namespace moescope
