#include "app/docks/side_docks.h"

#include <QAbstractItemView>
#include <QAction>
#include <QComboBox>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QInputDialog>
#include <QLabel>
#include <QListWidget>
#include <QMainWindow>
#include <QMenu>
#include <QPainter>
#include <QPushButton>
#include <QShortcut>
#include <QSignalBlocker>
#include <QSlider>
#include <QToolButton>
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "app/look/dialog_parts.h"
#include "app/look/icons.h"
#include "app/look/messages.h"
#include "app/session/run_session.h"
#include "app/setup/field_editor.h"
#include "core/config/mixture.h"
#include "core/numerics/index.h"
#include "core/recording/marks.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/selection/selection.h"

namespace moescope {

SideDock::SideDock(const QString& title, QWidget* parent) : QDockWidget(title, parent) {
  auto* head = new QWidget(this);
  auto* name = new QLabel(title);
  name->setFont(semibold(name->font()));
  auto* close = new QToolButton;
  close->setAutoRaise(true);
  close->setFocusPolicy(Qt::TabFocus);
  followPalette(this, [this, close] { close->setIcon(picture(Picture::close, palette())); });
  close->setToolTip("Close");
  close->setAccessibleName("Close " + title);
  connect(close, &QToolButton::clicked, this, &QWidget::close);
  auto* row = new QHBoxLayout(head);
  row->setContentsMargins(kSpace12, kSpace8, kSpace8, kSpace4);
  row->addWidget(name, 1);
  row->addWidget(close);
  setTitleBarWidget(head);
  keepOffEdges(Qt::RightDockWidgetArea);
  connect(this, &QDockWidget::dockLocationChanged, this, &SideDock::keepOffEdges);
  connect(this, &QDockWidget::topLevelChanged, this, [this](bool floating) {
    keepOffEdges(floating ? Qt::NoDockWidgetArea : static_cast<QMainWindow*>(parentWidget())->dockWidgetArea(this));
  });
}

// Keeps the same margin to the window's edge as panels have; other docks are separated by Qt's gap.
void SideDock::keepOffEdges(Qt::DockWidgetArea area) {
  const bool at_left = area == Qt::LeftDockWidgetArea, at_right = area == Qt::RightDockWidgetArea;
  const bool below = area == Qt::BottomDockWidgetArea;
  setContentsMargins(1 + (at_left || below ? kSpace8 : 0), 1 + (at_left || at_right ? kSpace8 : 0),
                     1 + (at_right || below ? kSpace8 : 0), 1);
}

void SideDock::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  drawRounded(painter, surface(), isFloating() ? 0 : kRadiusPanel, QColor(c.surface), QColor(c.hairline));
}

namespace {

constexpr int kLongest = 500;  // characters: a note is shown on one line

const char* kOnlyRecordings = "Notes are kept in recordings. moescope-cli import turns this log into a recording";

std::vector<Marker> notesOf(const History* history) {
  std::vector<Marker> notes = history ? history->markers() : std::vector<Marker>{};
  std::erase_if(notes, [](const Marker& marker) { return marker.kind != kNoteKind; });
  std::ranges::stable_sort(notes, {}, &Marker::step);
  return notes;
}

}  // namespace

NotesDock::NotesDock(RunSession* session, Selection* selection, QWidget* parent)
    : SideDock("Notes", parent), session_(session), selection_(selection) {
  setObjectName("dock_notes");
  setWidget(makeContent());
  connect(selection_, &Selection::dataChanged, this, &NotesDock::fill);
  connect(selection_, &Selection::focusChanged, this, &NotesDock::fill);
}

QWidget* NotesDock::makeContent() {
  auto* content = new QWidget;
  auto* column = plainColumn(content, kSpace8);
  column->setContentsMargins(kSpace8, kSpace8, kSpace8, kSpace8);
  list_ = new QListWidget;
  list_->setObjectName("notes_list");
  list_->setAccessibleName("Notes of this run");
  list_->setWordWrap(true);
  list_->setToolTip("A click shows the note's step");
  column->addWidget(list_, 1);
  auto* row = new QHBoxLayout;
  auto* add = new QPushButton("Pin a note...");
  add->setToolTip("To the step under the cursor (M)");
  edit_ = new QPushButton("Edit...");
  remove_ = new QPushButton("Delete");
  for (QPushButton* button : {add, edit_, remove_}) row->addWidget(button);
  column->addLayout(row);
  connect(add, &QPushButton::clicked, this, [this] { ask(selection_->step()); });
  connect(edit_, &QPushButton::clicked, this, [this] { ask(chosen()); });
  connect(remove_, &QPushButton::clicked, this, [this] { pin(chosen(), {}); });
  connect(list_, &QListWidget::itemActivated, this, [this] { ask(chosen()); });
  connect(list_, &QListWidget::currentRowChanged, this, [this](int at) {
    edit_->setEnabled(at >= 0);
    remove_->setEnabled(at >= 0);
    if (at >= 0) selection_->setStep(chosen());
  });
  new QShortcut(
      QKeySequence::Delete, list_, this, [this] { pin(chosen(), {}); }, Qt::WidgetShortcut);
  edit_->setEnabled(false);
  remove_->setEnabled(false);
  return content;
}

