#include "app/setup/setup_form.h"

#include <QComboBox>
#include <QGridLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPainter>
#include <QPushButton>
#include <QRegularExpression>
#include <QStyleOptionComboBox>
#include <QStyleOptionToolButton>
#include <QStylePainter>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "app/look/icons.h"
#include "app/look/theme.h"
#include "app/setup/compare_dialog.h"
#include "app/setup/field_editor.h"
#include "core/config/config_difference.h"
#include "core/config/config_toml.h"
#include "core/training/run_cost.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/explain_card.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

namespace {

constexpr int kFoldMark = 16, kNewRunPicture = 12;

class HairLine : public QWidget {
 public:
  HairLine() { setFixedHeight(1); }

 protected:
  void paintEvent(QPaintEvent*) override { QPainter(this).fillRect(rect(), QColor(colors(palette()).hairline)); }
};

QLabel* wrappedLabel() {
  auto* label = new QLabel;
  label->setWordWrap(true);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  return label;
}

QLabel* quietLabel(const QString& text) {
  auto* label = new QLabel(text);
  label->setForegroundRole(QPalette::PlaceholderText);
  setType(label, Type::secondary);
  return label;
}

// Returns a label without the key in parentheses, which the foot of the form shows: "Experts per token (top_k)".
QString withoutParenthesis(QString label) {
  return label.remove(QRegularExpression(" \\([^)]*\\)"));
}

QString parametersText(const RunConfig& config) {
  const double millions = 1e-6 * run_cost(config).parameters;
  return QString("%1 M parameters").arg(millions, 0, 'f', millions < 1 ? 2 : 1);
}

}  // namespace

// The button says what the list is.
class NamedPresetList : public PresetList {
 protected:
  void paintEvent(QPaintEvent*) override {
    QStylePainter painter(this);
    QStyleOptionComboBox option;
    initStyleOption(&option);
    option.currentText = "Preset: " + (currentIndex() < 0 ? QString("own settings") : currentText());
    painter.drawComplexControl(QStyle::CC_ComboBox, option);
    painter.drawControl(QStyle::CE_ComboBoxLabel, option);
  }
};

constexpr const char* kCommonGroup = "Common settings";

// Returns the group of a field. The settings that are changed most often are in sight without scrolling.
std::string groupOf(const ConfigField& field) {
  static const std::vector<Setting> common = {
      &ModelConfig::n_experts,  &RouterConfig::top_k,     &RouterConfig::balance_rule, &RouterConfig::bias_update_rate,
      &RouterConfig::aux_mode,  &RouterConfig::aux_coeff, &OptimizerConfig::lr,        &OptimizerConfig::total_steps,
      &PrecisionConfig::experts};
  return std::ranges::find(common, Setting(field)) != common.end() ? kCommonGroup : field.group;
}

// The header of a group of settings: name, note, and whether all its settings need a new run. A click folds the group.
class GroupHeader : public QToolButton {
 public:
  GroupHeader(const QString& title, QWidget* body) {
    setText(title);
    setCheckable(true);
    setAutoRaise(true);
    setFocusPolicy(Qt::TabFocus);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    connect(this, &QToolButton::toggled, body, &QWidget::setVisible);
    body->hide();
  }
  void setNote(const QString& note) {
    note_ = note;
    update();
  }
  void setNeedsNewRun(bool needs) {
    needs_new_run_ = needs;
    setToolTip(needs ? "These settings need a new run" : QString());
    update();
  }
  QSize sizeHint() const override {
    const QFontMetrics metrics(semibold(font()));
    return {metrics.horizontalAdvance(text()) + kFoldMark + 2 * kSpace8,
            withType(kFieldHeight, fontMetrics()) + kSpace4};
  }
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent*) override {
    QStylePainter painter(this);
    QStyleOptionToolButton option;
    initStyleOption(&option);
    option.state &= ~(QStyle::State_On | QStyle::State_Sunken);  // drawn as open or folded, not as checked
    painter.drawPrimitive(QStyle::PE_PanelButtonTool, option);
    const Colors& c = colors(palette());
    painter.fillRect(0, 0, width(), 1, QColor(c.hairline));
    const QRect mark(0, (height() - kFoldMark) / 2, kFoldMark, kFoldMark);
    painter.save();
    if (!isChecked()) {
      const QPointF middle = QRectF(mark).center();
      painter.translate(middle);
      painter.rotate(-90);
      painter.translate(-middle);
    }
    drawChevron(painter, mark, QColor(c.ink2));
    painter.restore();
    int x = kFoldMark + kSpace8;
    const auto write = [&](const QString& text, const QFont& font, QRgb color) {
      painter.setFont(font);
      painter.setPen(QColor(color));
      painter.drawText(QRect(x, 0, width() - x, height()), Qt::AlignLeft | Qt::AlignVCenter, text);
      x += QFontMetrics(font).horizontalAdvance(text) + kSpace8;
    };
    write(text(), semibold(font()), c.ink);
    const QFont secondary = typeFont(Type::secondary);
    if (x + QFontMetrics(secondary).horizontalAdvance(note_) < width()) write(note_, secondary, c.ink2);
    if (needs_new_run_)
      painter.drawPixmap(x, (height() - kNewRunPicture) / 2,
                         picturePixmap(Picture::reset, QColor(c.ink2), kNewRunPicture));
  }

 private:
  QString note_;
  bool needs_new_run_ = false;
};

