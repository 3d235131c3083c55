#include "app/bars/live_popover.h"

#include <QApplication>
#include <QKeyEvent>
#include <QLabel>
#include <QVBoxLayout>

#include "app/look/theme.h"
#include "app/setup/field_editor.h"
#include "app/setup/twin_menu.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

LivePopover::LivePopover(QWidget* parent) : Popover("Live settings", parent) {
  setObjectName("live_popover");
  addField("optimizer.lr", "Learning rate");
  addField("router.bias_update_rate", "Bias update rate");
  addField("router.aux_mode", "Auxiliary loss");
  addField("router.aux_coeff", "Loss weight");
  addField("router.top_k", "Experts per token");
  addField("precision.experts", "Routed experts");
  addFoot();
  showConfig(nullptr, false);
}

void LivePopover::addField(const char* key, const QString& label) {
  auto* editor = new FieldEditor(*find_field(key));
  QLabel* name = addRow(label, editor);
  tip_of_[key] = editor->toolTip();
  const QString named = key;
  offerTwins(name, editor->field(),
             {.now = [editor] { return editor->value().value_or(editor->field().get(RunConfig{})); },
              .possible = [this] { return live_; },
              .chosen = [this, named](const ConfigValue& value) { emit twinRequested(named, value); },
              .other = [this, named] { emit compareRequested(named); }});
  editors_[key] = editor;
  names_[key] = name;
  connect(editor, &FieldEditor::edited, this, [this, editor] { showProblem(editor->problem()); });
  connect(editor, &FieldEditor::committed, this, [this, editor] { onCommitted(editor); });
}

void LivePopover::addFoot() {
  problem_ = new QLabel;
  problem_->setObjectName("live_problem");
  problem_->setWordWrap(true);
  column()->addWidget(problem_);
  auto* words = new QLabel("Each takes effect at the next step and is marked on the timeline. Ctrl+Z undoes a change.");
  words->setWordWrap(true);
  words->setForegroundRole(QPalette::PlaceholderText);
  column()->addWidget(words);
  auto* all = new QLabel("<a href=\"#\">All settings</a>");
  all->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
  all->setFocusPolicy(Qt::TabFocus);
  connect(all, &QLabel::linkActivated, this, [this] {
    hide();
    emit allSettingsRequested();
  });
  column()->addWidget(all);
  followFont(this, [words] { words->setFont(typeFont(QApplication::font(), Type::secondary)); });
}

// A popup takes the keys of the window that it opens over.
void LivePopover::keyPressEvent(QKeyEvent* event) {
  if (event->matches(QKeySequence::Undo)) return emit undoRequested();
  if (event->matches(QKeySequence::Redo)) return emit redoRequested();
  Popover::keyPressEvent(event);
}

void LivePopover::onCommitted(FieldEditor* editor) {
  showProblem(editor->problem());
  if (editor->problem().isEmpty()) emit changeRequested(QString::fromStdString(editor->field().key), *editor->value());
}

void LivePopover::showConfig(const RunConfig* config, bool live) {
  live_ = live;
  for (const auto& [key, editor] : editors_) {
    const QString unused = config ? whyUnused(editor->field(), *config) : QString();
    editor->setEnabled(live && unused.isEmpty());
    editor->setToolTip(unused + tip_of_.at(key));
    names_.at(key)->setToolTip(editor->toolTip());
    config ? editor->setValue(editor->field().get(*config)) : editor->clear();  // not those of the run before
  }
  if (config) editors_.at("router.top_k")->setUnit(QString("of %1").arg(config->model.n_experts));
  showProblem({});
}

void LivePopover::showRun(const QString& letter) {
  setNote(letter.isEmpty() ? QString() : "run " + letter);
}

void LivePopover::showProblem(const QString& problem) {
  QPalette warning = palette();
  warning.setColor(QPalette::WindowText, warningColor(palette()));
  problem_->setPalette(warning);
  problem_->setText(problem);
  problem_->setVisible(!problem.isEmpty());
  if (isVisible()) adjustSize();
}

FieldEditor* LivePopover::editor(const std::string& key) const {
  const auto found = editors_.find(key);
  return found == editors_.end() ? nullptr : found->second;
}

}  // namespace moescope
