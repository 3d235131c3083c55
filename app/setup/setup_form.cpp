#include "app/setup/setup_form.h"

#include <QComboBox>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QScrollArea>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "app/look/theme.h"
#include "app/setup/compare_dialog.h"
#include "app/setup/field_editor.h"
#include "app/setup/model_presets_dialog.h"
#include "app/setup/twin_menu.h"
#include "core/config/published_recipes.h"
#include "widgets/look/style.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/explain_card.h"

namespace moescope {

namespace {

QLabel* wrappedLabel() {
  auto* label = new QLabel;
  label->setWordWrap(true);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  return label;
}

QToolButton* groupHeader(const QString& title, QWidget* body) {
  auto* header = new QToolButton;
  header->setText(title);
  header->setCheckable(true);
  header->setAutoRaise(true);
  header->setProperty(kHeadingProperty, true);
  header->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  header->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  QFont bold = header->font();
  bold.setBold(true);
  header->setFont(bold);
  QObject::connect(header, &QToolButton::toggled, body, [header, body](bool open) {
    header->setArrowType(open ? Qt::DownArrow : Qt::RightArrow);
    body->setVisible(open);
  });
  header->setArrowType(Qt::RightArrow);
  body->hide();
  return header;
}

}  // namespace

SetupForm::SetupForm(QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 6, 6, 6);
  column->setSpacing(6);
  followFont(this, [this] { setMinimumWidth(withType(300, fontMetrics())); });
  purpose_ = wrappedLabel();
  purpose_->setObjectName("setup_purpose");
  QFont bold = purpose_->font();
  bold.setBold(true);
  purpose_->setFont(bold);
  column->addWidget(purpose_);
  column->addWidget(makeTop());
  column->addWidget(makeFields(), 1);
  column->addWidget(makeBottom());
  setPurpose("Settings of the next run");
  setDraft(RunConfig{});
}

void SetupForm::setPurpose(const QString& text) {
  purpose_->setText(text);
  purpose_->setVisible(!text.isEmpty());
}

QWidget* SetupForm::makeTop() {
  auto* top = new QWidget;
  auto* rows = new QVBoxLayout(top);
  rows->setContentsMargins(0, 0, 0, 0);
  presets_ = new QComboBox;
  presets_->setAccessibleName("Preset");
  presets_->setToolTip("Fill the form with a preset; training goes on until you start a new run");
  presets_->addItem("Preset...");
  for (const std::string& name : preset_names()) presets_->addItem(QString::fromStdString(name));
  presets_->insertSeparator(presets_->count());
  presets_->addItem("Real models side by side...");
  connect(presets_, &QComboBox::activated, this, [this](int index) {
    if (index == presets_->count() - 1)
      comparePresets();
    else if (index > 0)
      emit presetRequested(presets_->itemText(index));
    presets_->setCurrentIndex(0);
  });
  auto* open = new QPushButton("Open...");
  open->setToolTip("Fill the form from a TOML file");
  connect(open, &QPushButton::clicked, this, &SetupForm::openConfigRequested);
  filter_ = new QLineEdit;
  filter_->setPlaceholderText("Find a setting");
  filter_->setClearButtonEnabled(true);
  connect(filter_, &QLineEdit::textChanged, this, &SetupForm::filter);
  auto* sources = new QHBoxLayout;
  sources->addWidget(presets_, 1);
  sources->addWidget(open);
  rows->addLayout(sources);
  rows->addWidget(filter_);
  return top;
}

void SetupForm::comparePresets() {
  auto* dialog = new ModelPresetsDialog("Fill the form with %1", window());
  connect(dialog, &ModelPresetsDialog::chosen, this, &SetupForm::presetRequested);
  dialog->show();
}

QWidget* SetupForm::makeFields() {
  auto* fields = new QWidget;
  auto* column = new QVBoxLayout(fields);
  column->setContentsMargins(0, 0, 4, 0);
  column->setSpacing(2);
  for (const ConfigField& field : config_fields()) {
    const bool known = std::any_of(groups_.begin(), groups_.end(),
                                   [&](const Group& g) { return g.body->objectName() == field.group.c_str(); });
    if (!known) addGroup(column, field.group);
  }
  column->addStretch(1);
  auto* scroll = scroll_ = new QScrollArea;
  scroll->setFocusPolicy(Qt::NoFocus);  // it scrolls with its fields, and has no frame to show a focus
  scroll->setWidgetResizable(true);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setWidget(fields);
  return scroll;
}

