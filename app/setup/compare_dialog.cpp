#include "app/setup/compare_dialog.h"

#include <QAction>
#include <QComboBox>
#include <QCompleter>
#include <QDialogButtonBox>
#include <QGridLayout>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QMenu>
#include <QPushButton>
#include <QScreen>
#include <QShortcut>
#include <QSpinBox>
#include <algorithm>
#include <stdexcept>

#include "app/look/dialog_parts.h"
#include "app/setup/field_editor.h"
#include "core/config/config_check.h"
#include "core/config/config_difference.h"
#include "core/config/config_toml.h"
#include "core/findings/comparison/verdict.h"
#include "core/training/engine/lock_step.h"
#include "core/training/engine/run_groups.h"
#include "core/training/engine/sweep.h"
#include "widgets/look/layouts.h"
#include "widgets/look/row_delegate.h"
#include "widgets/look/tokens.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr int kUsualSteps = 300, kRowsShown = 4;

constexpr int kDialogWidth = 480;  // width with the usual font

// Returns why a twin cannot train beside the first run; empty: it can.
QString twinProblem(const RunConfig& first, const RunConfig& twin) {
  const std::string problem = first_problem(twin);
  return QString::fromStdString(problem.empty() ? lock_step_problem(first, twin) : problem);
}

}  // namespace

CandidateList::CandidateList(const RunConfig& first, QWidget* parent)
    : QWidget(parent), first_(first), room_(kMaxRuns - 1) {
  title_ = new QLabel;
  title_->setForegroundRole(QPalette::PlaceholderText);
  list_ = new QListWidget;
  list_->setObjectName("candidates");
  list_->setAccessibleName("Candidates to compare with run A");
  list_->setItemDelegate(new RowDelegate(list_));
  remove_ = new QPushButton("&Remove");
  remove_->setAutoDefault(false);
  remove_->setToolTip("Removes the chosen candidate from the list (Delete)");
  steps_ = new QSpinBox;
  steps_->setObjectName("group_steps");
  steps_->setAccessibleName("Steps of each group");
  steps_->setRange(1, kMaxGroupSteps);
  steps_->setValue(std::min(first.optimizer.total_steps, kUsualSteps));
  steps_->setGroupSeparatorShown(true);
  steps_->setToolTip(QString("Steps of every run, from step 0; the schedule of the learning rate has %1. Comparisons "
                             "of fewer than %2 steps get no verdict.")
                         .arg(first.optimizer.total_steps)
                         .arg(least_steps(first.telemetry.validation_every)));

  auto* name = new QLabel("Candidates");
  name->setFont(semibold(name->font()));
  auto* head = plainRow(kSpace8);
  head->addWidget(name);
  head->addWidget(title_, 1);
  head->addWidget(remove_);
  steps_row_ = new QWidget;
  QGridLayout* row = fieldGrid();
  row->setContentsMargins(0, 0, 0, 0);
  steps_row_->setLayout(row);
  addField(row, "S&teps of each group", steps_);
  auto* column = plainColumn(this, kSpace8);
  column->addLayout(head);
  column->addWidget(list_);
  column->addWidget(steps_row_);

  new QShortcut(QKeySequence::Delete, list_, this, &CandidateList::remove, Qt::WidgetShortcut);
  connect(remove_, &QPushButton::clicked, this, &CandidateList::remove);
  connect(list_, &QListWidget::currentRowChanged, this, [this](int at) {
    remove_->setEnabled(at >= 0);
    emit changed();
  });
  connect(steps_, &QSpinBox::valueChanged, this, &CandidateList::changed);
  fill(-1);
}

void CandidateList::setRoom(int runs) {
  room_ = runs;
  fill(list_->currentRow());
}

int CandidateList::steps() const {
  return steps_->value();
}

int CandidateList::chosen() const {
  return list_->currentRow();
}

std::vector<RunConfig> CandidateList::runs() const {
  std::vector<RunConfig> runs{first_};
  runs.insert(runs.end(), candidates_.begin(), candidates_.end());
  return runs;
}

