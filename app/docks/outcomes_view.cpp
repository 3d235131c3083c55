#include "app/docks/outcomes_view.h"

#include <QAbstractTableModel>
#include <QApplication>
#include <QDir>
#include <QFileInfo>
#include <QFont>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QMenu>
#include <QProgressBar>
#include <QPushButton>
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "app/session/settings.h"
#include "core/config/config_difference.h"
#include "core/findings/comparison/verdict_words.h"
#include "core/training/engine/run_queue.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/setting_labels.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/axis.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

namespace {

enum OutcomeColumn {
  kCandidateColumn,
  kDiffersColumn,
  kGroupColumn,
  kStepsColumn,
  kGapColumn,
  kHalfColumn,
  kVerdictColumn,
  kGradientColumn,
  kFlipsColumn,
  kUnderflowColumn,
  kWorstSqnrColumn,
  kMeanSqnrColumn,
  kLossColumn,
  kOutcomeColumns
};

struct OutcomeHead {
  const char *name, *tip;
  float (*figure)(const Outcome&) = nullptr;  // nullptr: the column holds text
};
constexpr OutcomeHead kOutcomeHeads[kOutcomeColumns] = {
    {"candidate", "Name of the run in its group's recording"},
    {"differs in", "Settings in which it differs from run A"},
    {"group", "Group in which the candidate trains beside run A",
     [](const Outcome& o) { return static_cast<float>(o.group); }},
    {"steps", "Steps taken so far",
     [](const Outcome& o) { return o.waits ? kNoValue : static_cast<float>(o.figures.steps); }},
    {"gap to A, nats/token",
     "Mean of its loss minus run A's on the same batches, over the last half of the steps: of the validation loss "
     "where it is measured from the start, else of the training loss; measured",
     [](const Outcome& o) { return o.conclusion.gap; }},
    {"+-",
     "Half of the 95 % interval of the gap, nats/token, by the noise twins, wider the more candidates there are; "
     "computed from measured losses",
     [](const Outcome& o) { return o.conclusion.half_width; }},
    {"verdict", "Verdict: whether the gap is larger than chance and large enough to matter"},
    {"gradient error", "|g - r| / |r| of all tensors, r the gradient of an FP32 pass; as last measured",
     [](const Outcome& o) { return o.costs.gradient_error; }},
    {"flips", "Share of tokens that rounding sends to other experts, mean over layers; as last measured",
     [](const Outcome& o) { return o.costs.flips; }},
    {"flushed to zero", "Largest share of an operand's values that became zero; as last measured",
     [](const Outcome& o) { return o.costs.flushed; }},
    {"lowest SQNR, dB", kSqnrNote, [](const Outcome& o) { return o.sqnr.worst_db; }},
    {"mean SQNR, dB", kSqnrNote, [](const Outcome& o) { return o.sqnr.mean_db; }},
    {"loss, nats/token", "Mean over the last 100 steps; measured",
     [](const Outcome& o) { return o.figures.mean_loss; }},
};

bool isText(int column) {
  return !kOutcomeHeads[column].figure;
}

float figureOf(const Outcome& o, int column) {
  return isText(column) ? kNoValue : kOutcomeHeads[column].figure(o);
}

// Shows more digits for small gaps, since the gap of a noise twin may be 1e-6.
QString nats(float value) {
  if (is_missing(value)) return {};
  const bool tiny = value != 0 && std::abs(value) < 0.5e-5f;
  return tiny ? formatValue(value, 2) : withMinus(QString::number(static_cast<double>(value), 'f', 5));
}

bool isRunA(const Outcome& o) {
  return o.differs.empty();
}

}  // namespace

class OutcomesModel : public QAbstractTableModel {
 public:
  using QAbstractTableModel::QAbstractTableModel;

  void setRows(std::vector<Outcome> rows, int training) {
    training_ = training;
    const bool unchanged = rows.size() == rows_.size();
    if (!unchanged) beginResetModel();
    rows_ = std::move(rows);
    arrange();
    if (!unchanged) return endResetModel();
    if (!rows_.empty()) emit dataChanged(index(0, 0), index(rowCount() - 1, kOutcomeColumns - 1));
  }
  const std::vector<Outcome>& rows() const { return rows_; }
  int rowOf(const std::string& name) const { return index_in(rows_, name, &Outcome::name); }

