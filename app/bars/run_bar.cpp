#include "app/bars/run_bar.h"

#include <QAction>
#include <QComboBox>
#include <QEvent>
#include <QHBoxLayout>
#include <QIntValidator>
#include <QLabel>
#include <QLineEdit>
#include <QLocale>
#include <limits>

#include "app/bars/preset_list.h"
#include "app/bars/run_chips.h"
#include "app/bars/shortened_label.h"
#include "app/look/icons.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

QString valueOf(const RunConfig& config, const char* key) {
  return QString::fromStdString(to_string(find_field(key)->get(config)));
}

QWidget* labelled(const QString& text, QWidget* editor) {
  auto* box = new QWidget;
  auto* row = new QHBoxLayout(box);
  row->setContentsMargins(6, 0, 0, 0);
  row->setSpacing(4);
  auto* label = new QLabel(text);
  label->setBuddy(editor);
  row->addWidget(label);
  row->addWidget(editor);
  box->setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Preferred);
  return box;
}

}  // namespace

QString balancingSummary(const RunConfig& config) {
  if (config.router.force_balance) return "forced round-robin";
  QStringList parts;
  if (config.router.balance_rule != BalanceRule::sign)
    parts << valueOf(config, "router.balance_rule");
  else if (config.router.bias_update_rate > 0)
    parts << "bias " + valueOf(config, "router.bias_update_rate");
  if (config.router.aux_mode != AuxMode::none && config.router.aux_coeff > 0)
    parts << valueOf(config, "router.aux_mode") + " loss " + valueOf(config, "router.aux_coeff");
  return parts.isEmpty() ? "no balancing" : parts.join(" + ");
}

QString runSummary(const RunConfig& config) {
  return QString("experts in %1, top-%2 of %3, %4, %5")
      .arg(valueOf(config, "precision.experts"))
      .arg(config.router.top_k)
      .arg(config.model.n_experts)
      .arg(valueOf(config, "router.score_func"), balancingSummary(config));
}

RunBar::RunBar(QWidget* parent) : QToolBar("Run bar", parent) {
  setObjectName("run_bar");
  setMovable(false);
  setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  setIconSize({16, 16});
  makeActions();
  makePace();
  addSeparator();
  makePreset();
  makeChips();
  drawPictures();
  showNothing();
}

void RunBar::makeActions() {
  setup_ = addAction("Set-up");
  setup_->setCheckable(true);
  setup_->setToolTip("Show or hide the settings of the run (F2)");
  addSeparator();
  run_ = addAction("Run");
  run_->setShortcut(Qt::Key_Space);
  run_->setWhatsThis("Run or pause");
  connect(run_, &QAction::triggered, this, [this] { emit runRequested(!running_); });
  step_ = addAction("Step");
  step_->setShortcut(Qt::Key_Period);
  step_->setWhatsThis("Train exactly one step, or show the next of a recording");
  step_->setToolTip("Train exactly one step, or show the next of a recording (.)");
  connect(step_, &QAction::triggered, this, &RunBar::stepRequested);
  reset_ = addAction("Reset");
  reset_->setShortcut(Qt::Key_R);
  reset_->setWhatsThis("Reset: start this run again from step 0");
  reset_->setToolTip(
      "Start this run again from step 0 with its present settings (R); its recording stays. In a recording: back to "
      "its first step");
  connect(reset_, &QAction::triggered, this, &RunBar::resetRequested);
  count_ = new QLabel;
  // Of one size, so that a new number does not arrange the bar anew.
  followFont(count_, [this] {
    const QFontMetrics metrics = count_->fontMetrics();
    count_->setFixedSize(metrics.horizontalAdvance("step 00,000,000"), metrics.height());
  });
  count_->setAlignment(Qt::AlignCenter);
  count_->setAccessibleName("Steps taken");
  count_->setToolTip("Steps taken since the start of the run");
  addWidget(count_);
}

void RunBar::makePace() {
  speed_ = new QComboBox;
  speed_->addItem("max", 0.0);
  for (double limit : {60.0, 10.0, 1.0}) speed_->addItem(QString("%1/s").arg(limit), limit);
  speed_->setToolTip(
      "Limit of steps per second, to watch single steps. max: as fast as possible; a recording is replayed in 10 s");
  speed_->setFocusPolicy(Qt::TabFocus);
  connect(speed_, &QComboBox::activated, this, [this] { emit speedRequested(speed_->currentData().toDouble()); });
  addWidget(labelled("Speed", speed_));
  until_ = new QLineEdit;
  until_->setPlaceholderText("no end");
  until_->setValidator(new QIntValidator(0, std::numeric_limits<int>::max(), until_));
  followFont(until_, [this] { until_->setFixedWidth(until_->fontMetrics().horizontalAdvance("0000000000")); });
  until_->setToolTip("Pause before this step; empty: train on");
  connect(until_, &QLineEdit::editingFinished, this, &RunBar::onUntilEdited);
  addWidget(labelled("Until", until_));
}