QString CandidateList::refusal(const RunConfig& candidate, int instead) const {
  if (instead < 0 && candidates_.size() >= kMaxCandidates)
    return QString("%1 candidates are on the list, more cannot be compared: remove one first.").arg(kMaxCandidates);
  if (difference(first_, candidate).empty()) return "Run A has this value already: choose another one.";
  if (const QString problem = twinProblem(first_, candidate); !problem.isEmpty()) return problem;
  for (int at = 0; at < to_int(candidates_.size()); ++at)
    if (at != instead && difference(candidates_[at], candidate).empty())
      return "This candidate is on the list already: choose another value.";
  return {};
}

QString CandidateList::add(const RunConfig& candidate, int instead) {
  if (QString refused = refusal(candidate, instead); !refused.isEmpty()) return refused;
  std::vector<RunConfig> other_runs = candidates_;
  if (instead >= 0) other_runs.erase(other_runs.begin() + instead);
  other_runs.push_back(first_);
  RunConfig& added = instead < 0 ? candidates_.emplace_back() : candidates_[instead];
  added = candidate;
  added.name = free_name(twin_name(first_, candidate), other_runs);
  fill(instead);
  return {};
}

void CandidateList::remove() {
  const int at = list_->currentRow();
  if (at < 0) return;
  candidates_.erase(candidates_.begin() + at);
  fill(std::min(at, to_int(candidates_.size()) - 1));
}

int CandidateList::rowHeight() const {
  return withType(kFlatHeight, list_->fontMetrics());
}

void CandidateList::fill(int chosen) {
  {
    const QSignalBlocker quiet(list_);
    list_->clear();
    for (const RunConfig& candidate : candidates_) {
      const QString differs = QString::fromStdString(differing_settings(first_, candidate));
      auto* item = new QListWidgetItem(differs, list_);
      item->setToolTip(QString::fromStdString(candidate.name) + ": " + differs);
      item->setSizeHint({0, rowHeight()});
    }
    list_->setCurrentRow(chosen);
  }
  const int rows = std::clamp(to_int(candidates_.size()), 2, kRowsShown);
  list_->setFixedHeight(rows * rowHeight() + 2 * list_->frameWidth());
  title_->setText(QString("%1 of at most %2").arg(candidates_.size()).arg(kMaxCandidates));
  remove_->setEnabled(chosen >= 0);
  steps_row_->setVisible(inGroups());
  setVisible(!candidates_.empty());
  emit changed();
}

QString CandidateList::words() const {
  QStringList sentences;
  if (inGroups())
    sentences << QString(
                     "The candidates train in %1 groups, one after the other, each with run A from step 0 and with its "
                     "own recording; run A in the window pauses.")
                     .arg(candidate_groups(runs()).size());
  const bool twin =
      std::ranges::any_of(candidates_, [this](const RunConfig& candidate) { return is_noise_twin(first_, candidate); });
  if (!twin && !candidates_.empty())
    sentences << "No candidate is a noise twin: without one, no gap can be told from chance.";
  return sentences.join(' ');
}

CompareDialog::CompareDialog(const RunConfig& first, Setting setting, QWidget* parent, std::optional<qint64> from)
    : QDialog(parent), first_(first), from_(from) {
  setAttribute(Qt::WA_DeleteOnClose);
  setObjectName("compare_dialog");
  setWindowTitle(from ? QString("Branch off from step %1").arg(*from) : QString("Compare with..."));
  makeSettings();
  problem_ = problemText();
  cost_ = new QLabel;
  cost_->setObjectName("twin_cost");
  cost_->setWordWrap(true);
  cost_->hide();
  QDialogButtonBox* buttons = dialogButtons(this, "Train the twin", &ok_);
  connect(buttons, &QDialogButtonBox::accepted, this, &CompareDialog::start);

  auto* column = dialogColumn(this, from ? windowTitle() : QString("Compare with run A"), "a twin on the same batches");
  column->addWidget(quietText(from ? QString("The twin continues from the checkpoint with this setting changed; run A "
                                             "waits until it has caught up. Without a change the twin repeats the run.")
                                   : QString("The twin has the settings of run A except this one and starts from step "
                                             "0; run A waits until it has caught up.")));
  QGridLayout* fields = fieldGrid();
  addField(fields, "Setting", keys_);
  addField(fields, from ? "Now" : "Run A", present_value_);
  auto* twin = new QWidget;
  place_ = plainColumn(twin, kSpace8);
  addField(fields, "Twin", twin);
  column->addLayout(fields);
  if (!from) {
    place_->addWidget(makeListButtons());
    addField(fields, "Grid", makeGridRow());
    grid_row_ = fields->rowCount() - 1;
    fields_ = fields;
    showGrid(false);
  }
  column->addWidget(problem_);
  if (!from) column->addWidget(list_);
  column->addWidget(cost_);
  column->addStretch(1);
  column->addWidget(buttons);
  followFont(this, [this] { setMinimumWidth(withType(kDialogWidth, fontMetrics())); });
  connect(keys_, &QComboBox::currentIndexChanged, this, &CompareDialog::onKeyChosen);
  keys_->setCurrentIndex(std::max(0, keys_->findText(QString::fromStdString(setting.key()))));
  onKeyChosen();
}

