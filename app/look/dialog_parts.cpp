#include "app/look/dialog_parts.h"

#include <QAbstractButton>
#include <QApplication>
#include <QDialog>
#include <QDialogButtonBox>
#include <QGridLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QPainter>
#include <QPushButton>
#include <QVBoxLayout>

#include "app/look/theme.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

void CardFrame::setAccented(bool accented) {
  accented_ = accented;
  update();
}

void CardFrame::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  drawRounded(painter, rect(), kRadiusPanel, QColor(c.surface), QColor(accented_ ? c.accent : c.hairline));
}

namespace {

class KeyKeeper : public QObject {
 public:
  using QObject::QObject;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override {
    if (event->type() != QEvent::ShortcutOverride && event->type() != QEvent::KeyPress) return false;
    auto* key = static_cast<QKeyEvent*>(event);
    if (key->modifiers() & ~Qt::KeypadModifier) return false;
    const bool enter = key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter;
    if (event->type() == QEvent::KeyPress) {
      auto* button = qobject_cast<QAbstractButton*>(watched);
      if (!enter || !button) return false;
      button->click();
      return true;
    }
    if (enter || key->key() == Qt::Key_Space || (key->key() >= Qt::Key_Left && key->key() <= Qt::Key_Down))
      event->accept();
    return false;
  }
};

}  // namespace

void keepKeys(QWidget* button) {
  button->installEventFilter(new KeyKeeper(button));
}

QVBoxLayout* dialogColumn(QDialog* dialog, const QString& heading, const QString& note) {
  dialog->setBackgroundRole(QPalette::Base);
  dialog->setAutoFillBackground(true);
  auto* title = new QLabel(heading);
  setType(title, Type::heading, true);
  auto* head = plainRow(kSpace8);
  head->addWidget(title);
  auto* label = new QLabel(note);
  label->setForegroundRole(QPalette::PlaceholderText);
  head->addWidget(label, 1);
  auto* column = plainColumn(dialog, kSpace12);
  column->setContentsMargins(kSpace16, kSpace16, kSpace16, kSpace16);
  column->addLayout(head);
  return column;
}

QGridLayout* fieldGrid() {
  auto* grid = new QGridLayout;
  grid->setHorizontalSpacing(kSpace8);
  grid->setVerticalSpacing(kSpace8);
  grid->setColumnStretch(1, 1);
  grid->setColumnMinimumWidth(0, withType(kLabelColumn, QFontMetrics(QApplication::font())) - kSpace8);
  return grid;
}

// Aligns the label with the first line of a tall field.
QLabel* addField(QGridLayout* grid, const QString& label, QWidget* field) {
  auto* name = new QLabel(label);
  name->setBuddy(field);
  const int height = withType(kFieldHeight, name->fontMetrics()), row = grid->rowCount();
  name->setMinimumHeight(height);
  grid->addWidget(name, row, 0, Qt::AlignTop);
  grid->addWidget(field, row, 1);
  grid->setRowMinimumHeight(row, height);
  return name;
}

QLabel* quietText(const QString& text) {
  auto* label = new QLabel(text);
  label->setWordWrap(true);
  label->setForegroundRole(QPalette::PlaceholderText);
  setType(label, Type::secondary);
  return label;
}

QLabel* problemText() {
  auto* label = new QLabel;
  label->setWordWrap(true);
  label->setForegroundRole(QPalette::WindowText);
  label->hide();
  return label;
}

void showProblem(QLabel* label, const QString& problem) {
  QPalette warning = label->palette();
  warning.setColor(QPalette::WindowText, warningColor(warning));
  label->setPalette(warning);
  label->setText(problem);
  label->setVisible(!problem.isEmpty());
}

QDialogButtonBox* dialogButtons(QDialog* dialog, const QString& does, QPushButton** primary) {
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Cancel);
  *primary = buttons->addButton(does, QDialogButtonBox::AcceptRole);
  (*primary)->setProperty(kPrimaryProperty, true);
  buttons->button(QDialogButtonBox::Cancel)->setAutoDefault(false);  // Return presses the primary button
  QObject::connect(buttons, &QDialogButtonBox::rejected, dialog, &QDialog::reject);
  return buttons;
}

}  // namespace moescope