void RunBar::onUntilEdited() {
  until_->clearFocus();
  bool ok = false;
  const qint64 step = until_->text().toLongLong(&ok);
  emit untilRequested(ok ? std::optional(step) : std::nullopt);
}

void RunBar::showUntil(std::optional<qint64> step) {
  until_->setText(step ? QString::number(*step) : QString());
}

void RunBar::makePreset() {
  preset_ = new PresetList;
  const auto add = [this](const std::string& name) {
    preset_->add(QString::fromStdString(name), QString::fromStdString(load_preset(name).config.name));
  };
  for (const std::string& name : preset_names()) add(name);
  preset_->insertSeparator(preset_->count());
  for (const std::string& name : comparison_preset_names()) add(name);
  preset_->setPlaceholderText("own settings");
  preset_->setCurrentIndex(-1);
  preset_->setToolTip("Start a new run of this preset; those below the line are several runs side by side");
  preset_->setFocusPolicy(Qt::TabFocus);
  preset_->setAccessibleName("Preset");
  connect(preset_, &QComboBox::activated, this, [this] { emit presetRequested(preset_->currentText()); });
  addWidget(labelled("Preset", preset_));
}

void RunBar::makeChips() {
  addSeparator();
  chips_ = new RunChips;
  addWidget(chips_);
  summary_ = new ShortenedLabel(Qt::ElideRight);
  summary_->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  summary_->setMinimumWidth(10);  // the bar gives it what is left; the tool tip has all of it
  summary_->setAccessibleName("Settings of the active run");
  addWidget(summary_);
}

void RunBar::drawPictures() {
  setup_->setIcon(picture(Picture::settings, palette()));
  run_->setIcon(picture(running_ ? Picture::pause : Picture::play, palette()));
  step_->setIcon(picture(Picture::step, palette()));
  reset_->setIcon(picture(Picture::reset, palette()));
}

void RunBar::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) drawPictures();
  QToolBar::changeEvent(event);
}

void RunBar::setRunning(bool running) {
  running_ = running;
  run_->setText(running ? "Pause" : "Run");
  run_->setToolTip(running ? "Pause after this step (Space)" : "Train on (Space)");
  run_->setIcon(picture(running ? Picture::pause : Picture::play, palette()));
}

void RunBar::setControlsEnabled(bool live) {
  for (QAction* action : {run_, step_}) action->setEnabled(live);
  for (QWidget* widget : {static_cast<QWidget*>(speed_), static_cast<QWidget*>(until_)}) widget->setEnabled(live);
}

void RunBar::showNothing() {
  setControlsEnabled(false);
  reset_->setEnabled(false);
  setRunning(false);
  count_->setText("no run");
  summary_->clear();
}

void RunBar::showRun(const RunConfig& config) {
  setControlsEnabled(true);
  reset_->setEnabled(true);
  setRunning(running_);  // after a replay it says "Play"
  const QString summary = QString::fromStdString(config.name) + ": " + runSummary(config);
  summary_->setText(summary);
  summary_->setToolTip(summary);
  preset_->choose(QString::fromStdString(config.name));
}

void RunBar::showRecording(const QString& what, const RunConfig* config) {
  setControlsEnabled(true);
  until_->setEnabled(false);
  reset_->setEnabled(true);
  setRunning(false);
  count_->setText(what.section(' ', 0, 0));
  const QString summary = what + (config ? ": " + runSummary(*config) : QString());
  summary_->setText(summary);
  summary_->setToolTip(summary);
  preset_->setCurrentIndex(-1);
}

void RunBar::showReplay(bool playing, std::int64_t step) {
  if (playing != running_) setRunning(playing);
  run_->setText(playing ? "Pause" : "Play");
  run_->setToolTip(playing ? "Pause the replay (Space)" : "Replay the recording from the cursor on (Space)");
  count_->setText("step " + QLocale(QLocale::English).toString(static_cast<qlonglong>(step)));
}

void RunBar::showFollowing(const QString& name) {
  showRecording(name, nullptr);
  setControlsEnabled(false);
  reset_->setEnabled(false);
  count_->setText("following");
  summary_->setText("following " + name);
}

void RunBar::showStatus(const LabStatus& status) {
  if (status.running != running_) setRunning(status.running);
  count_->setText("step " + QLocale(QLocale::English).toString(static_cast<qlonglong>(status.step)));
}

}  // namespace moescope