QWidget* SetupForm::makeBottom() {
  auto* bottom = new QWidget;
  auto* column = new QVBoxLayout(bottom);
  column->setContentsMargins(0, 0, 0, 0);
  explanation_ = wrappedLabel();
  explanation_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  explanation_->setText(
      "Point at a setting to read what it does. Settings marked \"live\" take effect at the next step of the model in "
      "training; all others need a new run. A right click trains a twin with another value beside the run.");
  // Of one height, whatever it explains: fields must not move under the pointer.
  auto* words = new QScrollArea;
  words->setWidgetResizable(true);
  words->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  words->setFrameShape(QFrame::NoFrame);
  followFont(words, [words] { words->setFixedHeight(7 * words->fontMetrics().lineSpacing()); });
  words->setWidget(explanation_);
  summary_ = wrappedLabel();
  cost_ = wrappedLabel();
  cost_->setObjectName("setup_cost");
  cost_->setAccessibleName("What a run with these settings costs");
  cost_->hide();
  start_ = new QPushButton("Start new run");
  start_->setObjectName("start_new_run");
  start_->setToolTip("Stop the open run (its recording stays) and train a new model with these settings");
  connect(start_, &QPushButton::clicked, this, [this] { emit startRequested(draft_); });
  revert_ = new QPushButton("Revert");
  revert_->setToolTip("Back to the settings of the open run");
  connect(revert_, &QPushButton::clicked, this, [this] { setDraft(open_run_); });
  auto* row = new QHBoxLayout;
  compare_ = new QPushButton("Compare");
  compare_->setObjectName("compare_draft");
  compare_->setToolTip("Train a model with these settings beside run A, on the same batches");
  connect(compare_, &QPushButton::clicked, this, [this] { emit twinRequested(draft_); });
  row->addWidget(revert_);
  row->addWidget(compare_);
  row->addWidget(start_, 1);
  column->addWidget(words);
  column->addWidget(summary_);
  column->addWidget(cost_);
  column->addLayout(row);
  return bottom;
}

void SetupForm::addGroup(QVBoxLayout* column, const std::string& title) {
  Group group;
  group.body = new QWidget;
  group.body->setObjectName(QString::fromStdString(title));
  auto* grid = new QGridLayout(group.body);
  grid->setContentsMargins(14, 0, 0, 4);
  grid->setHorizontalSpacing(6);
  grid->setVerticalSpacing(2);
  grid->setColumnStretch(0, 1);
  for (const ConfigField& field : config_fields()) {
    if (field.group != title) continue;
    addRow(grid, field);
    group.keys.push_back(field.key);
  }
  auto* header = groupHeader(QString::fromStdString(title), group.body);
  header->setChecked(title == "Router" || title == "Balance");
  group.header = header;
  column->addWidget(header);
  column->addWidget(group.body);
  groups_.push_back(group);
}

void SetupForm::addRow(QGridLayout* grid, const ConfigField& field) {
  Row row;
  const int y = grid->rowCount();
  row.label = new QLabel;
  row.label->setWordWrap(true);
  row.label->setToolTip(fieldToolTip(field));
  row.editor = new FieldEditor(field);
  row.label->setBuddy(row.editor);
  row.unit = new QLabel(QString::fromStdString(field.unit));
  row.unit->setEnabled(false);
  row.problem = wrappedLabel();
  row.problem->setObjectName("problem_of_" + QString::fromStdString(field.key));
  row.problem->hide();
  grid->addWidget(row.label, y, 0);
  grid->addWidget(row.editor, y, 1);
  grid->addWidget(row.unit, y, 2);
  grid->addWidget(row.problem, y + 1, 0, 1, 3);
  rows_[field.key] = row;
  const std::string key = field.key;
  offerTwinsOf(row);
  connect(row.editor, &FieldEditor::edited, this, [this, key] { onEdited(key); });
  connect(row.editor, &FieldEditor::committed, this, [this, key] { onCommitted(key); });
  connect(row.editor, &FieldEditor::focused, this, [this, &field] { explain(field); });
}

