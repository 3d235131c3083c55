#include "app/actions/account_window.h"

#include <QButtonGroup>
#include <QFileInfo>
#include <QGridLayout>
#include <QHeaderView>
#include <QPushButton>
#include <QRadioButton>
#include <QRegularExpression>
#include <QScreen>
#include <QSpinBox>
#include <QSplitter>
#include <QVBoxLayout>
#include <algorithm>
#include <array>
#include <cmath>

#include "app/look/dialog_parts.h"
#include "core/logs/tag_map.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/row_delegate.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/router/expert_load_panel.h"

namespace moescope {

namespace {

constexpr int kAccountWidth = 1240, kAccountHeight = 640, kEditorWidth = 300;

// A number of the run, up to `max`; 0: that of the log.
QSpinBox* shapeField(const char* object_name, int max) {
  auto* field = new QSpinBox;
  field->setObjectName(object_name);
  field->setRange(0, max);
  field->setSpecialValueText("from the log");
  return field;
}

QString foundText(const FoundNumber& number) {
  bool is_count = false;
  const QString value = number.value.empty() ? QString("not known") : QString::fromStdString(number.value);
  const qlonglong count = value.toLongLong(&is_count);
  return (is_count ? groupedText(count) : value) +
         (number.source.empty() ? QString() : ", " + QString::fromStdString(number.source)) +
         (number.question.empty()
              ? QString()
              : ". Is this right? " + QString::fromStdString(number.question) + " State it above, then apply.");
}

QString summaryText(const ImportAccount& account) {
  const auto has_step = [](const AccountRow& row) { return row.first_step >= 0; };
  if (!account.refusal.empty() && !account.rows.empty() && std::ranges::none_of(account.rows, has_step))
    return "No run yet: the step is not known. Check what the names are to be taken for, then apply";
  if (!account.refusal.empty()) return "No run: " + QString::fromStdString(account.refusal);
  const auto names = [&](auto is_counted) {
    std::int64_t count = 0;
    for (const AccountRow& row : account.rows) count += is_counted(row) ? row.names : 0;
    return count;
  };
  const auto part = [](const char* text, std::int64_t count) {
    return count > 0 ? QString(text).arg(groupedText(count)) : QString();
  };
  return "Names: " + groupedText(names([](const AccountRow& row) { return row.is_shown; })) + " read" +
         part(", %1 of them by the shape of their values",
              names([](const AccountRow& row) { return row.is_assumed(); })) +
         part("; %1 left out", names([](const AccountRow& row) { return !row.is_shown; })) +
         part(", %1 of them not known",
              names([](const AccountRow& row) { return !row.is_shown && row.certainty == Certainty::unknown; }));
}

}  // namespace

AccountWindow::AccountWindow(Selection* selection, QWidget* parent)
    : QDialog(parent),
      logs_(new QComboBox),
      summary_(quietText()),
      kept_file_(quietText()),
      table_(new AccountTable),
      editor_(new MeaningEditor),
      preview_(new ExpertLoadPanel(selection, ExpertLoadPanel::one_layer)),
      selection_(selection),
      apply_(new QPushButton("Apply")),
      leave_out_(new QPushButton("Leave out")),
      layers_(shapeField("stated_layers", kMaxImportedLayers)),
      experts_(shapeField("stated_experts", kMaxImportedExperts)),
      top_k_(shapeField("stated_top_k", 1024)) {
  setObjectName("account_window");
  setWindowTitle("What was read");
  logs_->setObjectName("account_logs");
  logs_->setAccessibleName("Log");
  logs_->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  logs_->setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  summary_->setObjectName("account_summary");
  kept_file_->setObjectName("account_kept");
  auto* column = dialogColumn(this, "What was read", "names in the log, and what they were taken for");
  auto* head = plainRow(kSpace8);
  head->addWidget(logs_);
  head->addWidget(summary_, 1);
  auto* close_button = new QPushButton("Close");
  close_button->setAutoDefault(false);
  connect(close_button, &QPushButton::clicked, this, &QDialog::reject);
  head->addWidget(close_button);
  column->addLayout(head);
  auto* left_side = new QWidget;
  auto* left_column = plainColumn(left_side, kSpace12);
  left_column->addWidget(table_, 1);
  left_column->addWidget(makeShape());
  auto* split = new QSplitter;
  split->setChildrenCollapsible(false);
  split->addWidget(left_side);
  split->addWidget(makeEditor());
  split->setStretchFactor(0, 1);
  split->setSizes({withType(kAccountWidth - kEditorWidth, fontMetrics()), withType(kEditorWidth, fontMetrics())});
  column->addWidget(split, 1);
  connect(logs_, &QComboBox::currentIndexChanged, this, [this] { showAccount(); });
  connect(selection_, &Selection::changed, this, &AccountWindow::followSelection);
  connect(editor_, &MeaningEditor::changed, this, &AccountWindow::stageChoice);
  connect(table_, &AccountTable::chosen, this, [this](const AccountRow& row) {
    editor_->edit(row, staged(row.name));
    enableButtons();
  });
  for (QSpinBox* field : {layers_, experts_, top_k_})
    connect(field, &QSpinBox::valueChanged, this, &AccountWindow::enableButtons);
  const QSize preferred_size(withType(kAccountWidth, fontMetrics()), withType(kAccountHeight, fontMetrics()));
  resize(preferred_size.boundedTo(screen()->availableSize()));
}

QWidget* AccountWindow::makeShape() {
  auto* box = new QWidget;
  auto* grid = new QGridLayout(box);
  grid->setContentsMargins(0, 0, 0, 0);
  const ImportAccount empty;
  const auto numbers = empty.numbers();
  QSpinBox* const fields[] = {nullptr, layers_, experts_, top_k_, nullptr};
  for (int i = 0; i < to_int(numbers.size()); ++i) {
    grid->addWidget(new QLabel(numbers[i].first), 0, i);
    if (fields[i]) grid->addWidget(fields[i], 1, i);
    found_.push_back(quietText());
    grid->addWidget(found_.back(), 2, i);
    grid->setColumnStretch(i, 1);
  }
  return box;
}

QWidget* AccountWindow::makeEditor() {
  auto* box = new QWidget;
  box->setMinimumWidth(withType(kEditorWidth, fontMetrics()));
  auto* keep_button = new QPushButton("Keep for this folder");
  auto* for_all = new QPushButton("Keep for all logs");
  apply_->setObjectName("apply_meaning");
  apply_->setProperty(kPrimaryProperty, true);
  apply_->setDefault(true);
  leave_out_->setObjectName("leave_out");
  keep_button->setObjectName("keep_beside");
  for_all->setObjectName("keep_for_all");
  keep_button->setToolTip("Writes moescope-tags.toml beside the log, which is read for all logs of its folder");
  for_all->setToolTip("Writes a mapping file into the folder of MoEScope's settings");
  auto* column = plainColumn(box, kSpace8);
  column->setContentsMargins(kSpace8, 0, 0, 0);
  constexpr int kEditorStretch = 3, kPreviewStretch = 2;  // parts of the height
  column->addWidget(scrollOf(editor_), kEditorStretch);
  preview_->setHeading("Expert load");  // there is no room for its whole title
  column->addWidget(preview_, kPreviewStretch);
  column->addWidget(kept_file_);
  auto* buttons = new QGridLayout;
  buttons->addWidget(leave_out_, 0, 0);
  buttons->addWidget(apply_, 0, 1);
  buttons->addWidget(keep_button, 1, 0);
  buttons->addWidget(for_all, 1, 1);
  column->addLayout(buttons);
  // Return in a field applies; Qt would press the button that comes next in the order of focus.
  for (QPushButton* button : box->findChildren<QPushButton*>()) button->setAutoDefault(button == apply_);
  connect(apply_, &QPushButton::clicked, this, [this] { emit stated(withStaged()); });
  connect(leave_out_, &QPushButton::clicked, editor_, &MeaningEditor::leaveOut);
  connect(keep_button, &QPushButton::clicked, this, [this] { keep(false); });
  connect(for_all, &QPushButton::clicked, this, [this] { keep(true); });
  return box;
}

const ImportAccount* AccountWindow::account() const {
  const int shown = logs_->currentIndex();
  return shown >= 0 && shown < to_int(accounts_.size()) ? &accounts_[shown] : nullptr;
}

void AccountWindow::showAccounts(std::vector<ImportAccount> accounts, const StatedLogs& stated) {
  const bool unchanged = std::ranges::equal(accounts, accounts_, {}, &ImportAccount::path, &ImportAccount::path);
  if (!unchanged) {
    kept_file_->clear();
    staged_.clear();
  }
  std::erase_if(staged_, [&stated](const auto& choice) {  // that was applied
    const auto log = stated.find(choice.first.first);
    const std::string rule = choice.second.rule();
    return log != stated.end() && !rule.empty() && log->second.rules.find(rule) != std::string::npos;
  });
  accounts_ = std::move(accounts);
  stated_ = stated;
  for (const ImportAccount& log_account : accounts_)
    for (const AccountRow& row : log_account.rows)
      if (StatedName proposal = row.proposal(); !proposal.means.empty())
        staged_.try_emplace({log_account.path, row.name}, std::move(proposal));
  int chosen = unchanged ? logs_->currentIndex() : 0;
  if (!unchanged && accounts_.size() == selection_->histories().size()) chosen = selection_->run();
  const QSignalBlocker quiet(logs_);
  logs_->clear();
  for (const ImportAccount& log_account : accounts_)
    logs_->addItem(QFileInfo(QString::fromStdString(log_account.path)).fileName());
  logs_->setVisible(accounts_.size() > 1);
  logs_->setCurrentIndex(std::max(0, chosen));
  const bool keeps_numbers = unchanged && hasNewNumber();  // that were not applied before the window was closed
  showAccount(unchanged ? editor_->name() : std::string(), keeps_numbers);
}

// The preview shows the selected run, which is that of the selected log.
void AccountWindow::followSelection() {
  if (accounts_.size() == selection_->histories().size()) logs_->setCurrentIndex(selection_->run());
}

void AccountWindow::showAccount(const std::string& name, bool keeps_numbers) {
  const ImportAccount* shown = account();
  if (!shown) return;
  logs_->setToolTip(QString::fromStdString(shown->path));
  const RoutedShape shape = stated_[shown->path].shape;
  if (!keeps_numbers) {
    layers_->setValue(shape.layers);
    experts_->setValue(shape.experts);
    top_k_->setValue(shape.top_k);
  }
  if (accounts_.size() == selection_->histories().size()) selection_->setRun(logs_->currentIndex());
  summary_->setText(summaryText(*shown));
  // A log from which no run could be read leaves another run open.
  preview_->setVisible(shown->refusal.empty() && selection_->history() && selection_->history()->info().n_experts > 0);
  table_->showAccount(*shown);
  for (const AccountRow& row : shown->rows)
    if (const StatedName* choice = staged(row.name)) table_->showPending(row.name, *choice);
  if (!table_->choose(name)) editor_->clear();
  const auto numbers = shown->numbers();
  for (std::size_t i = 0; i < found_.size(); ++i) found_[i]->setText(foundText(*numbers[i].second));
  enableButtons();
}

bool AccountWindow::hasNewNumber() const {
  const ImportAccount* shown = account();
  const auto log = stated_.find(shown ? shown->path : std::string());
  const RoutedShape shape = log != stated_.end() ? log->second.shape : RoutedShape{};
  return shape.layers != layers_->value() || shape.top_k != top_k_->value() || shape.experts != experts_->value();
}

void AccountWindow::enableButtons() {
  apply_->setEnabled(pending() > 0 || hasNewNumber());
  const int changes = pending() + (hasNewNumber() ? 1 : 0);
  apply_->setText(changes > 1 ? QString("Apply %1 changes").arg(changes) : QString("Apply"));
  leave_out_->setEnabled(!editor_->isEmpty());
}

const StatedName* AccountWindow::staged(const std::string& name) const {
  const auto found = staged_.find({account() ? account()->path : std::string(), name});
  return found != staged_.end() ? &found->second : nullptr;
}

// A choice is kept when another row is chosen, until it is applied.
void AccountWindow::stageChoice() {
  const ImportAccount* shown = account();
  if (!shown || editor_->isEmpty()) return;
  StatedName& choice = staged_[{shown->path, editor_->name()}];
  choice = editor_->isEdited() ? editor_->choice() : StatedName();
  table_->showPending(editor_->name(), choice);
  enableButtons();
}

int AccountWindow::pending() const {
  return to_int(std::ranges::count_if(staged_, [](const auto& choice) { return !choice.second.means.empty(); }));
}

StatedLogs AccountWindow::withStaged() const {
  StatedLogs logs = stated_;
  for (const auto& [place, choice] : staged_) logs[place.first].rules = choice.rule() + logs[place.first].rules;
  StatedLog& log = logs[account()->path];
  log.shape = {layers_->value(), top_k_->value(), experts_->value()};
  return logs;
}

// Writes the rules that were stated so far about the log, with the choices that were not applied yet. The other logs
// are read again if the rules are for them as well.
void AccountWindow::keep(bool for_all_logs) {
  const ImportAccount* shown = account();
  if (!shown) return;
  const bool has_staged = pending() > 0;
  const StatedLogs logs = withStaged();
  const std::string& rules = logs.at(shown->path).rules;
  const std::string file = for_all_logs ? tag_file_for_all_logs() : tag_file_beside(shown->path);
  if (rules.empty() || file.empty()) return emit refused("There is nothing to keep yet: state what a name is first");
  try {
    keep_tag_rules(rules, file);
    kept_file_->setText("Kept in " + QString::fromStdString(file));
  } catch (const std::exception& problem) {
    emit refused(QString::fromUtf8(problem.what()));
  }
  if (has_staged || for_all_logs) emit stated(logs);
}

namespace {

enum AccountColumn { kNameColumn, kNames, kValues, kRange, kTakenFor, kUnit, kBecause, kAccountColumns };

// Columns whose texts may be long, such as examples of a text and units of converted values, and their largest widths:
// the reason has what the others leave, and the editor has the whole name and reason.
constexpr std::pair<int, int> kElidedColumns[] = {{kNameColumn, 220}, {kRange, 130}, {kUnit, 120}};

QString takenFor(const AccountRow& row) {
  return row.is_shown ? QString::fromStdString(row.meaning) : QString("left out");
}

QString becauseText(const AccountRow& row) {
  if (!row.question.empty()) return QString::fromStdString(question_text(row.question));
  if (!row.is_shown) return QString::fromStdString(row.reason);
  const QString certainty = certainty_name(row.certainty);
  return row.program.empty() ? certainty : certainty + ", " + QString::fromStdString(row.program);
}

}  // namespace

AccountTable::AccountTable(QWidget* parent) : QTreeWidget(parent) {
  setObjectName("account_table");
  setAccessibleName("Names in the log, what they were taken for, and why");
  setRootIsDecorated(false);
  setUniformRowHeights(true);
  setItemDelegate(new RowDelegate(this));
  setColumnCount(kAccountColumns);
  setHeaderLabels({"name", "names", "values", "range", "taken for", "unit", "reason"});
  header()->setSectionResizeMode(QHeaderView::ResizeToContents);
  header()->setSectionResizeMode(kBecause, QHeaderView::Stretch);
  for (const int column : {int{kNames}, int{kValues}}) headerItem()->setTextAlignment(column, Qt::AlignRight);
  setTextElideMode(Qt::ElideMiddle);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  for (const auto& [column, widest] : kElidedColumns) header()->setSectionResizeMode(column, QHeaderView::Interactive);
  followFont(this, [this] { fitColumns(); });
  connect(this, &QTreeWidget::currentItemChanged, this, [this](const QTreeWidgetItem* item) {
    const int row = item ? item->data(kNameColumn, Qt::UserRole).toInt() : -1;
    if (row >= 0) emit chosen(rows_[row]);
  });
}

void AccountTable::addRow(const AccountRow& row) {
  auto* item = new QTreeWidgetItem(this);
  item->setData(kNameColumn, Qt::UserRole, to_int(rows_.size()));
  item->setText(kNameColumn, QString::fromStdString(row.name));
  item->setText(kNames, groupedText(row.names));
  if (row.values > 0) item->setText(kValues, groupedText(row.values));  // else its numbers were not counted
  item->setText(kRange, QString::fromStdString(std::isnan(row.lowest) ? row.example : range_text(row)));
  item->setText(kTakenFor, takenFor(row));
  item->setText(kUnit, QString::fromStdString(row.unit));
  item->setText(kBecause, becauseText(row));
  item->setToolTip(kBecause, item->text(kBecause));
  for (const auto& [column, widest] : kElidedColumns) item->setToolTip(column, item->text(column));
  for (const int column : {int{kNames}, int{kValues}}) item->setTextAlignment(column, Qt::AlignRight);
  const Colors& c = colors(palette());
  for (int column = 0; column < kAccountColumns && !row.is_shown; ++column) item->setForeground(column, QColor(c.ink2));
  if (row.is_to_confirm()) item->setForeground(kBecause, QColor(c.attention));
  rows_.push_back(row);
}

void AccountTable::showAccount(const ImportAccount& account) {
  clear();
  rows_.clear();
  for (const bool is_shown : {true, false})
    for (const AccountRow& row : account.rows)
      if (row.is_shown == is_shown) addRow(row);
  for (const LeftOut& part : account.left_out) {
    auto* item = new QTreeWidgetItem(this);
    item->setData(kNameColumn, Qt::UserRole, -1);
    item->setText(kNameColumn, QString::fromStdString(part.what));
    item->setText(kTakenFor, "left out");
    item->setText(kBecause, QString::fromStdString(part.reason));
    for (const int column : {int{kNameColumn}, int{kBecause}}) item->setToolTip(column, item->text(column));
  }
  fitColumns();
}

void AccountTable::fitColumns() {
  for (const auto& [column, widest] : kElidedColumns) {
    const int needed = std::max(sizeHintForColumn(column), header()->sectionSizeHint(column)) + kSpace8;
    header()->resizeSection(column, std::min(needed, withType(widest, fontMetrics())));
  }
}

bool AccountTable::choose(const std::string& name) {
  const auto choose_first = [this](auto holds) {
    const auto row = std::ranges::find_if(rows_, holds);
    if (row != rows_.end()) setCurrentItem(topLevelItem(static_cast<int>(row - rows_.begin())));
    return row != rows_.end();
  };
  return choose_first([&name](const AccountRow& row) { return row.name == name; }) ||
         choose_first([](const AccountRow& row) { return row.is_to_confirm(); }) ||
         choose_first([](const AccountRow& row) { return !row.is_shown && row.certainty == Certainty::unknown; });
}

namespace {

struct ValueUnit {
  const char *text, *means;
  double scale = 1;
};
struct NameMeaning {
  QString text;
  std::vector<ValueUnit> units;  // of a single one, no choice is shown
};
const std::vector<NameMeaning>& meanings() {
  static const std::vector<NameMeaning> all = [] {
    std::vector<std::vector<ValueUnit>> units = {{{"tokens of a step", "tokens_per_expert"},
                                                  {"tokens since the start", kLoadsSoFar},
                                                  {"shares of a step: their sum is 1", "load_share"},
                                                  {"times the fair share: their mean is 1", "utilization"}}};
    for (const char* loss : {"ce_loss", "val_loss"}) units.push_back({{"nats", loss}, {"bits", loss, kNatsOfBit}});
    for (const char* means : {"expert_bias", "aux_loss", "z_loss", "grad_norm", "lr", "tokens_per_s", "tokens_so_far",
                              "tokens_of_step", "max_vio", "entropy_norm", "cv", "dead_fraction", "dropped_fraction",
                              "step", "layer", "expert", "part", "ignored"})
      units.push_back({{"", means}});
    std::vector<NameMeaning> named;
    for (std::vector<ValueUnit>& name_units : units) {
      const std::string text = meaning_text(name_units[0].means);
      named.push_back({text.empty() ? "Left out" : QString::fromStdString(text), std::move(name_units)});
    }
    return named;
  }();
  return all;
}
constexpr std::array kNumberMeanings = {"{layer}", "{expert}", "*"};

// Matches a number in the name of a row: "blk{layer}.e{expert}.frac".
const QRegularExpression& numberInName() {
  static const QRegularExpression number("\\{(layer|expert|n)\\}");
  return number;
}

// Index of the meaning and of the unit of what is stated; behind the last meaning if it is not offered.
std::pair<int, int> placeOf(const StatedName& stated) {
  for (std::size_t m = 0; m < meanings().size(); ++m)
    for (std::size_t u = 0; u < meanings()[m].units.size(); ++u)
      if (const ValueUnit& unit = meanings()[m].units[u]; stated.means == unit.means && stated.scale == unit.scale)
        return {to_int(m), to_int(u)};
  return {to_int(meanings().size()), 0};
}

// Value of `means` of names that are loads: counts are whole, and shares at most 1.
const char* loadMeans(const AccountRow& row) {
  if (row.highest <= 1) return "load_share";
  const bool is_whole = row.highest == std::floor(row.highest) && row.lowest == std::floor(row.lowest);
  return is_whole ? "tokens_per_expert" : "utilization";
}

// Units of a meaning that is offered; empty for the row's present meaning if that is not offered.
const std::vector<ValueUnit>& unitsOf(int meaning) {
  static const std::vector<ValueUnit> none;
  return meaning >= 0 && meaning < to_int(meanings().size()) ? meanings()[meaning].units : none;
}

}  // namespace

void AccountTable::showPending(const std::string& name, const StatedName& choice) {
  const auto row = std::ranges::find(rows_, name, &AccountRow::name);
  if (row == rows_.end()) return;
  QTreeWidgetItem* item = topLevelItem(static_cast<int>(row - rows_.begin()));
  const auto [meaning, unit] = placeOf(choice);
  const std::vector<ValueUnit>& units = unitsOf(meaning);
  const bool is_pending = !units.empty();
  item->setText(kTakenFor, is_pending ? meanings()[meaning].text : takenFor(*row));
  item->setText(kUnit, is_pending ? QString(units[unit].text).section(':', 0, 0) : QString::fromStdString(row->unit));
  const Colors& c = colors(palette());
  const auto read_color = row->is_shown ? c.ink : c.ink2;
  for (const int column : {int{kTakenFor}, int{kUnit}}) {
    item->setFont(column, is_pending ? semibold(font()) : font());
    item->setForeground(column, QColor(is_pending ? c.attention : read_color));
  }
  fitColumns();
}

MeaningEditor::MeaningEditor(QWidget* parent)
    : QWidget(parent),
      title_(new QLabel),
      evidence_(quietText()),
      means_(new QComboBox),
      numbers_(plainColumn(kSpace4)),
      units_(plainColumn(kSpace4)),
      unit_(new QButtonGroup(this)) {
  title_->setTextFormat(Qt::PlainText);
  title_->setWordWrap(true);
  title_->setObjectName("meaning_name");
  means_->setObjectName("meaning");
  means_->setAccessibleName("This name is");
  means_->setMaxVisibleItems(to_int(meanings().size()) + 1);
  auto* column = plainColumn(this, kSpace8);
  column->addWidget(title_);
  column->addWidget(new QLabel("This name is"));
  column->addWidget(means_);
  column->addLayout(numbers_);
  column->addLayout(units_);
  column->addWidget(evidence_);
  column->addStretch(1);
  connect(means_, &QComboBox::currentIndexChanged, this, &MeaningEditor::showUnits);
  clear();
}

void MeaningEditor::clear() {
  name_.clear();
  read_as_.clear();
  means_->clear();
  read_as_rule_.clear();
  title_->setText("Choose a row to state what its names mean");
  evidence_->clear();
  showNumbers({});
  setEnabled(false);
}

void MeaningEditor::edit(const AccountRow& row, const StatedName* staged) {
  const QSignalBlocker quiet(this);
  name_ = row.name;
  read_as_ = row.is_shown ? row.means : "ignored";
  likely_ = {row.pattern, row.means.empty() ? loadMeans(row) : row.means};
  likely_.scale = likely_scale(name_, likely_.means);
  setEnabled(true);
  title_->setText(QString::fromStdString(row.name));
  title_->setToolTip(title_->text());
  showNumbers(row.pattern);
  means_->clear();
  for (const NameMeaning& meaning : meanings()) means_->addItem(meaning.text);
  const int meaning = placeOf({{}, read_as_}).first;
  if (meaning == means_->count()) means_->addItem("as read: " + QString::fromStdString(row.meaning));
  means_->setCurrentIndex(meaning);
  read_as_rule_ = row.is_assumed() ? std::string() : choice().rule();
  if (staged && !staged->means.empty()) {
    likely_ = *staged;
    means_->setCurrentIndex(placeOf(likely_).first);
    showUnits();
  }
  QStringList evidence{QString("Values: %1").arg(QString::fromStdString(range_text(row)))};
  if (!row.reason.empty()) evidence << QString::fromStdString(row.reason);
  if (!row.question.empty()) evidence << QString::fromStdString(question_text(row.question));
  evidence_->setText(evidence.join("\n"));
}

void MeaningEditor::leaveOut() {
  means_->setCurrentIndex(placeOf({{}, "ignored"}).first);
}

// `pattern`: of a rule that says what the numbers of the name are; else the words before them say it.
void MeaningEditor::showNumbers(const std::string& pattern) {
  clearLayout(numbers_);
  number_means_.clear();
  static const QRegularExpression kPlaces("\\{layer\\}|\\{expert\\}|\\*");
  QStringList places;
  for (const QRegularExpressionMatch& found : kPlaces.globalMatch(QString::fromStdString(pattern)))
    places << found.captured();
  const QString name = QString::fromStdString(name_);
  for (const QRegularExpressionMatch& found : numberInName().globalMatch(name)) {
    auto* choice = new QComboBox;
    const int number = to_int(number_means_.size()) + 1;
    choice->setObjectName(QString("number_%1").arg(number));
    for (const char* what : {"the layer", "the expert", "any number"})
      choice->addItem(QString("Number %1 is %2").arg(number).arg(what));
    const bool fits = places.size() == name.count(numberInName());
    choice->setCurrentIndex(to_int(fits ? QStringList{"{layer}", "{expert}", "*"}.indexOf(places[number - 1])
                                        : QStringList{"layer", "expert", "n"}.indexOf(found.captured(1))));
    connect(choice, &QComboBox::currentIndexChanged, this, &MeaningEditor::changed);
    numbers_->addWidget(choice);
    number_means_.push_back(choice);
  }
}

void MeaningEditor::showUnits() {
  clearLayout(units_);
  const std::vector<ValueUnit>& units = unitsOf(means_->currentIndex());
  const auto [likely_meaning, likely_unit] = placeOf(likely_);
  int unit = likely_unit;
  if (likely_meaning != means_->currentIndex() && !units.empty())
    unit = placeOf({{}, units[0].means, likely_scale(name_, units[0].means)}).second;
  if (units.size() > 1) units_->addWidget(new QLabel("Values are"));
  for (std::size_t i = 0; i < units.size(); ++i) {
    auto* button = new QRadioButton(units[i].text);
    button->setObjectName(QString("unit_%1").arg(i));
    unit_->addButton(button, to_int(i));
    units_->addWidget(button);
    button->setVisible(units.size() > 1);
    button->setChecked(to_int(i) == unit);
    connect(button, &QRadioButton::toggled, this, &MeaningEditor::changed);
  }
  emit changed();
}

std::string MeaningEditor::pattern() const {
  QString pattern = QString::fromStdString(name_);
  qsizetype at = 0;
  for (const QComboBox* choice : number_means_) {
    const QRegularExpressionMatch found = numberInName().match(pattern, at);
    const QString meaning = kNumberMeanings[choice->currentIndex()];
    pattern.replace(found.capturedStart(), found.capturedLength(), meaning);
    at = found.capturedStart() + meaning.size();
  }
  return pattern.toStdString();
}

StatedName MeaningEditor::choice() const {
  const std::vector<ValueUnit>& units = unitsOf(means_->currentIndex());
  if (units.empty()) return {pattern(), read_as_};
  const ValueUnit& unit = units[std::max(0, unit_->checkedId())];
  return {pattern(), unit.means, unit.scale};
}

}  // namespace moescope
