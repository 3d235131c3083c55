// Compares the presets of published models: a column for each preset, a row for each setting in which they differ, and
// the text of the selected preset.
#pragma once

#include <QDialog>

class QPlainTextEdit;
class QPushButton;
class QTableWidget;

namespace moescope {

class ModelPresetsDialog : public QDialog {
  Q_OBJECT

 public:
  // `action`: text of the button, such as "Fill the form with %1".
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
