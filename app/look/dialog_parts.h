// The parts of a dialog: a heading with a note beside it, fields whose labels share a column, explanations in secondary
// ink, a line that shows what is wrong, and the buttons, of which one is primary.
#pragma once

#include <QString>

class QDialog;
class QDialogButtonBox;
class QGridLayout;
class QLabel;
class QPushButton;
class QVBoxLayout;
class QWidget;

namespace moescope {

// Makes the column of a dialog with a heading and a note. Gives the dialog the background of a panel.
QVBoxLayout* dialogColumn(QDialog* dialog, const QString& heading, const QString& note = {});

// Returns a grid for dialogColumn() with rows of a label and a field. A field may be taller than its label.
QGridLayout* fieldGrid();
QLabel* addField(QGridLayout* grid, const QString& label, QWidget* field);

QLabel* quietText(const QString& text = {});  // wrapped, of the secondary size
QLabel* problemText();                        // wrapped, in the color of warnings; hidden until showProblem()
void showProblem(QLabel* label, const QString& problem);

// "Cancel" and the primary button, whose text is `does`.
QDialogButtonBox* dialogButtons(QDialog* dialog, const QString& does, QPushButton** primary);

}  // namespace moescope