void NotesDock::addActionsTo(QMenu* menu) {
  menu->addAction("Pin a n&ote to this step...", QKeySequence(Qt::Key_M), this, [this] { ask(selection_->step()); })
      ->setToolTip("Kept in the recording, shown on the timeline");
  QAction* dock = toggleViewAction();
  dock->setText("No&tes panel");
  dock->setShortcut(Qt::Key_F7);
  menu->addAction(dock);
}

void NotesDock::addActionsTo(QMenu* menu, qint64 step) {
  if (!selection_->history()) return;
  const bool has_note = hasNote(step);
  menu->addAction(
      has_note ? QString("&Edit the note of step %1...").arg(step) : QString("Pin a &note to step %1...").arg(step),
      this, [this, step] { ask(step); });
  if (has_note) menu->addAction("&Delete this note", this, [this, step] { pin(step, {}); });
  menu->addSeparator();
}

qint64 NotesDock::chosen() const {
  const int at = list_->currentRow();
  return at < 0 ? -1 : shown_[at].step;
}

void NotesDock::fill() {
  std::vector<Marker> notes = notesOf(selection_->history());
  if (std::ranges::equal(notes, shown_,
                         [](const Marker& a, const Marker& b) { return a.step == b.step && a.text == b.text; }))
    return;
  const QSignalBlocker quiet(list_);
  shown_ = std::move(notes);
  list_->clear();
  for (const Marker& note : shown_)
    list_->addItem("step " + groupedText(note.step) + "   " + QString::fromStdString(note.text));
  edit_->setEnabled(false);
  remove_->setEnabled(false);
}

bool NotesDock::hasNote(qint64 step) const {
  return selection_->history() && !note_at(*selection_->history(), step).empty();
}

void NotesDock::ask(qint64 step) {
  const History* history = selection_->history();
  if (!history || step < 0) return;
  auto* dialog = new QInputDialog(this);
  dialog->setObjectName("note");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setWindowTitle("Note");
  dialog->setLabelText("Note at step " + groupedText(step) + (hasNote(step) ? " (empty: delete it)" : ""));
  dialog->setTextValue(QString::fromStdString(note_at(*history, step)));
  dialog->resize(480, dialog->sizeHint().height());
  connect(dialog, &QInputDialog::textValueSelected, this, [this, step](const QString& text) { pin(step, text); });
  dialog->open();
}

void NotesDock::pin(qint64 step, const QString& text) {
  if (step < 0 || session_->histories().empty()) return;
  const std::string words = text.simplified().left(kLongest).toStdString();
  const int place = selection_->run();
  try {
    if (session_->isLive()) {
      session_->live()->pin({session_->runAt(place), step, kNoteKind, words});
    } else {
      const auto recorded = session_->recordedRun(place);
      if (!recorded) throw std::runtime_error(kOnlyRecordings);
      write_marker(recorded->file, {recorded->run, step, kNoteKind, words});
      // No other thread writes to a history after it was opened, and History is thread-safe.
      const auto history = std::const_pointer_cast<History>(session_->histories()[place]);
      history->append(Marker{session_->runAt(place), step, kNoteKind, words});
    }
  } catch (const std::exception& error) {
    emit refused(QString::fromUtf8(error.what()));
    return;
  }
  emit pinned();
}

namespace {
constexpr int kFull = 20;  // steps from one end of a slider to the other
}

MixtureEditor::MixtureEditor(QWidget* parent) : QWidget(parent) {
  grid_ = new QGridLayout(this);
  grid_->setContentsMargins(0, 0, 0, 0);
  grid_->setHorizontalSpacing(kSpace8);
  grid_->setVerticalSpacing(kSpace4);
  grid_->setColumnStretch(1, 1);
  even_ = new QPushButton("Same as the data", this);
  even_->hide();  // shown once there are domains
  even_->setToolTip(
      "No weights: built-in domains are equally frequent, all places of your own text are equally likely");
  connect(even_, &QPushButton::clicked, this, [this] { emit mixtureChosen({}); });
}