  int rowCount(const QModelIndex& parent = {}) const override {
    return parent.isValid() ? 0 : to_int(std::ssize(rows_));
  }
  int columnCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : kOutcomeColumns; }

  QVariant data(const QModelIndex& index, int role) const override {
    const Outcome& o = rows_[index.row()];
    if (role == Qt::TextAlignmentRole && !isText(index.column())) return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    if (role == Qt::DisplayRole) return text(o, index.column());
    if (role == Qt::FontRole && isRunA(o)) {
      QFont bold = QApplication::font("QAbstractItemView");
      bold.setBold(true);
      return bold;
    }
    if (role == Qt::ForegroundRole && o.waits) return mutedText(QApplication::palette());
    if (role == Qt::ToolTipRole) return tip(o, index.column());
    return {};
  }

  QVariant headerData(int section, Qt::Orientation orientation, int role) const override {
    if (orientation == Qt::Vertical) return role == Qt::DisplayRole ? QVariant(section + 1) : QVariant();
    const OutcomeHead& head = kOutcomeHeads[section];
    if (role == Qt::DisplayRole)
      return section == kHalfColumn ? QStringLiteral("\u00b1") : QString::fromUtf8(head.name);
    if (role == Qt::ToolTipRole)
      return QStringLiteral("%1. Click, or S in the table, sorts").arg(QLatin1String(head.tip));
    return {};
  }

  void sort(int column, Qt::SortOrder order) override {
    column_ = column;
    order_ = order;
    if (rows_.empty()) return;
    arrange();
    emit dataChanged(index(0, 0), index(rowCount() - 1, kOutcomeColumns - 1));
  }

  QString text(const Outcome& o, int column) const {
    const float value = figureOf(o, column);
    switch (column) {
      case kCandidateColumn:
        return QString::fromStdString(o.name);
      case kDiffersColumn:
        return isRunA(o) ? QStringLiteral("(run A)") : QString::fromStdString(o.differs);
      case kGroupColumn:
        return isRunA(o) ? QStringLiteral("all") : QString::number(o.group);
      case kVerdictColumn:
        return verdict(o);
      case kStepsColumn:
        return o.waits ? QString() : formatCount(o.figures.steps);
      case kGapColumn:
        return (value > 0 ? QStringLiteral("+") : QString()) + nats(value);
      case kHalfColumn:
        return nats(value);
      case kLossColumn:
        return is_missing(value) ? QString() : QString::number(static_cast<double>(value), 'f', 4);
      case kWorstSqnrColumn:
      case kMeanSqnrColumn:
        if (std::isinf(value)) return QStringLiteral("exact");
        return is_missing(value) ? QString() : QString::number(static_cast<double>(value), 'f', 1);
      default:
        return is_missing(value) ? QString() : formatPercent(value);
    }
  }

 private:
  // Marks verdicts of a group in training as preliminary.
  QString verdict(const Outcome& o) const {
    const QString words = QString::fromStdString(verdict_words(o));
    if (o.waits || o.noise_twin || isRunA(o) || o.group != training_) return words;
    const VerdictWord word = verdict_word(o.conclusion);
    const bool has_interval = word != VerdictWord::too_early && word != VerdictWord::not_judged;
    return has_interval ? QStringLiteral("so far: ") + words : words;
  }

  QString tip(const Outcome& o, int column) const {
    if (const std::string verdict = verdict_sentence(o.conclusion); column == kVerdictColumn && !verdict.empty())
      return QString::fromStdString(verdict);
    if (column == kUnderflowColumn && !is_missing(o.costs.flushed)) return QString::fromStdString(underflow_place(o));
    if (column == kWorstSqnrColumn || column == kMeanSqnrColumn) return QString::fromStdString(to_text(o.sqnr));
    return text(o, column);
  }

  // Sorts the rows: run A stays first, rows without a value stay last.
  void arrange() {
    if (rows_.empty()) return;
    std::stable_sort(rows_.begin() + 1, rows_.end(), [this](const Outcome& a, const Outcome& b) {
      const bool up = order_ == Qt::AscendingOrder;
      if (isText(column_)) {
        const QString text_a = text(a, column_), text_b = text(b, column_);
        return up ? text_a < text_b : text_b < text_a;
      }
      const float figure_a = figureOf(a, column_), figure_b = figureOf(b, column_);
      if (std::isnan(figure_a) || std::isnan(figure_b)) return !std::isnan(figure_a) && std::isnan(figure_b);
      return up ? figure_a < figure_b : figure_a > figure_b;
    });
  }

  std::vector<Outcome> rows_;
  int training_ = 0;
  int column_ = kGapColumn;
  Qt::SortOrder order_ = Qt::AscendingOrder;
};

