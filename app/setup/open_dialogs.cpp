#include "app/setup/open_dialogs.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDateTime>
#include <QDialogButtonBox>
#include <QDragEnterEvent>
#include <QFileInfo>
#include <QGridLayout>
#include <QHeaderView>
#include <QLabel>
#include <QListWidget>
#include <QLocale>
#include <QMimeData>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QTreeWidget>
#include <QUrl>
#include <QVBoxLayout>
#include <algorithm>
#include <chrono>
#include <exception>

#include "app/look/dialog_parts.h"
#include "app/session/run_session.h"
#include "app/session/settings.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
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

namespace {

const QString kAskForFolder = QStringLiteral("?");  // data of the entry that asks for a folder

}  // namespace

CheckpointDialog::CheckpointDialog(const QString& folder, bool has_log, QWidget* parent)
    : QDialog(parent), folder_(folder) {
  setAttribute(Qt::WA_DeleteOnClose);
  setObjectName("checkpoint_dialog");
  setWindowTitle(QString("Run texts through %1").arg(QDir(folder).dirName()));
  setAcceptDrops(true);
  facts_ = new QLabel("Reading the model...");
  facts_->setObjectName("checkpoint_facts");
  facts_->setTextFormat(Qt::PlainText);
  facts_->setWordWrap(true);
  facts_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  QWidget* files = makeFiles();
  prompt_ = new QPlainTextEdit;
  prompt_->setObjectName("checkpoint_prompt");
  prompt_->setAccessibleName("Typed text");
  prompt_->setPlaceholderText("Type or paste another text here");
  prompt_->setTabChangesFocus(true);
  reference_ = new QComboBox;
  reference_->setObjectName("checkpoint_reference");
  reference_->setAccessibleName("Compare with");
  reference_->setToolTip(
      "Another checkpoint, with the same tokenizer, that is run on the same texts: it becomes run A, this one run B");
  reference_->addItem("no other checkpoint");
  reference_->addItem("another folder...", kAskForFolder);
  QDialogButtonBox* buttons = dialogButtons(this, "&Run", &run_);
  run_->setObjectName("checkpoint_run");
  auto* train = buttons->addButton("Tra&in from it", QDialogButtonBox::ActionRole);
  train->setObjectName("checkpoint_train");
  train->setToolTip("Fill in the set-up of a run that begins with these weights");
  auto* tensors = buttons->addButton("Show its &tensors", QDialogButtonBox::ActionRole);
  auto* log = has_log ? buttons->addButton("Open its &log", QDialogButtonBox::ActionRole) : nullptr;
  auto* column = dialogColumn(this, windowTitle());
  column->addWidget(facts_);
  QGridLayout* fields = fieldGrid();
  addField(fields, "Texts", files);
  addField(fields, "Typed text", prompt_);
  addField(fields, "Compare &with", reference_);
  fields->setRowStretch(1, 2);
  fields->setRowStretch(2, 1);
  column->addLayout(fields, 1);
  column->addWidget(buttons);
  run_->setDefault(true);  // set after the button was added to the dialog
  resize(560, 460);

  connect(reference_, &QComboBox::activated, this, &CheckpointDialog::followReference);
  connect(prompt_, &QPlainTextEdit::textChanged, this, &CheckpointDialog::enableRun);
  connect(buttons, &QDialogButtonBox::accepted, this, [this] {
    emit chosen(texts());
    accept();
  });
  connect(train, &QPushButton::clicked, this, &CheckpointDialog::trainingWanted);
  connect(tensors, &QPushButton::clicked, this, &CheckpointDialog::tensorsWanted);
  if (log) connect(log, &QPushButton::clicked, this, &CheckpointDialog::logWanted);
  for (const QPushButton* ends : {train, tensors, log})
    if (ends) connect(ends, &QPushButton::clicked, this, &QDialog::accept);
  enableRun();
  describe();
}

