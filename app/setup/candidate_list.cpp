#include "app/setup/candidate_list.h"

#include <QAction>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QListWidget>
#include <QPushButton>
#include <QSpinBox>
#include <algorithm>

#include "app/look/dialog_parts.h"
#include "core/comparison/verdict.h"
#include "core/config/candidates.h"
#include "core/config/config_check.h"
#include "core/config/config_difference.h"
#include "core/training/engine/lock_step.h"
#include "core/training/engine/run_groups.h"
#include "widgets/look/layouts.h"
#include "widgets/look/row_delegate.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

constexpr int kUsualSteps = 300, kMostSteps = 1'000'000, kRowsShown = 6;

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
  remove_->setToolTip("Takes the chosen candidate off the list (Delete)");
  steps_ = new QSpinBox;
  steps_->setObjectName("group_steps");
  steps_->setAccessibleName("Steps of each group");
  steps_->setRange(1, kMostSteps);
  steps_->setValue(std::min(first.optimizer.total_steps, kUsualSteps));
  steps_->setGroupSeparatorShown(true);
  steps_->setToolTip(QString("Steps of every run, from step 0; the schedule of the learning rate has %1. Comparisons "
                             "of fewer than %2 steps get no verdict.")
                         .arg(first.optimizer.total_steps)
                         .arg(least_steps(first.telemetry.validation_every)));

  auto* name = new QLabel("Candidates");
  name->setFont(semibold(name->font()));
  auto* head = new QHBoxLayout;
  head->setSpacing(kSpace8);
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

  auto* remove = new QAction(list_);
  remove->setShortcut(QKeySequence::Delete);
  remove->setShortcutContext(Qt::WidgetShortcut);
  list_->addAction(remove);
  connect(remove, &QAction::triggered, this, &CandidateList::remove);
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

const RunConfig* CandidateList::chosen() const {
  const int at = list_->currentRow();
  return at < 0 ? nullptr : &candidates_[static_cast<std::size_t>(at)];
}

QString CandidateList::refusal(const RunConfig& candidate, int instead) const {
  if (instead < 0 && candidates_.size() >= kMaxCandidates)
    return QString("%1 candidates are on the list, more cannot be compared: remove one first.").arg(kMaxCandidates);
  if (difference(first_, candidate).empty()) return "Run A has this value already: choose another one.";
  if (const auto problems = validate(candidate); !problems.empty())
    return QString::fromStdString(problems.front().message);
  if (const std::string problem = lock_step_problem(first_, candidate); !problem.empty())
    return QString::fromStdString(problem);
  for (int at = 0; at < static_cast<int>(candidates_.size()); ++at)
    if (at != instead && difference(candidates_[static_cast<std::size_t>(at)], candidate).empty())
      return "This candidate is on the list already: choose another value.";
  return {};
}

QString CandidateList::add(const RunConfig& candidate) {
  if (QString refused = refusal(candidate, -1); !refused.isEmpty()) return refused;
  std::vector<RunConfig> taken = candidates_;
  taken.push_back(first_);
  candidates_.push_back(candidate);
  candidates_.back().name = free_name(twin_name(first_, candidate), taken);
  fill(-1);
  return {};
}

QString CandidateList::changeChosen(const RunConfig& candidate) {
  const int at = list_->currentRow();
  if (at < 0) return "No candidate is chosen.";
  if (QString refused = refusal(candidate, at); !refused.isEmpty()) return refused;
  std::vector<RunConfig> taken = candidates_;
  taken.erase(taken.begin() + at);
  taken.push_back(first_);
  RunConfig& changed = candidates_[static_cast<std::size_t>(at)];
  changed = candidate;
  changed.name = free_name(twin_name(first_, candidate), taken);
  fill(at);
  return {};
}

void CandidateList::remove() {
  const int at = list_->currentRow();
  if (at < 0) return;
  candidates_.erase(candidates_.begin() + at);
  fill(std::min(at, static_cast<int>(candidates_.size()) - 1));
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
  const int rows = std::clamp(static_cast<int>(candidates_.size()), 2, kRowsShown);
  list_->setFixedHeight(rows * rowHeight() + 2 * list_->frameWidth());
  title_->setText(QString("%1 of at most %2").arg(candidates_.size()).arg(kMaxCandidates));
  remove_->setEnabled(chosen >= 0);
  steps_row_->setVisible(inGroups());
  setVisible(!candidates_.empty());
  emit changed();
}

QString CandidateList::words() const {
  QStringList sentences;
  std::vector<RunConfig> runs{first_};
  runs.insert(runs.end(), candidates_.begin(), candidates_.end());
  if (inGroups())
    sentences << QString(
                     "The candidates train in %1 groups, one after the other, each with run A from step 0 and with its "
                     "own recording; run A in the window pauses.")
                     .arg(candidate_groups(runs).size());
  const bool twin =
      std::ranges::any_of(candidates_, [this](const RunConfig& candidate) { return is_noise_twin(first_, candidate); });
  if (!twin && !candidates_.empty())
    sentences << "No candidate is a noise twin: without one, no gap can be told from chance.";
  return sentences.join(' ');
}

}  // namespace moescope