void CompareDialog::makeSettings() {
  keys_ = new QComboBox;
  keys_->setAccessibleName("Setting");
  keys_->setEditable(true);
  keys_->setInsertPolicy(QComboBox::NoInsert);
  keys_->completer()->setFilterMode(Qt::MatchContains);
  keys_->completer()->setCompletionMode(QCompleter::PopupCompletion);
  keys_->setToolTip("The setting in which the twin differs; type a part of its name to find it");
  for (const ConfigField& field : config_fields())
    if (comparable(field) && is_offered(field, first_) && (field.live || !from_))
      keys_->addItem(QString::fromStdString(field.key));
  present_value_ = new QLabel;
}

void CompareDialog::onKeyChosen() {
  const ConfigField* field = find_field(keys_->currentText().toStdString());
  if (!field) return;
  delete editor_;
  editor_ = new FieldEditor(*field);
  // A choice starts with another value than that of run A; a number is typed.
  const ConfigValue value = field->get(first_);
  const std::vector<ConfigValue> values = twinValues(*field, value);
  editor_->setValue(field->choices.empty() || values.empty() ? value : values.front());
  place_->insertWidget(0, editor_);
  connect(editor_, &FieldEditor::edited, this, &CompareDialog::check);
  // The editor follows the key list in the tab order, although it was made later.
  QWidget* before = keys_;
  for (QWidget* part : editor_->findChildren<QWidget*>(QString(), Qt::FindDirectChildrenOnly)) {
    if (!(part->focusPolicy() & Qt::TabFocus)) continue;
    setTabOrder(before, part);
    before = part;
  }
  setTabOrder(before, ok_);
  present_value_->setText(valueWords(QString::fromStdString(to_string(field->get(first_)))) + ' ' +
                          QString::fromStdString(field->unit));
  keys_->setToolTip(fieldToolTip(*field));
  check();
}

QWidget* CompareDialog::makeListButtons() {
  list_ = new CandidateList(first_);
  connect(list_, &CandidateList::changed, this, &CompareDialog::check);
  add_ = new QPushButton("&Add to list");
  add_->setToolTip("One more candidate: run A with this setting changed");
  connect(add_, &QPushButton::clicked, this, [this] { say(list_->add(twin())); });
  auto* more = new QPushButton("Add &more");
  more->setToolTip("Several candidates together, and noise twins");
  more->setMenu(makeMoreMenu());
  auto* buttons = new QWidget;
  auto* row = plainRow(buttons, kSpace8);
  for (QPushButton* button : {add_, more}) {
    button->setAutoDefault(false);
    row->addWidget(button);
  }
  row->addStretch(1);
  return buttons;
}

