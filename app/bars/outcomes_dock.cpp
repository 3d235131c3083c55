#include "app/bars/outcomes_dock.h"

#include <QAction>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QLocale>
#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <utility>

#include "app/bars/outcomes_panel.h"
#include "widgets/plots/type_scale.h"

namespace moescope {

namespace {

constexpr int kLookMs = 250, kOutcomesMs = 1000;
constexpr int kBarParts = 1000;

QString timeLeft(double seconds) {
  if (is_missing(static_cast<float>(seconds))) return "time left is known after two steps";
  if (seconds < 90) return QString("about %1 s left").arg(std::max(1.0, std::ceil(seconds)));
  if (seconds < 5400) return QString("about %1 min left").arg(std::round(seconds / 60));
  return QString("about %1 h left").arg(seconds / 3600, 0, 'f', 1);
}

}  // namespace

OutcomesDock::OutcomesDock(Selection* selection, QWidget* parent) : QDockWidget("Outcomes", parent) {
  setObjectName("dock_outcomes");
  setWidget(makeContent(selection));
  toggleViewAction()->setEnabled(false);  // nothing to show yet
  clock_.setInterval(kLookMs);
  connect(&clock_, &QTimer::timeout, this, &OutcomesDock::showProgress);
}

OutcomesDock::~OutcomesDock() = default;

QWidget* OutcomesDock::makeContent(Selection* selection) {
  auto* content = new QWidget;
  progress_text_ = new QLabel;
  progress_text_->setObjectName("queue_progress");
  progress_text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  bar_ = new QProgressBar;
  bar_->setRange(0, kBarParts);
  bar_->setAccessibleName("Steps of all groups");
  followFont(bar_, [this] { bar_->setFixedWidth(withType(180, bar_->fontMetrics())); });
  stop_ = new QPushButton("Cancel");
  stop_->setObjectName("queue_stop");
  connect(stop_, &QPushButton::clicked, this, [this] { training() ? cancel() : goOn(); });
  place_ = new QLabel;
  place_->setObjectName("queue_place");
  place_->setWordWrap(true);
  place_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  panel_ = new OutcomesPanel(selection);
  panel_->setTitleShown(false);
  connect(panel_, &OutcomesPanel::opened, this, &OutcomesDock::open);
  connect(panel_, &OutcomesPanel::chosen, this,
          [this](const Outcome& of) { emit runChosen(recordingOf(of), QString::fromStdString(of.name)); });
  connect(panel_, &OutcomesPanel::saved, this, &OutcomesDock::saved);
  connect(panel_, &OutcomesPanel::refused, this, &OutcomesDock::failed);

  auto* row = new QHBoxLayout;
  row->setContentsMargins(6, 2, 6, 0);
  for (QWidget* part : std::initializer_list<QWidget*>{bar_, stop_}) row->addWidget(part);
  row->addWidget(progress_text_, 1);
  auto* below = new QHBoxLayout;
  below->setContentsMargins(6, 0, 6, 4);
  below->addWidget(place_);
  auto* column = new QVBoxLayout(content);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(2);
  column->addLayout(row);
  column->addWidget(panel_, 1);
  column->addLayout(below);
  return content;
}

void OutcomesDock::start(std::vector<RunConfig> runs, std::int64_t steps, const QString& recording) {
  worker_.cancel();
  computing_ = begun_ = false;
  queue_ = std::make_unique<QueueTraining>(std::move(runs), steps, recording.toStdString());
  const std::size_t groups = queue_->groups().size();
  const auto path = [&](std::size_t g) {
    return QString::fromStdString(path_of_group(recording.toStdString(), static_cast<int>(g)));
  };
  place_->setText(
      QString("Enter or a double click on a row opens its group's recording. They are kept as %1 to %2 in %3")
          .arg(QFileInfo(path(1)).fileName(), QFileInfo(path(groups)).fileName(), QFileInfo(recording).absolutePath()));
  toggleViewAction()->setEnabled(true);
  panel_->showOutcomes(group_outcomes(queue_->groups()), 0);
  show();
  raise();
  goOn();
}

void OutcomesDock::cancel() {
  if (!queue_) return;
  queue_->cancel();
  stop_->setEnabled(false);
  progress_text_->setText("Stops after the step in flight");
}

void OutcomesDock::goOn() {
  if (!queue_) return;
  queue_->start();
  running_ = true;
  since_outcomes_.start();
  clock_.start();
  showProgress();
}

QString OutcomesDock::progressText(const QueueStatus& status) const {
  const auto groups = queue_->groups().size();
  const QLocale english(QLocale::English);
  QString text;
  if (status.running)
    text = QString("Group %1 of %2, step %3 of %4, %5")
               .arg(status.group + 1)
               .arg(groups)
               .arg(english.toString(static_cast<qlonglong>(status.step)),
                    english.toString(static_cast<qlonglong>(queue_->steps())), timeLeft(status.seconds_left));
  else if (status.done)
    text = QString("All %1 groups are done, each with the same run A to the bit").arg(groups);
  else if (!status.error.empty())
    text = "Ended: " + QString::fromStdString(status.error);
  else
    text = QString("Cancelled: %1 of %2 groups are done, the others wait").arg(status.group).arg(groups);
  if (!status.warning.empty()) text += ". " + QString::fromStdString(status.warning);
  return text;
}

void OutcomesDock::showProgress() {
  if (!queue_) return;
  const QueueStatus status = queue_->status();
  bar_->setValue(static_cast<int>(kBarParts * status.share));
  const QString text = progressText(status);
  progress_text_->setText(text);
  progress_text_->setToolTip(text);
  stop_->setText(status.running ? "Cancel" : "Continue");
  stop_->setEnabled(!status.done);
  stop_->setToolTip(status.running ? "After the step in flight; groups that have finished stay"
                                   : "Trains the groups that have not finished, from their first step");
  if (status.step > 1 && !std::exchange(begun_, true)) {
    const auto first = QString::fromStdString(path_of_group(queue_->recording(), 1));
    emit begun(first, QString::fromStdString(queue_->groups().front().runs.front().name));
  }
  const bool ended = running_ && !status.running;
  running_ = status.running;
  if (ended || since_outcomes_.elapsed() >= kOutcomesMs) computeOutcomes();
  if (!ended) return;
  if (!status.error.empty()) emit failed(QString::fromStdString(status.error));
}

// In a thread, and never twice at once: judging many long runs takes longer than a repaint.
void OutcomesDock::computeOutcomes() {
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

void OutcomesDock::take(std::vector<Outcome> outcomes, int training) {
  computing_ = false;
  panel_->showOutcomes(std::move(outcomes), training);
  if (training > 0 && !running_) computeOutcomes();  // it ended meanwhile
}

void OutcomesDock::open(const Outcome& of) {
  if (of.waits) return emit failed("This candidate waits: there is no recording of its group yet.");
  emit openRequested(recordingOf(of), QString::fromStdString(of.name));
}

QString OutcomesDock::recordingOf(const Outcome& of) const {
  return QString::fromStdString(path_of_group(queue_->recording(), of.group));
}

}  // namespace moescope