void MixtureEditor::setDomains(const std::vector<std::string>& domains) {
  if (domains == domains_) return;
  domains_ = domains;
  for (const Row& row : rows_) {
    delete row.name;
    delete row.slider;
    delete row.share;
  }
  rows_.clear();
  for (const std::string& domain : domains) {
    const QString name = QString::fromStdString(domain);
    Row row{new QLabel(name), new QSlider(Qt::Horizontal), new QLabel};
    row.slider->setRange(0, kFull);
    row.slider->setPageStep(5);
    row.slider->setAccessibleName("Weight of " + name);
    row.slider->setToolTip(QString("Weight of %1 in the batches of all runs, from the next step on").arg(name));
    row.name->setBuddy(row.slider);
    followFont(row.share,
               [share = row.share] { share->setMinimumWidth(share->fontMetrics().horizontalAdvance("100 %")); });
    row.share->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
    // While the user drags a slider only the shown shares change. A key press sets the mixture at once.
    connect(row.slider, &QSlider::valueChanged, this, [this, slider = row.slider] {
      as_data_lie_ = false;
      showShares();
      if (!slider->isSliderDown()) choose();
    });
    connect(row.slider, &QSlider::sliderReleased, this, &MixtureEditor::choose);
    followFont(row.name,
               [name = row.name] { name->setMinimumWidth(withType(kLabelColumn, name->fontMetrics()) - kSpace8); });
    const int at = to_int(rows_.size());
    grid_->addWidget(row.name, at, 0);
    grid_->addWidget(row.slider, at, 1);
    grid_->addWidget(row.share, at, 2);
    rows_.push_back(row);
  }
  grid_->addWidget(even_, to_int(rows_.size()), 0, 1, 3, Qt::AlignLeft);
  even_->show();
  setMixture({});
}

void MixtureEditor::setMixture(const std::string& text) {
  std::vector<double> weights;
  try {
    weights = mixture_weights(text, domains_);
  } catch (const std::invalid_argument&) {
    return;  // the mixture names domains of other data
  }
  as_data_lie_ = weights.empty();
  double largest = 0;
  for (const double weight : weights) largest = std::max(largest, weight);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const QSignalBlocker quiet(rows_[i].slider);
    rows_[i].slider->setValue(weights.empty() ? kFull / 2 : to_int(std::lround(kFull * weights[i] / largest)));
  }
  showShares();
}

void MixtureEditor::showShares() {
  double sum = 0;
  for (const Row& row : rows_) sum += row.slider->value();
  for (const Row& row : rows_)
    row.share->setText(as_data_lie_ ? QString()
                                    : QString("%1 %").arg(100 * row.slider->value() / std::max(sum, 1.0), 0, 'f', 0));
  even_->setEnabled(!as_data_lie_);
}

void MixtureEditor::choose() {
  MixtureEntries entries;
  double sum = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const int weight = rows_[i].slider->value();
    sum += weight;
    if (weight > 0) entries.emplace_back(domains_[i], static_cast<double>(weight) / kFull);
  }
  if (sum > 0) emit mixtureChosen(QString::fromStdString(mixture_text(entries)));
}

namespace {

std::vector<Setting> shownFields() {
  return {&RouterConfig::frozen,        &RouterConfig::force_balance, &RouterConfig::killed_experts,
          &RouterConfig::pinned_bias,   &RouterConfig::gate_noise,    &OptimizerConfig::router_lr_factor,
          &RouterConfig::score_func,    &RouterConfig::n_groups,      &RouterConfig::n_limited_groups,
          &RouterConfig::bias_centring, &RouterConfig::z_coeff};
}

QWidget* section(const QString& title, QWidget* content) {
  auto* whole = new QWidget;
  auto* name = new QLabel(title);
  name->setFont(semibold(name->font()));
  auto* column = plainColumn(whole, kSpace8);
  column->addWidget(name);
  column->addWidget(content);
  return whole;
}

}  // namespace

ActionsDock::ActionsDock(QWidget* parent) : SideDock("Actions", parent) {
  setObjectName("dock_actions");
  setAllowedAreas(Qt::LeftDockWidgetArea | Qt::RightDockWidgetArea);
  mixture_ = new MixtureEditor;
  connect(mixture_, &MixtureEditor::mixtureChosen, this,
          [this](const QString& text) { emit changeRequested(&DataConfig::mixture, text.toStdString()); });
  problem_ = problemText();
  words_ = quietText();
  auto* content = new QWidget;
  auto* column = plainColumn(content, kSpace16);
  column->setContentsMargins(kSpace12, kSpace4, kSpace12, kSpace12);
  column->addWidget(words_);
  column->addWidget(section("Router", makeFields()));
  column->addWidget(section("Text domains of all runs", mixture_));
  column->addWidget(section("Checkpoints", makeCheckpoints()));
  column->addWidget(problem_);
  column->addStretch(1);
  QScrollArea* scroll = scrollOf(content);
  for (QWidget* ground : {content, scroll->viewport()}) ground->setBackgroundRole(QPalette::Base);
  setWidget(scroll);
  followFont(this, [this] {
    setMinimumWidth(withType(290, fontMetrics()));
    setMaximumWidth(withType(420, fontMetrics()));
  });
  showConfig(nullptr, false);
  showCheckpoints({});
}

