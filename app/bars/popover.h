// A frame with rows of a label and a field. It opens under a button of the bar and closes with Escape or a click
// elsewhere.
#pragma once

#include <QFrame>

class QGridLayout;
class QLabel;
class QVBoxLayout;

namespace moescope {

class Popover : public QFrame {
  Q_OBJECT

 public:
  Popover(const QString& title, QWidget* parent);

  void openUnder(QWidget* anchor);  // aligns the right edges of both, then moves the popover into the screen

 protected:
  QLabel* addRow(const QString& name, QWidget* field);
  void setNote(const QString& text);  // secondary text beside the title
  QVBoxLayout* column() const { return column_; }

  void keyPressEvent(QKeyEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  QVBoxLayout* column_;
  QGridLayout* rows_;
  QLabel* note_;
};

}  // namespace moescope
