#include "app/docks/actions_dock.h"

#include <QAbstractItemView>
#include <QComboBox>
#include <QGridLayout>
#include <QLabel>
#include <QPushButton>
#include <QSignalBlocker>

#include "app/look/dialog_parts.h"
#include "app/look/messages.h"
#include "app/setup/field_editor.h"
#include "app/setup/mixture_editor.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

std::vector<Setting> shownFields() {
  return {&RouterConfig::frozen,        &RouterConfig::force_balance, &RouterConfig::killed_experts,
          &RouterConfig::pinned_bias,   &RouterConfig::gate_noise,    &OptimizerConfig::router_lr_factor,
          &RouterConfig::score_func,    &RouterConfig::n_groups,      &RouterConfig::n_limited_groups,
          &RouterConfig::bias_centring, &RouterConfig::z_coeff};
}

QWidget* section(const QString& title, QWidget* content) {
  auto* whole = new QWidget;
  auto* name = new QLabel(title);
  name->setFont(semibold(name->font()));
  auto* column = plainColumn(whole, kSpace8);
  column->addWidget(name);
  column->addWidget(content);
  return whole;
}

}  // namespace

ActionsDock::ActionsDock(QWidget* parent) : SideDock("Actions", parent) {
  setObjectName("dock_actions");
  setAllowedAreas(Qt::LeftDockWidgetArea | Qt::RightDockWidgetArea);
  mixture_ = new MixtureEditor;
  connect(mixture_, &MixtureEditor::mixtureChosen, this,
          [this](const QString& text) { emit changeRequested(&DataConfig::mixture, text.toStdString()); });
  problem_ = problemText();
  words_ = quietText();
  auto* content = new QWidget;
  auto* column = plainColumn(content, kSpace16);
  column->setContentsMargins(kSpace12, kSpace4, kSpace12, kSpace12);
  column->addWidget(words_);
  column->addWidget(section("Router", makeFields()));
  column->addWidget(section("Text domains of all runs", mixture_));
  column->addWidget(section("Checkpoints", makeCheckpoints()));
  column->addWidget(problem_);
  column->addStretch(1);
  QScrollArea* scroll = scrollOf(content);
  for (QWidget* ground : {content, scroll->viewport()}) ground->setBackgroundRole(QPalette::Base);
  setWidget(scroll);
  followFont(this, [this] {
    setMinimumWidth(withType(290, fontMetrics()));
    setMaximumWidth(withType(420, fontMetrics()));
  });
  showConfig(nullptr, false);
  showCheckpoints({});
}

QWidget* ActionsDock::makeFields() {
  auto* fields = new QWidget;
  QGridLayout* form = fieldGrid();
  form->setContentsMargins(0, 0, 0, 0);
  form->setVerticalSpacing(kSpace4);
  fields->setLayout(form);
  for (const Setting& setting : shownFields()) {
    auto* editor = new FieldEditor(setting.field());
    addField(form, QString::fromStdString(setting.field().label), editor)->setToolTip(editor->toolTip());
    editors_.emplace(setting, editor);
    connect(editor, &FieldEditor::edited, this, [this, editor] { showProblem(editor->problem()); });
    connect(editor, &FieldEditor::committed, this, [this, editor] {
      showProblem(editor->problem());
      if (editor->problem().isEmpty()) emit changeRequested(editor->field(), *editor->value());
    });
  }
  return fields;
}

QWidget* ActionsDock::makeCheckpoints() {
  auto* content = new QWidget;
  auto* column = plainColumn(content, kSpace8);
  checkpoints_ = new QComboBox;
  checkpoints_->setAccessibleName("Checkpoint");
  checkpoints_->setToolTip(
      "Checkpoints are kept in memory and in the folder NAME.checkpoints beside the recording: one every 100 steps, at "
      "most 8 and 512 MiB, closer together near the newest step. Set-up > Telemetry changes the numbers: Checkpoints "
      "every, Checkpoints kept");
  rewind_ = new QPushButton("Rewind");
  rewind_->setToolTip("Take all runs back to this checkpoint. Later steps are deleted.");
  branch_ = new QPushButton("Branch...");
  branch_->setToolTip("Train a twin from this checkpoint on, beside the run, with another setting");
  keep_ = new QPushButton("Keep now");
  keep_->setToolTip("Keep a checkpoint of this step");
  column->addWidget(checkpoints_);
  auto* row = plainRow(kSpace8);
  for (QPushButton* button : {rewind_, branch_, keep_}) row->addWidget(button);
  column->addLayout(row);
  connect(rewind_, &QPushButton::clicked, this, [this] { emit rewindRequested(chosenCheckpoint()); });
  connect(branch_, &QPushButton::clicked, this, [this] { emit branchRequested(chosenCheckpoint()); });
  connect(keep_, &QPushButton::clicked, this, &ActionsDock::keepRequested);
  return content;
}

qint64 ActionsDock::chosenCheckpoint() const {
  return checkpoints_->currentIndex() < 0 ? -1 : checkpoints_->currentData().toLongLong();
}

void ActionsDock::showConfig(const RunConfig* config, bool live) {
  live_ = live;
  words_->setText(live ? "Each change takes effect at the next step and is marked on the timeline. Ctrl+Z undoes it."
                       : kNothingTrains);
  for (const auto& [setting, editor] : editors_) {
    editor->offer(config, live);
    if (config) editor->setValue(editor->field().get(*config));
  }
  mixture_->setEnabled(live);
  keep_->setEnabled(live);
  if (config) mixture_->setMixture(config->data.mixture);
  showProblem({});
}

void ActionsDock::showDomains(const std::vector<std::string>& domains) {
  mixture_->setDomains(domains);
}

// Lists the newest checkpoint first and keeps the selection.
void ActionsDock::showCheckpoints(const std::vector<KeptCheckpoint>& checkpoints) {
  if (checkpoints_->view()->isVisible()) return;
  const qint64 chosen = checkpoints_->currentIndex() > 0 ? chosenCheckpoint() : -1;
  const QSignalBlocker quiet(checkpoints_);
  checkpoints_->clear();
  for (auto checkpoint = checkpoints.rbegin(); checkpoint != checkpoints.rend(); ++checkpoint)
    checkpoints_->addItem(QString("step %1, %2 MB%3")
                              .arg(checkpoint->step)
                              .arg(checkpoint->bytes * 1e-6, 0, 'f', 1)
                              .arg(checkpoint->by_hand ? ", by hand" : ""),
                          static_cast<qint64>(checkpoint->step));
  if (const int at = checkpoints_->findData(chosen); at > 0) checkpoints_->setCurrentIndex(at);
  for (QWidget* widget :
       {static_cast<QWidget*>(checkpoints_), static_cast<QWidget*>(rewind_), static_cast<QWidget*>(branch_)})
    widget->setEnabled(live_ && !checkpoints.empty());
}

void ActionsDock::showProblem(const QString& problem) {
  moescope::showProblem(problem_, problem);
}

}  // namespace moescope
