#include "app/setup/compare_dialog.h"

#include <QComboBox>
#include <QCompleter>
#include <QDialogButtonBox>
#include <QFormLayout>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>
#include <utility>

#include "app/look/theme.h"
#include "app/setup/field_editor.h"
#include "core/training/lab/lock_step.h"

namespace moescope {

CompareDialog::CompareDialog(const RunConfig& first, const QString& key, QWidget* parent, std::optional<qint64> from)
    : QDialog(parent), first_(first), from_(from) {
  setAttribute(Qt::WA_DeleteOnClose);
  setObjectName("compare_dialog");
  setWindowTitle(from ? QString("Branch off from step %1").arg(*from) : QString("Compare with..."));
  keys_ = new QComboBox;
  keys_->setAccessibleName("Setting");
  keys_->setEditable(true);
  keys_->setInsertPolicy(QComboBox::NoInsert);
  keys_->completer()->setFilterMode(Qt::MatchContains);
  keys_->completer()->setCompletionMode(QCompleter::PopupCompletion);
  keys_->setToolTip("The setting in which the twin differs; type a part of its name to find it");
  for (const ConfigField& field : config_fields())
    if (comparable(field) && (field.live || !from)) keys_->addItem(QString::fromStdString(field.key));
  now_ = new QLabel;
  place_ = new QVBoxLayout;
  problem_ = new QLabel;
  problem_->setWordWrap(true);
  QPalette warning = palette();
  warning.setColor(QPalette::WindowText, warningColor(palette()));
  problem_->setPalette(warning);

  cost_ = new QLabel;
  cost_->setObjectName("twin_cost");
  cost_->setWordWrap(true);
  cost_->hide();

  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel);
  ok_ = buttons->button(QDialogButtonBox::Ok);
  ok_->setText("Train the twin");
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  connect(buttons, &QDialogButtonBox::accepted, this, [this] {
    emit twinRequested(twin());
    accept();
  });
  auto* form = new QFormLayout;
  form->addRow("Setting", keys_);
  form->addRow(from ? "Now" : "Run A", now_);
  form->addRow("Twin", place_);
  auto* column = new QVBoxLayout(this);
  auto* words = new QLabel(
      from
          ? QString("The twin continues from the run's checkpoint at step %1 with this setting changed, reads the same "
                    "batches and catches up while run A waits. Without a change it repeats the run, for later actions.")
                .arg(*from)
          : QString("The twin starts from step 0 with run A's settings except this one, reads the same batches and "
                    "catches up while run A waits."));
  words->setWordWrap(true);
  column->addWidget(words);
  column->addLayout(form);
  column->addWidget(problem_);
  column->addWidget(cost_);
  column->addStretch(1);
  column->addWidget(buttons);
  setMinimumWidth(440);
  connect(keys_, &QComboBox::currentIndexChanged, this, &CompareDialog::onKeyChosen);
  keys_->setCurrentIndex(std::max(0, keys_->findText(key.isEmpty() ? QString("precision.experts") : key)));
  onKeyChosen();
}

bool CompareDialog::comparable(const ConfigField& field) {
  return field.key.find("data.") != 0 && field.key.find("telemetry.") != 0 && field.key != "name";
}

void CompareDialog::onKeyChosen() {
  const ConfigField* field = find_field(keys_->currentText().toStdString());
  if (!field) return;
  delete editor_;
  editor_ = new FieldEditor(*field);
  editor_->setValue(field->get(first_));
  place_->addWidget(editor_);
  connect(editor_, &FieldEditor::edited, this, &CompareDialog::check);
  // Made last, it would come last.
  QWidget* before = keys_;
  for (QWidget* part : editor_->findChildren<QWidget*>(QString(), Qt::FindDirectChildrenOnly)) {
    if (!(part->focusPolicy() & Qt::TabFocus)) continue;
    setTabOrder(before, part);
    before = part;
  }
  setTabOrder(before, ok_);
  now_->setText(QString::fromStdString(to_string(field->get(first_)) + " " + field->unit));
  keys_->setToolTip(fieldToolTip(*field));
  check();
}

RunConfig CompareDialog::twin() const {
  RunConfig twin = first_;
  if (const auto value = editor_->value()) editor_->field().set(twin, *value);
  return twin;
}

void CompareDialog::check() {
  QString problem = editor_->problem();
  if (problem.isEmpty()) {
    const RunConfig wanted = twin();
    const auto problems = validate(wanted);
    if (difference(first_, wanted).empty() && !from_)
      problem = "Run A has this value already: choose another one.";
    else if (!problems.empty())
      problem = QString::fromStdString(problems.front().message);
    else
      problem = QString::fromStdString(lock_step_problem(first_, wanted));
  }
  problem_->setText(problem);
  ok_->setEnabled(problem.isEmpty());
  cost_->setVisible(cost_of_ && problem.isEmpty());
  if (cost_of_ && problem.isEmpty()) cost_->setText(cost_of_(twin()));
}

void CompareDialog::setCost(std::function<QString(const RunConfig&)> text) {
  cost_of_ = std::move(text);
  check();
}

}  // namespace moescope