OutcomesTable::OutcomesTable(QWidget* parent) : QTableView(parent) {
  model_ = new OutcomesModel(this);
  setObjectName("outcomes_table");
  hide();  // until there is a row
  setModel(model_);
  setSortingEnabled(true);
  sortByColumn(kGapColumn, Qt::AscendingOrder);
  setSelectionBehavior(QAbstractItemView::SelectRows);
  setSelectionMode(QAbstractItemView::SingleSelection);
  setAlternatingRowColors(true);
  setWordWrap(false);
  setAccessibleName("Outcomes of run A and its candidates");
  verticalHeader()->hide();
  horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  horizontalHeader()->setSectionResizeMode(kDiffersColumn, QHeaderView::Stretch);
  setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
  followFont(this, [this] {
    verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 4);
    horizontalHeader()->setMinimumSectionSize(fontMetrics().averageCharWidth() * 6);
  });
  connect(this, &QTableView::activated, this, [this](const QModelIndex& at) { emit opened(outcomeAt(at)); });
  connect(this, &QTableView::clicked, this, [this](const QModelIndex& at) { emit chosen(outcomeAt(at)); });
}

void OutcomesTable::showOutcomes(std::vector<Outcome> outcomes, int training) {
  const QModelIndex current = currentIndex();
  const std::string name = current.isValid() ? outcomeAt(current).name : std::string();
  outcomes_ = outcomes;
  model_->setRows(std::move(outcomes), training);
  show();
  for (const int column : {kGradientColumn, kFlipsColumn, kUnderflowColumn, kWorstSqnrColumn, kMeanSqnrColumn})
    setColumnHidden(column, !isMeasured(column));
  const int row = name.empty() ? -1 : model_->rowOf(name);
  if (row >= 0 && row != currentIndex().row()) setCurrentIndex(model_->index(row, current.column()));
}

const Outcome& OutcomesTable::outcomeAt(const QModelIndex& index) const {
  return model_->rows()[index.row()];
}

void OutcomesTable::sortByCurrentColumn() {
  const QModelIndex at = currentIndex();
  if (!at.isValid()) return;
  const QHeaderView* header = horizontalHeader();
  const bool is_same_column = header->sortIndicatorSection() == at.column();
  const bool down = is_same_column && header->sortIndicatorOrder() == Qt::AscendingOrder;
  sortByColumn(at.column(), down ? Qt::DescendingOrder : Qt::AscendingOrder);
}

bool OutcomesTable::event(QEvent* event) {
  const bool is_key = event->type() == QEvent::KeyPress || event->type() == QEvent::ShortcutOverride;
  const auto* key = is_key ? static_cast<QKeyEvent*>(event) : nullptr;
  if (!key || key->key() != Qt::Key_S || key->modifiers() != Qt::NoModifier) return QTableView::event(event);
  event->accept();
  if (event->type() == QEvent::KeyPress) sortByCurrentColumn();
  return true;
}

int OutcomesTable::heightFor(int rows) const {
  return horizontalHeader()->sizeHint().height() + 2 * frameWidth() + rows * verticalHeader()->defaultSectionSize();
}

bool OutcomesTable::isMeasured(int column) const {
  return std::ranges::any_of(outcomes_, [column](const Outcome& o) { return !is_missing(figureOf(o, column)); });
}

QString OutcomesTable::notMeasured() const {
  QStringList keys;
  if (!isMeasured(kGradientColumn)) keys << QStringLiteral("gradient error (telemetry.gradient_every)");
  if (!isMeasured(kFlipsColumn)) keys << QStringLiteral("flips (telemetry.flips_every)");
  const bool begun = std::ranges::any_of(outcomes_, [](const Outcome& o) { return !o.waits && o.figures.steps > 1; });
  return keys.isEmpty() || !begun ? QString()
                                  : QString("Run A does not measure: %1. ").arg(withSettingLabels(keys.join(", ")));
}