QWidget* ActionsDock::makeFields() {
  auto* fields = new QWidget;
  QGridLayout* form = fieldGrid();
  form->setContentsMargins(0, 0, 0, 0);
  form->setVerticalSpacing(kSpace4);
  fields->setLayout(form);
  for (const Setting& setting : shownFields()) {
    auto* editor = new FieldEditor(setting.field());
    addField(form, QString::fromStdString(setting.field().label), editor)->setToolTip(editor->toolTip());
    editors_.emplace(setting, editor);
    connect(editor, &FieldEditor::edited, this, [this, editor] { showProblem(editor->problem()); });
    connect(editor, &FieldEditor::committed, this, [this, editor] {
      showProblem(editor->problem());
      if (editor->problem().isEmpty()) emit changeRequested(editor->field(), *editor->value());
    });
  }
  return fields;
}

QWidget* ActionsDock::makeCheckpoints() {
  auto* content = new QWidget;
  auto* column = plainColumn(content, kSpace8);
  checkpoints_ = new QComboBox;
  checkpoints_->setAccessibleName("Checkpoint");
  checkpoints_->setToolTip(
      "Checkpoints are kept in memory and in the folder NAME.checkpoints beside the recording: one every 100 steps, at "
      "most 8 and 512 MiB, closer together near the newest step. Set-up > Telemetry changes the numbers: Checkpoints "
      "every, Checkpoints kept");
  rewind_ = new QPushButton("Rewind");
  rewind_->setToolTip("Take all runs back to this checkpoint. Later steps are deleted.");
  branch_ = new QPushButton("Branch...");
  branch_->setToolTip("Train a twin from this checkpoint on, beside the run, with another setting");
  keep_ = new QPushButton("Keep now");
  keep_->setToolTip("Keep a checkpoint of this step");
  column->addWidget(checkpoints_);
  auto* row = plainRow(kSpace8);
  for (QPushButton* button : {rewind_, branch_, keep_}) row->addWidget(button);
  column->addLayout(row);
  connect(rewind_, &QPushButton::clicked, this, [this] { emit rewindRequested(chosenCheckpoint()); });
  connect(branch_, &QPushButton::clicked, this, [this] { emit branchRequested(chosenCheckpoint()); });
  connect(keep_, &QPushButton::clicked, this, &ActionsDock::keepRequested);
  return content;
}

qint64 ActionsDock::chosenCheckpoint() const {
  return checkpoints_->currentIndex() < 0 ? -1 : checkpoints_->currentData().toLongLong();
}

void ActionsDock::showConfig(const RunConfig* config, bool live) {
  live_ = live;
  words_->setText(live ? "Each change takes effect at the next step and is marked on the timeline. Ctrl+Z undoes it."
                       : kNothingTrains);
  for (const auto& [setting, editor] : editors_) {
    editor->offer(config, live);
    if (config) editor->setValue(editor->field().get(*config));
  }
  mixture_->setEnabled(live);
  keep_->setEnabled(live);
  if (config) mixture_->setMixture(config->data.mixture);
  showProblem({});
}

void ActionsDock::showDomains(const std::vector<std::string>& domains) {
  mixture_->setDomains(domains);
}

// Lists the newest checkpoint first and keeps the selection.
void ActionsDock::showCheckpoints(const std::vector<KeptCheckpoint>& checkpoints) {
  if (checkpoints_->view()->isVisible()) return;
  const qint64 chosen = checkpoints_->currentIndex() > 0 ? chosenCheckpoint() : -1;
  const QSignalBlocker quiet(checkpoints_);
  checkpoints_->clear();
  for (auto checkpoint = checkpoints.rbegin(); checkpoint != checkpoints.rend(); ++checkpoint)
    checkpoints_->addItem(QString("step %1, %2 MB%3")
                              .arg(checkpoint->step)
                              .arg(checkpoint->bytes * 1e-6, 0, 'f', 1)
                              .arg(checkpoint->by_hand ? ", by hand" : ""),
                          static_cast<qint64>(checkpoint->step));
  if (const int at = checkpoints_->findData(chosen); at > 0) checkpoints_->setCurrentIndex(at);
  for (QWidget* widget :
       {static_cast<QWidget*>(checkpoints_), static_cast<QWidget*>(rewind_), static_cast<QWidget*>(branch_)})
    widget->setEnabled(live_ && !checkpoints.empty());
}

void ActionsDock::showProblem(const QString& problem) {
  moescope::showProblem(problem_, problem);
}

}  // namespace moescope