QMenu* CompareDialog::makeMoreMenu() {
  auto* menu = new QMenu(this);
  menu->setToolTipsVisible(true);
  const auto add = [&](const QString& text, const QString& tip, auto does) {
    QAction* action = menu->addAction(text, this, does);
    action->setToolTip(tip);
    return action;
  };
  add_values_ = add("All other &values of this setting", "A candidate for every other value, as far as there is room",
                    &CompareDialog::addEveryOtherValue);
  add("&Noise twin",
      "Run A with its first weights changed in the last place: shows how large a gap chance alone causes",
      &CompareDialog::addPerturbedTwin);
  add("&Dense twins",
      "Run A without experts, twice: with as many weights as a token multiplies, and with as many in all",
      &CompareDialog::addDenseTwins)
      ->setEnabled(first_.model.n_dense_layers < first_.model.n_layers);
  add("&Grid of settings...", "Every combination of several values of several settings", [this] { showGrid(true); });
  menu->addSeparator();
  add_to_chosen_ = add("This setting in the &chosen candidate, too",
                       "The chosen candidate then differs in both settings", &CompareDialog::addToChosen);
  return menu;
}

QWidget* CompareDialog::makeGridRow() {
  auto* grid = new QWidget;
  auto* column = plainColumn(grid, kSpace8);
  grid_ = new QLineEdit;
  grid_->setObjectName("grid");
  grid_->setAccessibleName("Grid of settings");
  grid_->setPlaceholderText("router.bias_update_rate=0,0.001; router.top_k=1,2");
  grid_->setToolTip(
      "Settings with their values, separated by semicolons. Every combination that differs from run A goes on the "
      "list, once for each seed. moescope-cli sweep trains larger grids, each run by itself");
  seeds_ = new QSpinBox;
  seeds_->setRange(1, kMaxCandidates);
  seeds_->setPrefix("seeds ");
  seeds_->setAccessibleName("Seeds of each point of the grid");
  seeds_->setToolTip("Run A's seed and those after it: they show how much each point depends on the initial weights");
  auto* add = new QPushButton("Add gr&id");
  add->setAutoDefault(false);
  add->setEnabled(false);
  auto* row = plainRow(kSpace8);
  row->addWidget(seeds_);
  row->addWidget(add);
  row->addStretch(1);
  column->addWidget(grid_);
  column->addLayout(row);
  connect(grid_, &QLineEdit::textChanged, add,
          [add](const QString& text) { add->setEnabled(!text.trimmed().isEmpty()); });
  connect(add, &QPushButton::clicked, this, &CompareDialog::addGrid);
  return grid;
}

void CompareDialog::showGrid(bool shown) {
  for (int column = 0; column < 2; ++column) fields_->itemAtPosition(grid_row_, column)->widget()->setVisible(shown);
  fields_->setRowMinimumHeight(grid_row_, shown ? fields_->rowMinimumHeight(grid_row_ - 1) : 0);
  if (!shown) return;
  grid_->setFocus();
  growToFit();
}

// Adds the points of the grid to the list. An invalid or too large grid leaves the list as it is.
void CompareDialog::addGrid() {
  try {
    std::vector<SweepAxis> axes;
    for (const QString& axis : grid_->text().split(u';', Qt::SkipEmptyParts))
      if (!axis.trimmed().isEmpty()) axes.push_back(parse_sweep_axis(axis.trimmed().toStdString()));
    std::vector<RunConfig> added;
    for (const RunGroup& point : sweep_groups(first_, axes, seeds_->value(), {}))
      if (!difference(first_, point.runs.front()).empty()) added.push_back(point.runs.front());
    if (const std::size_t all = added.size() + list_->candidates().size(); all > kMaxCandidates)
      return say(QString("With this grid %1 candidates would be on the list; at most %2 are allowed: take fewer "
                         "values, or moescope-cli sweep, which has no such limit.")
                     .arg(all)
                     .arg(kMaxCandidates));
    QString refused;
    for (const RunConfig& candidate : added)
      if (const QString reason = list_->add(candidate); !reason.isEmpty()) refused = reason;
    say(refused);
  } catch (const std::runtime_error& error) {
    say(QString::fromStdString(error.what()));
  }
}

// Adds a candidate for each other value. Skips values that the rules between settings exclude.
void CompareDialog::addEveryOtherValue() {
  const ConfigField& field = editor_->field();
  QString refused;
  for (const ConfigValue& value : twinValues(field, field.get(first_))) {
    RunConfig candidate = first_;
    field.set(candidate, value);
    if (const QString reason = list_->add(candidate); !reason.isEmpty()) refused = reason;
  }
  say(refused);
}