namespace {

constexpr int kLookMs = 250, kOutcomesMs = 1000;
constexpr int kBarParts = 1000;
constexpr int kMinRows = 3, kMaxRows = 8;  // rows for which the view asks for room

QString timeLeft(double seconds) {
  if (is_missing(static_cast<float>(seconds))) return "time left is known after two steps";
  return aboutDuration(seconds) + " left";
}

// Returns for example "20261123-150000-nano-groups: 1 of 3 groups done, 7 candidates, 400 steps".
QString queueText(const QString& path) {
  const QString name = QFileInfo(path).completeBaseName();
  try {
    const QueueState state = load_queue(path.toStdString());
    return QString("%1: %2 of %3 done, %4, %5")
        .arg(name)
        .arg(state.finished)
        .arg(countedText(candidate_groups(state.runs).size(), "group"), countedText(state.runs.size() - 1, "candidate"),
             countedText(state.steps, "step"));
  } catch (const std::runtime_error&) {
    return name + ": cannot be read";  // opening the queue shows why
  }
}

}  // namespace

OutcomesView::OutcomesView(QWidget* parent) : QWidget(parent) {
  table_ = new OutcomesTable(this);
  connect(table_, &OutcomesTable::opened, this, &OutcomesView::open);
  connect(table_, &OutcomesTable::chosen, this, [this](const Outcome& outcome) {
    emit runChosen(recordingOf(outcome), QString::fromStdString(outcome.name));
  });
  place_ = new QLabel(this);
  place_->setObjectName("queue_place");
  place_->setWordWrap(true);
  place_->setText("Compare (key C) takes up to sixteen candidates, which train in groups, one after the other.");
  place_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  plainColumn(this, kSpace4);
  addProgress();
  layout()->addWidget(table_);
  layout()->addWidget(place_);
  clock_.setInterval(kLookMs);
  connect(&clock_, &QTimer::timeout, this, &OutcomesView::showProgress);
}

void OutcomesView::addProgress() {
  auto* row = new QWidget(this);
  auto* parts = plainRow(row, kSpace8);
  progress_text_ = new QLabel(row);
  progress_text_->setObjectName("queue_progress");
  progress_text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  bar_ = new QProgressBar(row);
  bar_->setRange(0, kBarParts);
  bar_->setAccessibleName("Steps of all groups");
  followFont(bar_, [this] { bar_->setFixedWidth(withType(180, bar_->fontMetrics())); });
  stop_ = new QPushButton("Cancel", row);
  stop_->setObjectName("queue_stop");
  connect(stop_, &QPushButton::clicked, this, [this] { training() ? cancel() : goOn(); });
  for (QWidget* part : std::initializer_list<QWidget*>{bar_, stop_}) part->hide();  // hidden until a queue trains
  queues_ = new QMenu(row);
  queues_->setProperty("fills_itself", true);
  connect(queues_, &QMenu::aboutToShow, this, &OutcomesView::fillQueues);
  auto* take_up = new QPushButton("Earlier candidates", row);
  take_up->setObjectName("queue_take_up");
  take_up->setToolTip("Shows the results of earlier candidates, and trains the groups that have not finished");
  take_up->setMenu(queues_);
  for (QWidget* part : std::initializer_list<QWidget*>{bar_, stop_, take_up}) parts->addWidget(part);
  parts->addWidget(progress_text_, 1);
  layout()->addWidget(row);
}

QSize OutcomesView::sizeHint() const {
  if (table_->isHidden()) return QWidget::sizeHint();
  const int rows = std::clamp(to_int(outcomes().size()), kMinRows, kMaxRows);
  return {QWidget::sizeHint().width(),
          QWidget::sizeHint().height() - table_->sizeHint().height() + table_->heightFor(rows)};
}

void OutcomesView::start(std::unique_ptr<RunQueue> queue) {
  worker_.cancel();
  computing_ = false;
  queue_ = std::move(queue);
  for (QWidget* part : std::initializer_list<QWidget*>{bar_, stop_}) part->show();
  table_->showOutcomes(group_outcomes(queue_->groups()), 0);
  showPlace();
  emit shown();
  goOn();
}

void OutcomesView::showPlace() {
  const auto name = [&](std::size_t group) {
    return QFileInfo(QString::fromStdString(path_of_group(queue_->recording(), to_int(group)))).fileName();
  };
  place_->setText(
      table_->notMeasured() +
      QString("Enter or a double click on a row opens its group's recording. The recordings are kept as %1 to %2 in %3")
          .arg(name(1), name(queue_->groups().size()), QFileInfo(recording()).absolutePath()));
}

