// The presets that are real models in miniature, side by side: a column each, a row for each setting in which they
// differ, and the text of the chosen one.
#pragma once

#include <QDialog>

class QPlainTextEdit;
class QPushButton;
class QTableWidget;

namespace moescope {

class ModelPresetsDialog : public QDialog {
  Q_OBJECT

 public:
  // `action`: what the button does with the chosen preset, "Fill the form with %1".
  explicit ModelPresetsDialog(const QString& action, QWidget* parent = nullptr);

 signals:
  void chosen(QString preset);

 private:
  void fill();
  void showChosen();
  QString current() const;

  QString action_;
  QTableWidget* table_;
  QPlainTextEdit* about_;
  QPushButton* take_;
};

}  // namespace moescope
