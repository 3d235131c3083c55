// The parts of a dialog: a heading with a note beside it, fields whose labels share a column, explanations in secondary
// ink, a line that shows what is wrong, and the buttons, of which one is primary. Also cards.
#pragma once

#include <QFrame>
#include <QString>

class QDialog;
class QDialogButtonBox;
class QGridLayout;
class QLabel;
class QPushButton;
class QVBoxLayout;
class QWidget;

namespace moescope {

// A rounded surface with a hairline border.
class CardFrame : public QFrame {
 public:
  using QFrame::QFrame;
  void setAccented(bool accented);  // draws the border in the accent color

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  bool accented_ = false;
};

// Lets a focused button receive Space, Return and the arrow keys, which the window's single-key shortcuts would take.
void keepKeys(QWidget* button);

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
