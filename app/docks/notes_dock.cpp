#include "app/docks/notes_dock.h"

#include <QAction>
#include <QHBoxLayout>
#include <QInputDialog>
#include <QListWidget>
#include <QMenu>
#include <QPushButton>
#include <QShortcut>
#include <algorithm>
#include <stdexcept>

#include "app/session/run_session.h"
#include "core/recording/marks.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/selection/selection.h"

namespace moescope {

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

}  // namespace moescope
