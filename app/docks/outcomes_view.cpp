#include "app/docks/outcomes_view.h"

#include <QDir>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QProgressBar>
#include <QPushButton>
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "app/session/settings.h"
#include "core/training/engine/queue_file.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/plots/axis.h"

namespace moescope {

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

QString OutcomesView::recording() const {
  return queue_ ? QString::fromStdString(queue_->recording()) : QString();
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
  worker_.start(
      [this, groups = queue_->groups(), training = status.running ? status.group + 1 : 0](const std::stop_token& stop) {
        std::vector<Outcome> found = group_outcomes(groups);
        if (stop.stop_requested()) return;
        QMetaObject::invokeMethod(
            this, [this, found = std::move(found), training]() mutable { take(std::move(found), training); },
            Qt::QueuedConnection);
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
