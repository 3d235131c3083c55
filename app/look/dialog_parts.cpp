#include "app/look/dialog_parts.h"

#include <QApplication>
#include <QDialog>
#include <QDialogButtonBox>
#include <QGridLayout>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

#include "app/look/theme.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

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