SetupForm::SetupForm(QWidget* parent) : QWidget(parent) {
  auto* column = plainColumn(this, kSpace8);
  column->setContentsMargins(kSpace16, kSpace12, kSpace4, kSpace12);
  column->addLayout(makeHead());
  column->addLayout(makeTop());
  column->addWidget(makeFields(), 1);
  column->addWidget(makeBottom());
  followFont(this, [this] { markChanges(); });
  followPalette(this, [this] { drawPictures(); });
  setDraft(load_preset(kDefaultPreset).config);
  setOpenRun(nullptr);
}

QLayout* SetupForm::makeHead() {
  auto* title = new QLabel("Set-up");
  setType(title, Type::heading, true);
  purpose_ = quietLabel("settings for a new run");
  purpose_->setObjectName("setup_purpose");
  auto* close = new QToolButton;
  close->setObjectName("close_setup");
  close->setAccessibleName("Close the set-up");
  close->setToolTip("Close (Esc)");
  close->setAutoRaise(true);
  close->setFocusPolicy(Qt::TabFocus);
  connect(close, &QToolButton::clicked, this, &SetupForm::closeRequested);
  followPalette(this, [this, close] { close->setIcon(picture(Picture::close, palette())); });
  auto* head = plainRow(kSpace8);
  head->setContentsMargins(0, 0, kSpace12, 0);
  head->addWidget(title);
  head->addWidget(purpose_, 1);
  head->addWidget(close);
  return head;
}

void SetupForm::setPurpose(const QString& text) {
  purpose_->setText(text);
}

void SetupForm::takeFocus() {
  filter_->setFocus(Qt::OtherFocusReason);
}

QLayout* SetupForm::makeTop() {
  presets_ = new NamedPresetList;
  presets_->setAccessibleName("Preset");
  presets_->setToolTip("Fill the form with a preset; training goes on until you start a new run");
  presets_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  presets_->setFocusPolicy(Qt::StrongFocus);
  connect(presets_, &QComboBox::activated, this, [this](int index) {
    emit presetRequested(presets_->itemText(index));
    choosePreset();
  });
  auto* open = new QPushButton("Open...");
  open->setToolTip("Fill the form from a TOML file");
  connect(open, &QPushButton::clicked, this, &SetupForm::openConfigRequested);
  filter_ = new QLineEdit;
  filter_->setPlaceholderText("Find a setting");
  filter_->setAccessibleName("Find a setting");
  filter_->setClearButtonEnabled(true);
  find_ = filter_->addAction(QIcon(), QLineEdit::LeadingPosition);
  connect(filter_, &QLineEdit::textChanged, this, &SetupForm::showRows);
  auto* sources = plainRow(kSpace8);
  sources->addWidget(presets_, 1);
  sources->addWidget(open);
  auto* rows = plainColumn(kSpace8);
  rows->setContentsMargins(0, 0, kSpace12, 0);
  rows->addLayout(sources);
  rows->addWidget(filter_);
  rows->addWidget(makeHint());
  return rows;
}

QWidget* SetupForm::makeHint() {
  hint_mark_ = new QLabel;
  hint_ = new QWidget;
  auto* line = plainRow(hint_, kSpace4);
  line->addWidget(quietLabel("Changes take effect at the next step."));
  line->addSpacing(kSpace8);
  line->addWidget(hint_mark_);
  line->addWidget(quietLabel("needs a new run"));
  line->addStretch(1);
  return hint_;
}

