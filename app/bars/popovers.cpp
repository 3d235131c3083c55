#include "app/bars/popovers.h"

#include <QAction>
#include <QComboBox>
#include <QGridLayout>
#include <QIntValidator>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QPainter>
#include <QPainterPath>
#include <QScreen>
#include <QVBoxLayout>
#include <algorithm>
#include <limits>

#include "app/look/dialog_parts.h"
#include "app/setup/field_editor.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

PacePopover::PacePopover(QWidget* parent) : Popover("Pace", parent), speed_(new QComboBox), until_(new QLineEdit) {
  setObjectName("pace_popover");
  speed_->addItem("as fast as possible", 0.0);
  for (double limit : {60.0, 10.0, 1.0}) speed_->addItem(QString("%1 steps/s").arg(limit), limit);
  connect(speed_, &QComboBox::activated, this, [this] { emit speedRequested(speed_->currentData().toDouble()); });
  addRow("Speed", speed_);
  until_->setPlaceholderText("end of the schedule");
  until_->setValidator(new QIntValidator(0, std::numeric_limits<int>::max(), until_));
  connect(until_, &QLineEdit::editingFinished, this, &PacePopover::onUntilEdited);
  connect(until_, &QLineEdit::returnPressed, this, &QWidget::hide);
  until_name_ = addRow("Until step", until_);
  words_ = quietText();
  column()->addWidget(words_);
  setTraining(true);
}

void PacePopover::showUntil(std::optional<qint64> step) {
  until_->setText(step ? QString::number(*step) : QString());
}

void Popover::setNote(const QString& text) {
  note_->setText(text);
}

void PacePopover::setTraining(bool training) {
  for (QWidget* part : {static_cast<QWidget*>(until_), static_cast<QWidget*>(until_name_)}) part->setVisible(training);
  words_->setText(
      training ? "Training pauses before this step. If no step is set, it pauses at the end of the schedule; continued "
                 "after it, it does not pause by itself."
               : "At \"as fast as possible\" a recording is replayed in 10 s.");
}

void PacePopover::onUntilEdited() {
  bool ok = false;
  const qint64 step = until_->text().toLongLong(&ok);
  emit untilRequested(ok ? std::optional(step) : std::nullopt);
}

Popover::Popover(const QString& title, QWidget* parent)
    : QFrame(parent, Qt::Popup), column_(new QVBoxLayout(this)), rows_(new QGridLayout), note_(new QLabel) {
  setAccessibleName(title);
  auto* head = plainRow(kSpace8);
  auto* name = new QLabel(title);
  name->setFont(semibold(name->font()));
  head->addWidget(name);
  note_->setForegroundRole(QPalette::PlaceholderText);
  head->addWidget(note_, 1);
  column_->setContentsMargins(kSpace16, kSpace12, kSpace16, kSpace12);
  column_->setSpacing(kSpace8);
  column_->addLayout(head);
  rows_->setHorizontalSpacing(kSpace8);
  rows_->setVerticalSpacing(kSpace8);
  rows_->setColumnStretch(1, 1);
  column_->addLayout(rows_);
  followFont(this, [this] {
    setFixedWidth(withType(kPopoverWidth, fontMetrics()));
    rows_->setColumnMinimumWidth(0, withType(kLabelColumn, fontMetrics()) - kSpace8);
  });
}

QLabel* Popover::addRow(const QString& name, QWidget* field) {
  auto* label = new QLabel(name);
  label->setBuddy(field);
  const int row = rows_->rowCount();
  rows_->addWidget(label, row, 0);
  rows_->addWidget(field, row, 1);
  return label;
}

void Popover::openUnder(QWidget* anchor) {
  adjustSize();
  const QRect screen = anchor->screen()->availableGeometry();
  QPoint at = anchor->mapToGlobal(QPoint(anchor->width() - width(), anchor->height() + kSpace4));
  at.setX(std::clamp(at.x(), screen.left(), std::max(screen.left(), screen.right() - width())));
  at.setY(std::clamp(at.y(), screen.top(), std::max(screen.top(), screen.bottom() - height())));
  move(at);
  show();
}

