#include "app/setup/checkpoint_dialog.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QDir>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QGridLayout>
#include <QLabel>
#include <QListWidget>
#include <QMimeData>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QVBoxLayout>
#include <exception>

#include "app/look/dialog_parts.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"

namespace moescope {

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

CheckpointDialog::~CheckpointDialog() {
  reader_.join();
}

// Reads the model in a thread, since measuring a layer of a large model takes seconds.
void CheckpointDialog::describe() {
  reader_ = std::thread([this] {
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