void SetupForm::followPreset(const QString& preset) {
  if (presets_->currentIndex() < 0 || presets_->currentText() == preset) return;
  emit presetRequested(preset);
  choosePreset();
}

void SetupForm::choosePreset() {
  const bool known = std::ranges::count(preset_names(), draft_.name) > 0;
  const bool is_unchanged = known && difference(load_preset(draft_.name).config, draft_).empty();
  presets_->setCurrentIndex(is_unchanged ? presets_->findText(QString::fromStdString(draft_.name)) : -1);
}

void SetupForm::drawPictures() {
  const QColor quiet = palette().color(QPalette::PlaceholderText);
  find_->setIcon(picturePixmap(Picture::search, quiet));
  const QPixmap mark = picturePixmap(Picture::reset, quiet, kNewRunPicture);
  hint_mark_->setPixmap(mark);
  for (auto& [key, row] : rows_) row.new_run->setPixmap(mark);
}

QWidget* SetupForm::makeFields() {
  auto* fields = new QWidget;
  auto* column = plainColumn(fields, 0);
  column->setContentsMargins(0, 0, kSpace12, 0);
  addGroup(column, kCommonGroup);
  for (const ConfigField& field : config_fields()) {
    const bool known = std::any_of(groups_.begin(), groups_.end(),
                                   [&](const Group& g) { return g.body->objectName() == field.group.c_str(); });
    if (!known) addGroup(column, field.group);
  }
  column->addStretch(1);
  scroll_ = scrollOf(fields);
  scroll_->setFocusPolicy(Qt::NoFocus);  // the fields take the focus; there is no frame that could show it
  for (QWidget* ground : {fields, scroll_->viewport()}) ground->setBackgroundRole(QPalette::Base);
  return scroll_;
}

QWidget* SetupForm::makeBottom() {
  auto* bottom = new QWidget;
  auto* column = plainColumn(bottom, kSpace4);
  column->setContentsMargins(0, 0, kSpace12, 0);
  explained_ = wrappedLabel();
  explanation_ = wrappedLabel();
  explanation_->setForegroundRole(QPalette::PlaceholderText);
  setType(explanation_, Type::secondary);
  explanation_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  explained_->setText("<b>Settings</b>");
  explanation_->setText(
      "Point at a setting to read what it does. A right click on its name trains a twin with another value.");
  // The explanation has a fixed height, so that fields do not move under the pointer.
  QScrollArea* words = scrollOf(explanation_);
  words->setFocusPolicy(Qt::NoFocus);
  for (QWidget* ground : {static_cast<QWidget*>(explanation_), words->viewport()})
    ground->setBackgroundRole(QPalette::Base);
  followFont(words, [words] { words->setFixedHeight(3 * words->fontMetrics().lineSpacing()); });
  summary_ = wrappedLabel();
  cost_ = wrappedLabel();
  cost_->setObjectName("setup_cost");
  cost_->setAccessibleName("Cost of a run with these settings");
  cost_->hide();
  column->addWidget(new HairLine);
  column->addSpacing(kSpace4);
  column->addWidget(explained_);
  column->addWidget(words);
  column->addWidget(summary_);
  column->addWidget(cost_);
  column->addSpacing(kSpace4);
  column->addLayout(makeButtons());
  return bottom;
}

QLayout* SetupForm::makeButtons() {
  start_ = new QPushButton("Start new run");
  start_->setObjectName("start_new_run");
  start_->setProperty(kPrimaryProperty, true);
  start_->setToolTip("Stop the open run (its recording stays) and train a new model with these settings");
  connect(start_, &QPushButton::clicked, this, [this] { emit startRequested(draft_); });
  revert_ = new QPushButton("Revert");
  revert_->setToolTip("Back to the settings of the open run");
  connect(revert_, &QPushButton::clicked, this, [this] { setDraft(open_run_); });
  compare_ = new QPushButton("Compare as twin");
  compare_->setObjectName("compare_draft");
  compare_->setToolTip("Train a model with these settings beside run A, on the same batches");
  connect(compare_, &QPushButton::clicked, this, [this] { emit twinRequested(draft_); });
  auto* row = plainRow(kSpace8);
  row->addWidget(revert_);
  row->addStretch(1);
  row->addWidget(compare_);
  row->addWidget(start_);
  return row;
}