// The window receives no shortcuts while a popup is open, so the popover closes and triggers the action of the key.
// Single letters and Space are left out, since they belong to the fields.
void Popover::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Escape) return hide();
  const bool is_shortcut = event->modifiers() & (Qt::ControlModifier | Qt::AltModifier) ||
                           (event->key() >= Qt::Key_F1 && event->key() <= Qt::Key_F35);
  const QKeySequence key(event->keyCombination());
  for (QAction* action : is_shortcut ? parentWidget()->window()->findChildren<QAction*>() : QList<QAction*>()) {
    if (!action->isEnabled() || action->shortcutContext() != Qt::WindowShortcut || !action->shortcuts().contains(key))
      continue;
    hide();
    return action->trigger();
  }
  QFrame::keyPressEvent(event);
}

void Popover::resizeEvent(QResizeEvent* event) {
  QFrame::resizeEvent(event);
  QPainterPath shape;
  shape.addRoundedRect(rect(), kRadiusPanel, kRadiusPanel);
  setMask(QRegion(shape.toFillPolygon().toPolygon()));
}

void Popover::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  drawRounded(painter, rect(), kRadiusPanel, QColor(c.popup), QColor(c.field_border));
}

LivePopover::LivePopover(QWidget* parent) : Popover("Live settings", parent) {
  setObjectName("live_popover");
  addField(&OptimizerConfig::lr);
  addField(&RouterConfig::bias_update_rate);
  addField(&RouterConfig::aux_mode);
  addField(&RouterConfig::aux_coeff);
  addField(&RouterConfig::top_k);
  addField(&PrecisionConfig::experts);
  addField(&PrecisionConfig::operands);
  addFoot();
  showConfig(nullptr, false);
}

void LivePopover::addField(Setting setting) {
  auto* editor = new FieldEditor(setting.field());
  QLabel* name = addRow(QString::fromStdString(setting.field().label), editor);
  offerTwins(name, editor->field(),
             {.present = [editor] { return editor->value().value_or(editor->field().get(RunConfig{})); },
              .possible = [this] { return live_; },
              .chosen = [this, setting](const ConfigValue& value) { emit twinRequested(setting, value); },
              .other = [this, setting] { emit compareRequested(setting); }});
  editors_[setting] = editor;
  names_[setting] = name;
  connect(editor, &FieldEditor::edited, this, [this, editor] { showProblem(editor->problem()); });
  connect(editor, &FieldEditor::committed, this, [this, editor] { onCommitted(editor); });
}

void LivePopover::addFoot() {
  problem_ = problemText();
  problem_->setObjectName("live_problem");
  column()->addWidget(problem_);
  column()->addWidget(
      quietText("Each change takes effect at the next step and is marked on the timeline. Ctrl+Z undoes it."));
  auto* all = new LinkLabel("<a href=\"#\">All settings</a>");
  connect(all, &QLabel::linkActivated, this, &LivePopover::allSettingsRequested);
  column()->addWidget(all);
}

// Undo and redo leave the popover open; its own key closes it.
void LivePopover::keyPressEvent(QKeyEvent* event) {
  if (event->matches(QKeySequence::Undo)) return emit undoRequested();
  if (event->matches(QKeySequence::Redo)) return emit redoRequested();
  if (event->key() == Qt::Key_F4) return hide();
  Popover::keyPressEvent(event);
}

void LivePopover::onCommitted(FieldEditor* editor) {
  showProblem(editor->problem());
  if (editor->problem().isEmpty()) emit changeRequested(editor->field(), *editor->value());
}

void LivePopover::showConfig(const RunConfig* config, bool live) {
  live_ = live;
  for (const auto& [setting, editor] : editors_) {
    editor->offer(config, live);
    names_.at(setting)->setToolTip(editor->toolTip());
    config ? editor->setValue(editor->field().get(*config)) : editor->clear();  // clears the values of the previous run
  }
  if (config) editors_.at(&RouterConfig::top_k)->setUnit(QString("of %1").arg(config->model.n_experts));
  showProblem({});
}

void LivePopover::showProblem(const QString& problem) {
  moescope::showProblem(problem_, problem);
  if (isVisible()) adjustSize();
}

FieldEditor* LivePopover::editor(Setting setting) const {
  const auto found = editors_.find(setting);
  return found == editors_.end() ? nullptr : found->second;
}

}  // namespace moescope