void SetupForm::offerTwinsOf(const Row& row) {
  const ConfigField& field = row.editor->field();
  if (!CompareDialog::comparable(field)) return;
  const QString key = QString::fromStdString(field.key);
  const TwinOffers offers{.now = [this, &field] { return field.get(has_open_run_ ? open_run_ : draft_); },
                          .possible = [this] { return has_open_run_; },
                          .chosen = [this, key](const ConfigValue& value) { emit valueTwinRequested(key, value); },
                          .other = [this, key] { emit compareRequested(key); }};
  for (QWidget* part : {static_cast<QWidget*>(row.label), static_cast<QWidget*>(row.unit)})
    offerTwins(part, field, offers);
  if (!row.editor->findChild<QLineEdit*>()) offerTwins(row.editor->focusProxy(), field, offers);
}

FieldEditor* SetupForm::editor(const std::string& key) const {
  const auto found = rows_.find(key);
  return found == rows_.end() ? nullptr : found->second.editor;
}

void SetupForm::setDraft(const RunConfig& config) {
  draft_ = config;
  for (const auto& [key, row] : rows_) row.editor->setValue(row.editor->field().get(config));
  check();
}

void SetupForm::setOpenRun(const RunConfig* config) {
  has_open_run_ = config != nullptr;
  if (config) {
    open_run_ = *config;
    for (const auto& [key, row] : rows_) {
      const ConfigField& field = row.editor->field();
      const ConfigValue value = field.get(*config);
      if (!field.live || field.derived || field.get(draft_) == value) continue;
      field.set(draft_, value);
      row.editor->setValue(value);
      showDerived(field);
    }
  }
  revert_->setEnabled(has_open_run_);
  check();
}

bool SetupForm::showField(const std::string& key) {
  FieldEditor* wanted = editor(key);
  if (!wanted) return false;
  filter_->clear();
  for (Group& group : groups_)
    if (std::ranges::find(group.keys, key) != group.keys.end())
      static_cast<QToolButton*>(group.header)->setChecked(true);
  // After the layout has taken the group in.
  QMetaObject::invokeMethod(
      this,
      [this, wanted] {
        scroll_->ensureWidgetVisible(wanted, 0, 60);
        wanted->setFocus(Qt::ShortcutFocusReason);
      },
      Qt::QueuedConnection);
  return true;
}

void SetupForm::onEdited(const std::string& key) {
  const FieldEditor* editor = rows_[key].editor;
  if (!goesLive(editor->field()) && editor->problem().isEmpty()) {
    editor->field().set(draft_, *editor->value());
    showDerived(editor->field());
  }
  if (editor->field().derived) explain(editor->field());
  check();
}

// What the edited setting stands for, or what stands for it.
void SetupForm::showDerived(const ConfigField& edited) {
  for (const auto& [key, row] : rows_) {
    const ConfigField& field = row.editor->field();
    const bool concerned = edited.derived != field.derived && field.group == edited.group;
    if (concerned && row.editor->problem().isEmpty() && *row.editor->value() != field.get(draft_))
      row.editor->setValue(field.get(draft_));
  }
}

void SetupForm::onCommitted(const std::string& key) {
  const FieldEditor* editor = rows_[key].editor;
  const ConfigField& field = editor->field();
  if (!goesLive(field) || !editor->problem().isEmpty() || *editor->value() == field.get(open_run_)) return;
  emit liveChangeRequested(QString::fromStdString(key), *editor->value());
}

// The draft with the values in the editors, so that a live field is checked before it is sent.
void SetupForm::check() {
  RunConfig shown = draft_;
  std::vector<ConfigProblem> own;
  for (const auto& [key, row] : rows_) {
    const QString problem = row.editor->problem();
    if (problem.isEmpty() && !row.editor->field().derived)
      row.editor->field().set(shown, *row.editor->value());
    else if (!problem.isEmpty())
      own.push_back({.file = {}, .line = 0, .key = key, .message = problem.toStdString()});
  }
  problems_ = own;
  for (ConfigProblem& problem : validate(shown)) {
    const bool shown_already = std::any_of(own.begin(), own.end(), [&](const auto& p) { return p.key == problem.key; });
    if (!shown_already) problems_.push_back(std::move(problem));
  }
  offerUsed(shown);
  showProblems();
  markChanges();
  showCost();
}