// Lists the queues in the folder of recordings, the newest first.
void OutcomesView::fillQueues() {
  queues_->clear();
  const QDir folder(recordingsFolder());
  for (const QString& file : folder.entryList({QString("*") + kQueueSuffix}, QDir::Files, QDir::Time)) {
    const QString path = folder.filePath(file);
    queues_->addAction(queueText(path), this, [this, path] { emit takeUpRequested(path); });
  }
  if (queues_->isEmpty()) queues_->addAction("No earlier candidates among this window's recordings")->setEnabled(false);
  queues_->addSeparator();
  queues_->addAction("Others...", this, [this] { emit takeUpRequested({}); });
}

void OutcomesView::end() {
  clock_.stop();
  queue_.reset();
}

void OutcomesView::cancel() {
  if (!queue_) return;
  queue_->cancel();
  stop_->setEnabled(false);
  progress_text_->setText("Stops after the current step");
}

void OutcomesView::goOn() {
  if (!queue_) return;
  queue_->start();
  running_ = true;
  begun_ = false;
  since_outcomes_.start();
  clock_.start();
  showProgress();
}

QString OutcomesView::progressText(const QueueStatus& status) const {
  const auto groups = queue_->groups().size();
  QString text;
  if (status.running)
    text = QString("Group %1 of %2, step %3 of %4, %5")
               .arg(status.group + 1)
               .arg(groups)
               .arg(groupedText(status.step), groupedText(queue_->steps()), timeLeft(status.seconds_left));
  else if (status.done)
    text = QString("All %1 groups are done, each with the same run A to the bit").arg(groups);
  else if (!status.error.empty())
    text = "Ended: " + QString::fromStdString(status.error);
  else
    text = QString("Cancelled: %1 of %2 groups are done, the others wait").arg(status.group).arg(groups);
  if (!status.warning.empty()) text += ". " + QString::fromStdString(status.warning);
  return text;
}

void OutcomesView::showProgress() {
  if (!queue_) return;
  const QueueStatus status = queue_->status();
  bar_->setValue(static_cast<int>(kBarParts * status.share));
  const QString text = progressText(status);
  progress_text_->setText(text);
  progress_text_->setToolTip(text);
  stop_->setText(status.running ? "Cancel" : "Continue");
  stop_->setEnabled(!status.done);
  stop_->setToolTip(status.running ? "Stops after the current step; groups that have finished are kept"
                                   : "Trains the groups that have not finished, from their first step");
  if (status.step > 1 && !std::exchange(begun_, true)) {
    const auto path = QString::fromStdString(path_of_group(queue_->recording(), status.group + 1));
    emit begun(path, QString::fromStdString(queue_->groups().front().runs.front().name));
  }
  const bool ended = running_ && !status.running;
  running_ = status.running;
  if (ended || since_outcomes_.elapsed() >= kOutcomesMs) computeOutcomes();
  if (!ended) return;
  if (!status.error.empty()) emit failed(QString::fromStdString(status.error));
}

// Computes the outcomes in a thread, one computation at a time: judging many long runs takes longer than a repaint.
void OutcomesView::computeOutcomes() {
  if (computing_) return;
  computing_ = true;
  since_outcomes_.restart();
  const QueueStatus status = queue_->status();
  if (!status.running) clock_.stop();
  worker_.compute(
      this, [groups = queue_->groups()](const auto&) { return group_outcomes(groups); },
      [this, training = status.running ? status.group + 1 : 0](std::vector<Outcome> found) {
        take(std::move(found), training);
      });
}

void OutcomesView::take(std::vector<Outcome> outcomes, int training) {
  computing_ = false;
  table_->showOutcomes(std::move(outcomes), training);
  showPlace();
  if (training > 0 && !running_) computeOutcomes();  // the group ended while the outcomes were computed
}

void OutcomesView::open(const Outcome& outcome) {
  if (outcome.waits) return emit failed("This candidate waits: there is no recording of its group yet.");
  emit openRequested(recordingOf(outcome), QString::fromStdString(outcome.name));
}

QString OutcomesView::recordingOf(const Outcome& outcome) const {
  return QString::fromStdString(path_of_group(queue_->recording(), outcome.group));
}

}  // namespace moescope