// Returns the list of text files with the buttons that add and remove them.
QWidget* CheckpointDialog::makeFiles() {
  files_ = new QListWidget;
  files_->setObjectName("checkpoint_files");
  files_->setAccessibleName("Text files and folders");
  files_->setToolTip(
      "Each file is one domain. In a folder, each file or subfolder is one domain. Names are those of the files or "
      "folders.");
  auto* add = new QPushButton("&Add files...");
  auto* add_folder = new QPushButton("Add &folder...");
  auto* remove = new QPushButton("Re&move");
  auto* row = plainRow(kSpace8);
  for (QPushButton* button : {add, add_folder, remove}) row->addWidget(button);
  row->addStretch();
  auto* files = new QWidget;
  auto* file_column = plainColumn(files, kSpace8);
  file_column->addWidget(files_);
  file_column->addLayout(row);
  connect(add, &QPushButton::clicked, this,
          [this] { addFiles(QFileDialog::getOpenFileNames(this, "Texts to run through the model")); });
  connect(add_folder, &QPushButton::clicked, this, [this] {
    const QString chosen = QFileDialog::getExistingDirectory(this, "Folder of texts to run through the model");
    if (!chosen.isEmpty()) addFiles({chosen});
  });
  connect(remove, &QPushButton::clicked, this, [this] {
    qDeleteAll(files_->selectedItems());
    enableRun();
  });
  return files;
}

// Reads the model in a thread, since measuring a layer of a large model takes seconds.
void CheckpointDialog::describe() {
  reader_ = std::jthread([this] {
    QString facts, problem;
    try {
      facts = describeCheckpoint(folder_);
    } catch (const std::exception& e) {
      problem = QString::fromUtf8(e.what());
    }
    QMetaObject::invokeMethod(
        this,
        [this, facts, problem] {
          readable_ = problem.isEmpty();
          facts_->setText(readable_ ? facts : problem);
          enableRun();
        },
        Qt::QueuedConnection);
  });
}

void CheckpointDialog::addFiles(const QStringList& paths) {
  for (const QString& path : paths)
    if (files_->findItems(path, Qt::MatchExactly).isEmpty()) files_->addItem(path);
  enableRun();
}

void CheckpointDialog::offerReference(const CheckpointTexts& open) {
  if (open.folder == folder_) return;
  open_ = open;
  reference_->insertItem(1, QString("%1 (open, run A)").arg(QDir(open.folder).dirName()), open.folder);
}

void CheckpointDialog::setReference(const QString& folder) {
  int place = reference_->findData(folder);
  if (place < 0) {
    place = reference_->count() - 1;
    reference_->insertItem(place, QDir::toNativeSeparators(folder), folder);
  }
  reference_->setCurrentIndex(place);
}

// Asks for a folder if that entry was chosen. If the open checkpoint was chosen, takes over its texts.
void CheckpointDialog::followReference() {
  const QString chosen = reference_->currentData().toString();
  if (chosen == kAskForFolder) {
    const QString folder = QFileDialog::getExistingDirectory(this, "Folder of the checkpoint to compare with");
    if (!folder.isEmpty() && isCheckpoint(folder)) return setReference(folder);
    reference_->setCurrentIndex(0);
    if (!folder.isEmpty()) facts_->setText(QString("%1 holds no config.json with .safetensors files").arg(folder));
  } else if (!chosen.isEmpty() && chosen == open_.folder && files_->count() == 0 && prompt_->toPlainText().isEmpty()) {
    addFiles(open_.files);
    prompt_->setPlainText(open_.prompt);
  }
}

void CheckpointDialog::enableRun() {
  run_->setEnabled(readable_ && (files_->count() > 0 || !prompt_->toPlainText().trimmed().isEmpty()));
}

CheckpointTexts CheckpointDialog::texts() const {
  CheckpointTexts texts{folder_, {}, prompt_->toPlainText()};
  if (const QString reference = reference_->currentData().toString(); reference != kAskForFolder)
    texts.reference = reference;
  for (int i = 0; i < files_->count(); ++i) texts.files << files_->item(i)->text();
  return texts;
}

void CheckpointDialog::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void CheckpointDialog::dropEvent(QDropEvent* event) {
  QStringList paths;
  for (const QUrl& url : event->mimeData()->urls())
    if (url.isLocalFile()) paths << url.toLocalFile();
  addFiles(paths);
}

}  // namespace moescope
