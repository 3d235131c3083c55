#include "app/actions/account_window.h"

#include <QComboBox>
#include <QFileInfo>
#include <QGridLayout>
#include <QLabel>
#include <QPushButton>
#include <QScrollArea>
#include <QSpinBox>
#include <QSplitter>
#include <QVBoxLayout>
#include <algorithm>

#include "app/actions/account_table.h"
#include "app/actions/meaning_editor.h"
#include "app/look/dialog_parts.h"
#include "core/logs/tag_file.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/router/expert_load_panel.h"

namespace moescope {

namespace {

constexpr int kAccountWidth = 1240, kAccountHeight = 640, kEditorWidth = 300;

QSpinBox* shapeField(const char* name, int max) {
  auto* field = new QSpinBox;
  field->setObjectName(name);
  field->setRange(0, max);
  field->setSpecialValueText("from the log");
  return field;
}

QString foundText(const FoundNumber& number) {
  const QString value = number.value.empty() ? QString("not known") : QString::fromStdString(number.value);
  return value + (number.source.empty() ? QString() : ", " + QString::fromStdString(number.source)) +
         (number.question.empty() ? QString() : ". Is this right? " + QString::fromStdString(number.question));
}

QString summaryText(const ImportAccount& account) {
  if (!account.refusal.empty()) return "No run: " + QString::fromStdString(account.refusal);
  const auto shown = std::ranges::count(account.rows, true, &AccountRow::is_shown);
  const auto assumed = std::ranges::count_if(account.rows, &AccountRow::is_assumed);
  return QString("%1 patterns of names are read, %2 of them by the shape of their values; %3 are left out")
      .arg(shown)
      .arg(assumed)
      .arg(static_cast<qint64>(account.rows.size()) - shown);
}

}  // namespace

AccountWindow::AccountWindow(Selection* selection, QWidget* parent)
    : QDialog(parent),
      logs_(new QComboBox),
      summary_(quietText()),
      kept_(quietText()),
      table_(new AccountTable),
      editor_(new MeaningEditor),
      preview_(new ExpertLoadPanel(selection, ExpertLoadPanel::one_layer)),
      selection_(selection),
      confirm_(new QPushButton("Confirm what is assumed")),
      layers_(shapeField("stated_layers", kMaxImportedLayers)),
      experts_(shapeField("stated_experts", kMaxImportedExperts)),
      top_k_(shapeField("stated_top_k", 1024)) {
  setObjectName("account_window");
  setWindowTitle("What was read");
  logs_->setObjectName("account_logs");
  logs_->setAccessibleName("Log");
  summary_->setObjectName("account_summary");
  confirm_->setObjectName("confirm_assumed");
  kept_->setObjectName("account_kept");
  auto* column = dialogColumn(this, "What was read", "names in the log, and what they were taken for");
  auto* head = plainRow(kSpace8);
  head->addWidget(logs_);
  head->addWidget(summary_, 1);
  head->addWidget(confirm_);
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
  column->addWidget(split, 1);
  connect(logs_, &QComboBox::currentIndexChanged, this, &AccountWindow::showAccount);
  connect(table_, &AccountTable::chosen, editor_, &MeaningEditor::edit);
  connect(confirm_, &QPushButton::clicked, this, [this] {
    if (const ImportAccount* shown = account()) state(shown->confirming_rules());
  });
  resize(withType(kAccountWidth, fontMetrics()), withType(kAccountHeight, fontMetrics()));
}

QWidget* AccountWindow::makeShape() {
  auto* box = new QWidget;
  auto* grid = new QGridLayout(box);
  grid->setContentsMargins(0, 0, 0, 0);
  const ImportAccount empty;
  const auto numbers = empty.numbers();
  QSpinBox* const fields[] = {nullptr, layers_, experts_, top_k_, nullptr};
  for (int i = 0; i < static_cast<int>(numbers.size()); ++i) {
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
  auto* apply = new QPushButton("Apply");
  auto* leave_out = new QPushButton("Leave out");
  auto* keep_button = new QPushButton("Keep for this log");
  auto* for_all = new QPushButton("Keep for all logs");
  apply->setObjectName("apply_meaning");
  apply->setProperty(kPrimaryProperty, true);
  apply->setDefault(true);
  leave_out->setObjectName("leave_out");
  keep_button->setObjectName("keep_beside");
  for_all->setObjectName("keep_for_all");
  keep_button->setToolTip("Writes moescope-tags.toml into the folder of the log");
  for_all->setToolTip("Writes a mapping file into the folder of MoEScope's settings");
  auto* column = plainColumn(box, kSpace8);
  column->addWidget(scrollOf(editor_), 1);
  column->addWidget(preview_, 1);
  column->addWidget(kept_);
  auto* buttons = new QGridLayout;
  buttons->addWidget(leave_out, 0, 0);
  buttons->addWidget(apply, 0, 1);
  buttons->addWidget(keep_button, 1, 0);
  buttons->addWidget(for_all, 1, 1);
  column->addLayout(buttons);
  connect(apply, &QPushButton::clicked, this, [this] { state(editor_->isEmpty() ? "" : editor_->rule()); });
  connect(leave_out, &QPushButton::clicked, this, [this] {
    if (!editor_->isEmpty()) state(editor_->ruleToLeaveOut());
  });
  connect(keep_button, &QPushButton::clicked, this, [this] { keep(false); });
  connect(for_all, &QPushButton::clicked, this, [this] { keep(true); });
  return box;
}

const ImportAccount* AccountWindow::account() const {
  const int shown = logs_->currentIndex();
  return shown >= 0 && shown < static_cast<int>(accounts_.size()) ? &accounts_[shown] : nullptr;
}

void AccountWindow::showAccounts(std::vector<ImportAccount> accounts) {
  const bool unchanged = std::ranges::equal(accounts, accounts_, {}, &ImportAccount::path, &ImportAccount::path);
  if (!unchanged) {
    rules_.clear();
    kept_->clear();
    for (QSpinBox* field : {layers_, experts_, top_k_}) field->setValue(0);
  }
  accounts_ = std::move(accounts);
  const int chosen = unchanged ? logs_->currentIndex() : 0;
  const QSignalBlocker quiet(logs_);
  logs_->clear();
  for (const ImportAccount& of_log : accounts_)
    logs_->addItem(QFileInfo(QString::fromStdString(of_log.path)).fileName());
  logs_->setVisible(accounts_.size() > 1);
  logs_->setCurrentIndex(std::max(0, chosen));
  showAccount();
}

void AccountWindow::showAccount() {
  const ImportAccount* shown = account();
  if (!shown) return;
  summary_->setText(summaryText(*shown));
  confirm_->setVisible(!shown->confirming_rules().empty());
  preview_->setVisible(selection_->history() && selection_->history()->info().n_experts > 0);
  table_->showAccount(*shown);
  table_->chooseFirstQuestion();
  const auto numbers = shown->numbers();
  for (std::size_t i = 0; i < found_.size(); ++i) found_[i]->setText(foundText(*numbers[i].second));
}

void AccountWindow::state(const std::string& rule) {
  rules_ = rule + rules_;
  emit stated(rules_, {layers_->value(), top_k_->value(), experts_->value()});
}

// Writes the rules that were stated so far, and that of the chosen row.
void AccountWindow::keep(bool for_all_logs) {
  const ImportAccount* shown = account();
  if (!shown) return;
  if (rules_.empty() && !editor_->isEmpty()) state(editor_->rule());
  const std::string file = for_all_logs ? tag_file_for_all_logs() : tag_file_beside(shown->path);
  if (rules_.empty() || file.empty()) return emit refused("There is nothing to keep yet: choose a row first");
  try {
    keep_tag_rules(rules_, file);
    kept_->setText("Kept in " + QString::fromStdString(file));
  } catch (const std::exception& problem) {
    emit refused(QString::fromUtf8(problem.what()));
  }
}

}  // namespace moescope
