#include "app/bars/live_popover.h"

#include <QKeyEvent>
#include <QLabel>
#include <QVBoxLayout>

#include "app/look/dialog_parts.h"
#include "app/setup/field_editor.h"
#include "app/setup/twin_menu.h"
#include "widgets/look/link_label.h"

namespace moescope {

LivePopover::LivePopover(QWidget* parent) : Popover("Live settings", parent) {
  setObjectName("live_popover");
  addField(&OptimizerConfig::lr);
  addField(&RouterConfig::bias_update_rate);
  addField(&RouterConfig::aux_mode);
  addField(&RouterConfig::aux_coeff);
  addField(&RouterConfig::top_k);
  addField(&PrecisionConfig::experts);
  addField(&PrecisionConfig::operands);
  addFoot();
  showConfig(nullptr, false);
}

void LivePopover::addField(Setting setting) {
  auto* editor = new FieldEditor(setting.field());
  QLabel* name = addRow(QString::fromStdString(setting.field().label), editor);
  offerTwins(name, editor->field(),
             {.present = [editor] { return editor->value().value_or(editor->field().get(RunConfig{})); },
              .possible = [this] { return live_; },
              .chosen = [this, setting](const ConfigValue& value) { emit twinRequested(setting, value); },
              .other = [this, setting] { emit compareRequested(setting); }});
  editors_[setting] = editor;
  names_[setting] = name;
  connect(editor, &FieldEditor::edited, this, [this, editor] { showProblem(editor->problem()); });
  connect(editor, &FieldEditor::committed, this, [this, editor] { onCommitted(editor); });
}

void LivePopover::addFoot() {
  problem_ = problemText();
  problem_->setObjectName("live_problem");
  column()->addWidget(problem_);
  column()->addWidget(
      quietText("Each change takes effect at the next step and is marked on the timeline. Ctrl+Z undoes it."));
  auto* all = new LinkLabel("<a href=\"#\">All settings</a>");
  connect(all, &QLabel::linkActivated, this, &LivePopover::allSettingsRequested);
  column()->addWidget(all);
}

// Undo and redo leave the popover open; its own key closes it.
void LivePopover::keyPressEvent(QKeyEvent* event) {
  if (event->matches(QKeySequence::Undo)) return emit undoRequested();
  if (event->matches(QKeySequence::Redo)) return emit redoRequested();
  if (event->key() == Qt::Key_F4) return hide();
  Popover::keyPressEvent(event);
}

void LivePopover::onCommitted(FieldEditor* editor) {
  showProblem(editor->problem());
  if (editor->problem().isEmpty()) emit changeRequested(editor->field(), *editor->value());
}

void LivePopover::showConfig(const RunConfig* config, bool live) {
  live_ = live;
  for (const auto& [setting, editor] : editors_) {
    editor->offer(config, live);
    names_.at(setting)->setToolTip(editor->toolTip());
    config ? editor->setValue(editor->field().get(*config)) : editor->clear();  // clears the values of the previous run
  }
  if (config) editors_.at(&RouterConfig::top_k)->setUnit(QString("of %1").arg(config->model.n_experts));
  showProblem({});
}

void LivePopover::showRun(const QString& letter) {
  setNote(letter.isEmpty() ? QString() : "run " + letter);
}

void LivePopover::showProblem(const QString& problem) {
  moescope::showProblem(problem_, problem);
  if (isVisible()) adjustSize();
}

FieldEditor* LivePopover::editor(Setting setting) const {
  const auto found = editors_.find(setting);
  return found == editors_.end() ? nullptr : found->second;
}

}  // namespace moescope
