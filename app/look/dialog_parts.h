// The anatomy of a dialog: a heading with a note beside it, fields whose labels share a column, quiet explanations, a
// line that says what is wrong, and the buttons, of which one is primary.
#pragma once

#include <QString>

class QDialog;
class QDialogButtonBox;
class QGridLayout;
class QLabel;
class QPushButton;
class QScrollArea;
class QVBoxLayout;
class QWidget;

namespace moescope {

// Of the whole dialog, which gets the ground of a panel.
QVBoxLayout* dialogColumn(QDialog* dialog, const QString& heading, const QString& note = {});

// Rows of a label and a field for dialogColumn(); `field` may be taller than its label.
QGridLayout* fieldGrid();
QLabel* addField(QGridLayout* grid, const QString& label, QWidget* field);

QLabel* quietText(const QString& text = {});  // wrapped, of the secondary size
QLabel* problemText();                        // wrapped, in the colour of a warning; hidden until showProblem()
void showProblem(QLabel* label, const QString& problem);

QScrollArea* scrollOf(QWidget* content);  // scrolls up and down only, without a frame

// "Cancel" and the button that does what the dialog is for.
QDialogButtonBox* dialogButtons(QDialog* dialog, const QString& does, QPushButton** primary);

}  // namespace moescope
