#include "app/bars/live_bar.h"

#include <QHBoxLayout>
#include <QLabel>

#include "app/look/messages.h"
#include "app/look/theme.h"
#include "app/setup/field_editor.h"
#include "app/setup/twin_menu.h"

namespace moescope {

LiveBar::LiveBar(QWidget* parent) : QToolBar("Live settings", parent) {
  setObjectName("live_bar");
  setMovable(false);
  title_ = new QLabel("Live");
  title_->setContentsMargins(6, 0, 2, 0);
  QFont bold = title_->font();
  bold.setBold(true);
  title_->setFont(bold);
  addWidget(title_);
  addField("optimizer.lr", "learning rate");
  addField("router.bias_update_rate", "bias update rate");
  addField("router.aux_mode", "auxiliary loss");
  addField("router.aux_coeff", "weight");
  addField("router.top_k", "top_k");
  addField("precision.experts", "experts in");
  problem_ = new QLabel;
  problem_->setContentsMargins(8, 0, 0, 0);
  problem_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  addWidget(problem_);
  showConfig(nullptr, false);
}

void LiveBar::addField(const char* key, const QString& label) {
  auto* box = new QWidget;
  auto* row = new QHBoxLayout(box);
  row->setContentsMargins(6, 0, 4, 0);
  row->setSpacing(4);
  auto* editor = new FieldEditor(*find_field(key));
  auto* name = new QLabel(label);
  name->setBuddy(editor);
  tip_of_[key] = editor->toolTip();
  row->addWidget(name);
  row->addWidget(editor);
  addWidget(box);
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

void LiveBar::onCommitted(FieldEditor* editor) {
  showProblem(editor->problem());
  if (editor->problem().isEmpty()) emit changeRequested(QString::fromStdString(editor->field().key), *editor->value());
}

void LiveBar::showConfig(const RunConfig* config, bool live) {
  live_ = live;
  title_->setEnabled(live);
  title_->setToolTip(live ? "These take effect at the next step of the model in training. Ctrl+Z undoes a change."
                          : kNothingTrains);
  for (const auto& [key, editor] : editors_) {
    const QString unused = config ? whyUnused(editor->field(), *config) : QString();
    editor->setEnabled(live && unused.isEmpty());
    editor->setToolTip(live ? unused + tip_of_.at(key) : QString(kNothingTrains));
    names_.at(key)->setToolTip(editor->toolTip());
    config ? editor->setValue(editor->field().get(*config)) : editor->clear();  // not those of the run before
  }
  showProblem({});
}

void LiveBar::showRun(const QString& letter) {
  title_->setText(letter.isEmpty() ? QString("Live") : "Live " + letter);
}

void LiveBar::showProblem(const QString& problem) {
  QPalette warning = palette();
  warning.setColor(QPalette::WindowText, warningColor(palette()));
  problem_->setPalette(warning);
  problem_->setText(problem);
  problem_->setToolTip(problem);
}

FieldEditor* LiveBar::editor(const std::string& key) const {
  const auto found = editors_.find(key);
  return found == editors_.end() ? nullptr : found->second;
}

}  // namespace moescope