void CompareDialog::addPerturbedTwin() {
  RunConfig twin = perturbed_twin(first_);
  const auto listed = [&](const RunConfig& candidate) { return difference(candidate, twin).empty(); };
  while (std::ranges::any_of(list_->candidates(), listed)) twin = perturbed_twin(twin);
  say(list_->add(twin));
}

void CompareDialog::addDenseTwins() {
  QString refused;
  for (const DenseSize size : {DenseSize::active, DenseSize::total})
    if (const QString reason = list_->add(dense_twin(first_, size)); !reason.isEmpty()) refused = reason;
  say(refused);
}

void CompareDialog::addToChosen() {
  const int chosen = list_->chosen();
  if (chosen >= 0) say(list_->add(with(list_->candidates()[chosen]), chosen));
}

void CompareDialog::say(const QString& problem) {
  if (problem.isEmpty()) return;
  showProblem(problem_, problem);
  growToFit();
}

RunConfig CompareDialog::with(RunConfig config) const {
  if (const auto value = editor_->value()) editor_->field().set(config, *value);
  return config;
}

void CompareDialog::check() {
  QString problem = editor_->problem();
  if (problem.isEmpty()) {
    const RunConfig candidate = twin();
    const bool is_same = difference(first_, candidate).empty() && !from_;
    problem = is_same ? QString("Run A has this value already: choose another one.") : twinProblem(first_, candidate);
  }
  showProblem(problem_, problem);
  ok_->setEnabled(problem.isEmpty());
  if (list_) {
    add_->setEnabled(problem.isEmpty());
    add_values_->setEnabled(!twinValues(editor_->field(), editor_->field().get(first_)).empty());
    add_to_chosen_->setEnabled(list_->chosen() >= 0 && editor_->problem().isEmpty());
    if (!list_->candidates().empty()) return showCandidates();
    ok_->setText("Train the twin");
  }
  cost_->setVisible(cost_of_ && problem.isEmpty());
  if (cost_of_ && problem.isEmpty()) cost_->setText(cost_of_({twin()}, 0));
}

// Shows the button and the cost for the listed candidates, which the dialog then trains.
void CompareDialog::showCandidates() {
  const int count = to_int(list_->candidates().size());
  ok_->setEnabled(true);
  ok_->setText(count == 1 ? QString("Train the candidate") : QString("Train %1 candidates").arg(count));
  if (difference(first_, twin()).empty()) showProblem(problem_, {});  // the list itself is valid
  QStringList words;
  if (const QString how = list_->words(); !how.isEmpty()) words << how;
  if (cost_of_) words << cost_of_(list_->candidates(), list_->inGroups() ? list_->steps() : 0);
  cost_->setText(words.join("\n\n"));
  cost_->setVisible(!words.isEmpty());
  growToFit();
}

// Enlarges the dialog for the list, its cost and a problem, and keeps it on the screen. Keeps a larger size that the
// user chose.
void CompareDialog::growToFit() {
  if (!layout()) return;
  list_->layout()->activate();  // the layout must compute its new height now
  list_->updateGeometry();
  layout()->invalidate();
  layout()->activate();
  const int needed_height =
      layout()->hasHeightForWidth() ? layout()->totalHeightForWidth(width()) : sizeHint().height();
  if (height() < needed_height) resize(width(), needed_height);
  const int hidden_height = frameGeometry().bottom() - screen()->availableGeometry().bottom();
  if (isVisible() && hidden_height > 0) move(x(), std::max(screen()->availableGeometry().top(), y() - hidden_height));
}

void CompareDialog::start() {
  if (!list_ || list_->candidates().empty())
    emit twinRequested(twin());
  else if (list_->inGroups())
    emit groupsRequested(list_->runs(), list_->steps());
  else
    for (const RunConfig& candidate : list_->candidates()) emit twinRequested(candidate);
  accept();
}

void CompareDialog::setRoom(int runs) {
  if (list_) list_->setRoom(runs);
}

}  // namespace moescope