void SetupForm::addGroup(QVBoxLayout* column, const std::string& title) {
  Group group;
  group.body = new QWidget;
  group.body->setObjectName(QString::fromStdString(title));
  auto* grid = new QGridLayout(group.body);
  grid->setContentsMargins(0, kSpace4, 0, kSpace12);
  grid->setHorizontalSpacing(kSpace4);
  grid->setVerticalSpacing(kSpace4);
  grid->setColumnStretch(1, 1);
  followFont(this, [this, grid] { grid->setColumnMinimumWidth(0, withType(kLabelColumn, fontMetrics())); });
  for (const ConfigField& field : config_fields()) {
    if (groupOf(field) != title) continue;
    addRow(grid, field);
    group.keys.push_back(field.key);
  }
  group.header = new GroupHeader(QString::fromStdString(title), group.body);
  group.header->setChecked(title == kCommonGroup);
  column->addWidget(group.header);
  column->addWidget(group.body);
  groups_.push_back(group);
}

void SetupForm::addRow(QGridLayout* grid, const ConfigField& field) {
  Row row;
  const int y = grid->rowCount();
  row.label = new QLabel;
  row.label->setToolTip(fieldToolTip(field));
  row.editor = new FieldEditor(field);
  row.label->setBuddy(row.editor);
  row.new_run = new QLabel;
  row.new_run->setToolTip("Needs a new run");
  row.problem = wrappedLabel();
  row.problem->setObjectName("problem_of_" + QString::fromStdString(field.key));
  row.problem->hide();
  auto* name = plainRow(kSpace4);
  name->addWidget(row.label);
  name->addWidget(row.new_run);
  name->addStretch(1);
  followFont(row.editor,
             [editor = row.editor] { editor->setMinimumHeight(withType(kFieldHeight, editor->fontMetrics())); });
  grid->addLayout(name, y, 0);
  grid->addWidget(row.editor, y, 1);
  grid->addWidget(row.problem, y + 1, 0, 1, 2);
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
  const TwinOffers offers{.present = [this, &field] { return field.get(has_open_run_ ? open_run_ : draft_); },
                          .possible = [this] { return has_open_run_; },
                          .chosen = [this, &field](const ConfigValue& value) { emit valueTwinRequested(field, value); },
                          .other = [this, &field] { emit compareRequested(Setting(field)); }};
  offerTwins(row.label, field, offers);
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
  hint_->setVisible(has_open_run_);
  markNewRuns();
  check();
}