void SetupForm::offerUsed(const RunConfig& shown) {
  for (const auto& [key, row] : rows_) {
    const ConfigField& field = row.editor->field();
    const bool fixed = field.choices.empty() && field.min == field.max && field.max != 0;
    const QString unused = whyUnused(field, shown);
    row.editor->setEnabled(!fixed && unused.isEmpty());
    row.editor->setToolTip(unused + fieldToolTip(field));
  }
}

void SetupForm::setCost(std::function<QString(const RunConfig&)> text) {
  cost_of_ = std::move(text);
  showCost();
}

// Of settings that can be trained: a shape that is refused has no size.
void SetupForm::showCost() {
  cost_->setVisible(cost_of_ && problems_.empty());
  if (cost_of_ && problems_.empty()) cost_->setText(cost_of_(draft_));
}

void SetupForm::showProblems() {
  QPalette warning = palette();
  warning.setColor(QPalette::WindowText, warningColor(palette()));
  for (auto& [key, row] : rows_) {
    QStringList texts;
    for (const ConfigProblem& problem : problems_)
      if (problem.key == key) texts << QString::fromStdString(problem.message);
    row.problem->setPalette(warning);
    row.problem->setText(texts.join("\n"));
    row.problem->setVisible(!texts.isEmpty());
  }
  for (Group& group : groups_) {
    const bool bad = std::any_of(problems_.begin(), problems_.end(), [&](const ConfigProblem& p) {
      return std::find(group.keys.begin(), group.keys.end(), p.key) != group.keys.end();
    });
    if (bad) static_cast<QToolButton*>(group.header)->setChecked(true);
  }
  QStringList rest;  // problems of no single field
  for (const ConfigProblem& problem : problems_)
    if (!rows_.count(problem.key)) rest << QString::fromStdString(problem.message);
  if (rest.isEmpty() && !problems_.empty())
    rest << (problems_.size() == 1 ? QString("1 setting needs another value")
                                   : QString("%1 settings need another value").arg(problems_.size()));
  summary_->setPalette(warning);
  summary_->setText(rest.join("\n"));
  summary_->setVisible(!rest.isEmpty());
  start_->setEnabled(problems_.empty());
  compare_->setEnabled(problems_.empty() && has_open_run_ && !difference(open_run_, draft_).empty());
}

void SetupForm::markChanges() {
  for (auto& [key, row] : rows_) {
    const ConfigField& field = row.editor->field();
    const bool changed = has_open_run_ && field.get(draft_) != field.get(open_run_);
    QString text = QString::fromStdString(field.label).toHtmlEscaped();
    if (changed) text = "<b>" + text + "</b>";
    if (field.live) text += QString(" <span style='color:%1'>live</span>").arg(palette().link().color().name());
    if (row.label->text() != text) row.label->setText(text);
  }
}

void SetupForm::filter(const QString& text) {
  for (Group& group : groups_) {
    bool any = false;
    for (const std::string& key : group.keys) {
      const Row& row = rows_[key];
      const ConfigField& field = row.editor->field();
      const QString haystack = QString::fromStdString(field.key + " " + field.label + " " + field.help);
      const bool shown = haystack.contains(text, Qt::CaseInsensitive);
      for (QWidget* part :
           {static_cast<QWidget*>(row.label), static_cast<QWidget*>(row.editor), static_cast<QWidget*>(row.unit)})
        part->setVisible(shown);
      any |= shown;
    }
    group.header->setVisible(any);
    if (!text.isEmpty()) static_cast<QToolButton*>(group.header)->setChecked(any);
  }
}

void SetupForm::explain(const ConfigField& field) {
  // A setting that stands for others is explained by what it stands for now.
  const std::string recipe = field.derived ? published_recipe_about(to_string(field.get(draft_))) : "";
  const std::string& help = recipe.empty() ? field.help : recipe;
  explanation_->setText(
      cardInPrint(QString("<b>%1</b>: %2 <i>Allowed: %3.</i>")
                      .arg(QString::fromStdString(field.key), QString::fromStdString(help).toHtmlEscaped(),
                           rangeText(field).toHtmlEscaped())));
}

}  // namespace moescope