bool SetupForm::showField(const std::string& key) {
  FieldEditor* field_editor = editor(key);
  if (!field_editor) return false;
  filter_->clear();
  asked_key_ = key;
  showRows();
  for (Group& group : groups_)
    if (std::ranges::find(group.keys, key) != group.keys.end()) group.header->setChecked(true);
  // Queued, so that the layout has placed the group.
  QMetaObject::invokeMethod(
      this,
      [this, field_editor] {
        scroll_->ensureWidgetVisible(field_editor, 0, 60);
        field_editor->setFocus(Qt::ShortcutFocusReason);
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

// Shows the settings that the edited setting sets, or the setting that sets it.
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
  emit liveChangeRequested(editor->field(), *editor->value());
}

// Checks the draft together with the values in the editors, so that a live field is checked before its change.
void SetupForm::check() {
  RunConfig shown = draft_;
  std::vector<ConfigProblem> editor_problems;
  for (const auto& [key, row] : rows_) {
    const QString problem = row.editor->problem();
    if (problem.isEmpty() && !row.editor->field().derived)
      row.editor->field().set(shown, *row.editor->value());
    else if (!problem.isEmpty())
      editor_problems.push_back({.file = {}, .line = 0, .key = key, .message = problem.toStdString()});
  }
  problems_ = editor_problems;
  for (ConfigProblem& problem : validate(shown)) {
    const bool shown_already = std::any_of(editor_problems.begin(), editor_problems.end(),
                                           [&](const auto& p) { return p.key == problem.key; });
    if (!shown_already) problems_.push_back(std::move(problem));
  }
  for (const auto& [key, row] : rows_) row.editor->offer(&shown);
  choosePreset();
  showRows();
  showProblems();
  markChanges();
  showCost();
}

void SetupForm::setCosts(std::function<Cost(const RunConfig&)> draft_cost,
                         std::function<Cost(const QString&)> preset_cost) {
  cost_of_ = std::move(draft_cost);
  presets_->setWords(std::move(preset_cost));
  showCost();
}

// Shows the cost of valid settings only, since an invalid shape has no size.
void SetupForm::showCost() {
  const bool known = problems_.empty();
  for (const Group& group : groups_)
    if (group.body->objectName() == "Model") group.header->setNote(known ? parametersText(draft_) : QString());
  cost_->setVisible(cost_of_ && known);
  if (!cost_of_ || !known) return;
  const Cost cost = cost_of_(draft_);
  cost_->setText("A new run: " + cost.in_short);
  cost_->setToolTip(cost.whole);
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
    if (bad) group.header->setChecked(true);
  }
  QStringList common_problems;  // problems of several fields together
  for (const ConfigProblem& problem : problems_)
    if (!rows_.count(problem.key)) common_problems << QString::fromStdString(problem.message);
  if (common_problems.isEmpty() && !problems_.empty())
    common_problems << (problems_.size() == 1 ? QString("1 setting needs another value")
                                              : QString("%1 settings need another value").arg(problems_.size()));
  summary_->setPalette(warning);
  summary_->setText(common_problems.join("\n"));
  summary_->setVisible(!common_problems.isEmpty());
  start_->setEnabled(problems_.empty());
  const bool changed = has_open_run_ && !difference(open_run_, draft_).empty();
  revert_->setEnabled(changed || (has_open_run_ && !problems_.empty()));
  compare_->setEnabled(problems_.empty() && changed);
}

void SetupForm::markChanges() {
  for (auto& [key, row] : rows_) {
    const ConfigField& field = row.editor->field();
    const bool changed = has_open_run_ && field.get(draft_) != field.get(open_run_);
    const QFont font = changed ? semibold(this->font()) : this->font();
    if (row.label->font() != font) row.label->setFont(font);
    // Shows the label on one line and leaves out its last words if it does not fit.
    row.label->setText(elidedWords(withoutParenthesis(QString::fromStdString(field.label)), QFontMetrics(font),
                                   withType(kLabelColumn - (row.marked ? kMarkSize : 0), fontMetrics())));
  }
  rows_.at(Setting(&RouterConfig::top_k).key()).editor->setUnit(QString("of %1").arg(draft_.model.n_experts));
}

// Marks settings that need a new run: in the header of a group if all its settings do, else beside each setting.
void SetupForm::markNewRuns() {
  for (const Group& group : groups_) {
    const bool all = std::ranges::none_of(group.keys, [](const std::string& key) { return find_field(key)->live; });
    group.header->setNeedsNewRun(has_open_run_ && all);
    for (const std::string& key : group.keys) {
      Row& row = rows_.at(key);
      row.marked = has_open_run_ && !all && !find_field(key)->live;
      row.new_run->setVisible(row.marked && !row.editor->isHidden());
    }
  }
}

// Shows the settings that can matter and match the filter, settings with a problem, and the setting that was asked for.
void SetupForm::showRows() {
  const QString text = filter_->text();
  for (Group& group : groups_) {
    bool any = false;
    for (const std::string& key : group.keys) {
      const Row& row = rows_.at(key);
      const ConfigField& field = row.editor->field();
      const QString haystack = QString::fromStdString(field.key + " " + field.label + " " + field.help);
      const bool has_problem = std::ranges::count(problems_, key, &ConfigProblem::key) > 0;
      const bool shown = haystack.contains(text, Qt::CaseInsensitive) &&
                         (is_offered(field, draft_) || has_problem || key == asked_key_);
      for (QWidget* part : {static_cast<QWidget*>(row.label), static_cast<QWidget*>(row.editor)})
        part->setVisible(shown);
      row.new_run->setVisible(shown && row.marked);
      any |= shown;
    }
    group.header->setVisible(any);
    if (!text.isEmpty()) group.header->setChecked(any);
    group.body->setVisible(any && group.header->isChecked());
  }
}

void SetupForm::explain(const ConfigField& field) {
  // A setting that sets others is explained by the recipe that it sets now.
  const std::string recipe = field.derived ? published_recipe_about(to_string(field.get(draft_))) : "";
  const std::string& help = recipe.empty() ? field.help : recipe;
  explained_->setText(QString("<b>%1</b> <code>%2</code>")
                          .arg(withoutParenthesis(QString::fromStdString(field.label)).toHtmlEscaped(),
                               QString::fromStdString(field.key)));
  explanation_->setText(cardInPrint(QString("%1 <i>Allowed: %2.</i>")
                                        .arg(QString::fromStdString(help).toHtmlEscaped(),
                                             QString::fromStdString(allowed_text(field)).toHtmlEscaped())));
}

}  // namespace moescope
